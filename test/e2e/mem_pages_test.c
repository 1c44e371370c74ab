/* Goal: pages of spaces with pointers are fetched on touch, once for all references of a process,
 * within the configured limit, and correctly under concurrent touches. Method: over shm and udp
 * with a lend-mn process; the cache's counters show what was fetched, the bytes that it was right.
 * Covers: cn/paging/page_fetch.c, cn/paging/page_cache.c, cn/paging/paged_view.c,
 * cn/paging/pager.c, cn/paging/readahead.c, cn/paging/page_source.c */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUITE mem_pages
#include "e2e/mem_view.h"
#include "util/rng.h"

/* A snapshot that is mapped again, by itself or as a slice on the same pages, is not fetched
 * again. */
NET(the_cache_serves_every_reference_of_the_process)
{
	enum { LEN = 40 * PAGE };
	char *in = malloc(LEN);
	struct lend_mem_cache_stat before, after;
	struct lend_ref ref, slice;
	lend_space space;

	mem_fill(in, LEN, 6);
	ref = mem_put(node->mem, in, LEN, NULL);
	space = mem_map(node->mem, &ref);
	cr_assert(!memcmp(mem_pointer(node, space), in, LEN));
	mem_free_space(node->mem, space);
	before = mem_cache();
	cr_assert_geq(before.pages_used, 40);

	space = mem_map(node->mem, &ref);
	cr_assert(!memcmp(mem_pointer(node, space), in, LEN));
	mem_free_space(node->mem, space);
	cr_assert_eq(lend_ref_slice(&ref, 3 * PAGE, 30 * PAGE, LEND_READ | LEND_MAP, &slice), 0);
	space = mem_map(node->mem, &slice);
	cr_assert(!memcmp(mem_pointer(node, space), in + 3 * PAGE, 30 * PAGE));
	mem_free_space(node->mem, space);
	after = mem_cache();
	cr_assert_eq(after.misses, before.misses);
	cr_assert_eq(after.hits, before.hits + 70);

	/* Slices at another page offset are other pages; and bytes past a slice must not be
	 * visible. */
	cr_assert_eq(lend_ref_slice(&ref, 100, 5 * PAGE + 10, LEND_READ | LEND_MAP, &slice), 0);
	space = mem_map(node->mem, &slice);
	cr_assert(!memcmp(mem_pointer(node, space), in + 100, 5 * PAGE + 10));
	for (size_t i = 5 * PAGE + 10; i < 6 * PAGE; i++)
		cr_assert_eq(mem_pointer(node, space)[i], 0);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

/* The last page of a slice is shorter than the snapshot's. */
NET(a_part_of_a_page_is_not_the_page)
{
	char in[6 * PAGE];
	struct lend_ref ref, slice;
	lend_space part, whole;

	mem_fill(in, sizeof(in), 12);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	cr_assert_eq(lend_ref_slice(&ref, 0, 2 * PAGE + 10, LEND_READ | LEND_MAP, &slice), 0);
	part = mem_map(node->mem, &slice);
	cr_assert(!memcmp(mem_pointer(node, part), in, 2 * PAGE + 10));
	whole = mem_map(node->mem, &ref);
	cr_assert(!memcmp(mem_pointer(node, whole), in, sizeof(in)));
	mem_free_space(node->mem, part);
	part = mem_map(node->mem, &slice);
	cr_assert_eq(mem_pointer(node, part)[2 * PAGE + 10], 0);
	mem_free_space(node->mem, part);
	mem_free_space(node->mem, whole);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

NET(the_cache_is_bounded)
{
	enum { LEN = 100 * PAGE };
	static const uint64_t limit[] = {0, PAGE, 16 * PAGE + 5, 100 * PAGE, 101 * PAGE};
	char *in = malloc(LEN);
	struct lend_ref ref;

	mem_fill(in, LEN, 7);
	ref = mem_put(node->mem, in, LEN, NULL);
	for (size_t i = 0; i < sizeof(limit) / sizeof(limit[0]); i++) {
		struct lend_mem_cache_stat before = mem_cache(), after;

		cr_assert_eq(lend_mem_cache_limit(limit[i]), 0);
		for (int round = 0; round < 2; round++) {
			lend_space space = mem_map(node->mem, &ref);

			cr_assert(!memcmp(mem_pointer(node, space), in, LEN));
			mem_free_space(node->mem, space);
		}
		after = mem_cache();
		cr_assert_eq(after.pages_max, limit[i] / PAGE);
		cr_assert_leq(after.pages_used, after.pages_max);
		cr_assert_eq(after.hits - before.hits + after.misses - before.misses, 200);
		if (limit[i] >= LEN)
			cr_assert_eq(after.hits - before.hits, 100);
		else
			cr_assert(!limit[i] || after.evictions > before.evictions);
	}
	cr_assert_eq(lend_mem_cache_limit((UINT64_C(1) << 40) + 1), -EINVAL);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

NET(prefetched_pages_are_touched_without_a_fault)
{
	enum { LEN = 700 * PAGE + 11 };
	char *in = malloc(LEN), *p;
	struct lend_mem_cache_stat before;
	struct lend_ref ref;
	lend_space space;

	mem_fill(in, LEN, 8);
	ref = mem_put(node->mem, in, LEN, NULL);
	space = mem_map(node->mem, &ref);
	p = mem_pointer(node, space);
	cr_assert_eq(p[600 * PAGE], in[600 * PAGE]);
	before = mem_cache();
	cr_assert_eq(mem_prefetch(node, space, 5 * PAGE - 1, LEN - 5 * PAGE + 1), LEND_OK);
	cr_assert_eq(mem_prefetch(node, space, 5 * PAGE - 1, LEN - 5 * PAGE + 1), LEND_OK);
	cr_assert(!memcmp(p + 4 * PAGE, in + 4 * PAGE, LEN - 4 * PAGE));
	cr_assert_eq(mem_cache().faults, before.faults);
	/* All but the touched page, which is fetched again if the pager thread has not marked it
	 * present yet. */
	cr_assert_geq(mem_cache().prefetched - before.prefetched, 696);
	cr_assert_leq(mem_cache().prefetched - before.prefetched, 697);
	p[0] = 1;
	cr_assert_eq(mem_cache().faults, before.faults + 1);
	cr_assert_eq(mem_prefetch(node, space, 0, LEN), LEND_OK);
	cr_assert_eq(p[0], 1, "a prefetch leaves what is here");
	cr_assert_eq(mem_prefetch(node, space, 0, 0), LEND_OK);
	cr_assert_eq(mem_prefetch(node, space, 1, LEN), LEND_OUT_OF_RANGE);
	cr_assert_eq(mem_prefetch(node, space, UINT64_MAX, 2), LEND_OUT_OF_RANGE);
	mem_free_space(node->mem, space);
	space = mem_alloc(node->mem, 10 * PAGE);
	p = mem_pointer(node, space);
	before = mem_cache();
	cr_assert_eq(mem_prefetch(node, space, 0, 10 * PAGE), LEND_OK);
	cr_assert_eq(p[9 * PAGE], 0);
	cr_assert_eq(mem_cache().faults, before.faults);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

/* A scan waits a few times, not once per page; random touches fetch only the touched page. */
NET(read_ahead_follows_the_touches)
{
	enum { N = 2048 };
	char *in = malloc(N * PAGE), *p;
	struct lend_mem_cache_stat a, b, c;
	struct lend_ref ref;
	lend_space space;

	mem_fill(in, N * PAGE, 9);
	ref = mem_put(node->mem, in, N * PAGE, NULL);
	cr_assert_eq(lend_mem_cache_limit(0), 0);
	space = mem_map(node->mem, &ref);
	p = mem_pointer(node, space);
	a = mem_cache();
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(p[i * PAGE], in[i * PAGE]);
	b = mem_cache();
	cr_assert_eq(b.misses - a.misses, N);
	cr_assert_lt(b.faults - a.faults, 60);
	cr_assert_gt(b.ahead - a.ahead, N - 60);
	mem_free_space(node->mem, space);
	space = mem_map(node->mem, &ref);
	p = mem_pointer(node, space);
	b = mem_cache();
	for (size_t i = 0; i < N / 16; i++) {
		size_t page = i * 1663 % (N / 2) * 2;

		cr_assert_eq(p[page * PAGE], in[page * PAGE]);
	}
	c = mem_cache();
	cr_assert_eq(c.misses - b.misses, N / 16);
	cr_assert_eq(c.ahead, b.ahead);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

enum { THREADS = 48, SHARED = 512 }; /* more than can wait at once */
struct toucher {
	const char *p, *want;
	uint64_t seed;
	size_t wrong;
};

static void *touch_all(void *arg)
{
	struct toucher *t = arg;
	struct lend_rng rng;

	lend_rng_seed(&rng, t->seed);
	for (size_t i = 0; i < SHARED; i++) {
		size_t at = lend_rng_below(&rng, SHARED * PAGE);

		t->wrong += t->p[at] != t->want[at];
	}
	for (size_t i = 0; i < SHARED; i++) /* all threads fault on the same pages at once */
		t->wrong += memcmp(t->p + i * PAGE, t->want + i * PAGE, PAGE) != 0;
	return NULL;
}

ALL(threads_touch_at_once)
{
	char *in = malloc(SHARED * PAGE);
	struct lend_ref ref;

	mem_fill(in, SHARED * PAGE, 11);
	ref = mem_put(node->mem, in, SHARED * PAGE, NULL);
	for (uint64_t round = 0; round < 4; round++) {
		struct toucher t[THREADS];
		pthread_t thread[THREADS];
		lend_space space = mem_map(node->mem, &ref);

		cr_assert_eq(lend_mem_cache_limit(round % 2 ? 100 * PAGE : 0), 0);
		for (uint64_t i = 0; i < THREADS; i++) {
			t[i] = (struct toucher){mem_pointer(node, space), in, round * 10 + i, 0};
			cr_assert_eq(pthread_create(&thread[i], NULL, touch_all, &t[i]), 0);
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(thread[i], NULL);
			cr_assert_eq(t[i].wrong, 0, "seed %llu", (unsigned long long)t[i].seed);
		}
		mem_free_space(node->mem, space);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

static bool blocks_all_signals(const char *thread)
{
	char path[300], line[200];
	unsigned long long blocked = 0;
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	while (!found && (entry = readdir(dir))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			found = found || (!strncmp(line, "Name:\t", 6) &&
					  !strncmp(line + 6, thread, strlen(thread)));
			sscanf(line, "SigBlk: %llx", &blocked);
		}
		if (file)
			fclose(file);
	}
	closedir(dir);
	cr_assert(found, "no thread %s", thread);
	return (blocked >> (SIGUSR1 - 1) & 1) && (blocked >> (SIGTERM - 1) & 1);
}

/* A signal handler may touch such memory: the pager thread, which would have to serve it, runs
 * none. */
NET(the_pager_runs_no_signal_handlers)
{
	lend_space space = mem_alloc(node->mem, PAGE);
	sigset_t mask;

	cr_assert_eq(mem_pointer(node, space)[0], 0);
	cr_assert(blocks_all_signals("lend-pager"));
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	cr_assert_not(sigismember(&mask, SIGUSR1), "the caller's are as they were");
	mem_free_space(node->mem, space);
}
