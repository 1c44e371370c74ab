/* Goal: a space with a pointer is the space: what is read is what the node has, byte for byte; what
 * is stored is private and is all that a seal sends; what cannot be had is said.
 * Method: each test over shm, udp and a pool with a lend-mn of its own process; sizes in pairs
 * around a page, a window of read-ahead and a part; the endpoint's bytes, the node's and the
 * cache's counters are the witnesses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "lend/stats.h"
#include "util/rng.h"

#define SECOND UINT64_C(1000000000)

enum { PAGE = 4096 };

#define ON(name, carrier)                                                                          \
	Test(mem_pointer, name##_##carrier)                                                        \
	{                                                                                          \
		struct mem_node node;                                                              \
		mem_node_start(&node, #carrier, "64M", "");                                        \
		name(&node);                                                                       \
		mem_node_stop(&node);                                                              \
	}
/* What is about fetching: a pool's pages are here. */
#define NET(name)                                                                                  \
	static void name(struct mem_node *node);                                                   \
	ON(name, shm)                                                                              \
	ON(name, udp)                                                                              \
	static void name(struct mem_node *node)
#define ALL(name)                                                                                  \
	static void name(struct mem_node *node);                                                   \
	ON(name, shm)                                                                              \
	ON(name, udp)                                                                              \
	ON(name, pool)                                                                             \
	static void name(struct mem_node *node)

static lend_space map(struct mem_node *node, const struct lend_ref *ref)
{
	struct lend_op op = {.timeout = SECOND * 5};
	lend_space space = {0};

	cr_assert_eq(mem_end(node->mem, &op, lend_space_map(node->mem, ref, &space, &op)), LEND_OK);
	return space;
}

static lend_space alloc(struct mem_node *node, uint64_t len)
{
	struct lend_op op = {.timeout = SECOND * 5};
	lend_space space = {0};

	cr_assert_eq(mem_end(node->mem, &op, lend_space_alloc(node->mem, len, &space, &op)),
		     LEND_OK);
	return space;
}

static void free_space(struct mem_node *node, lend_space space)
{
	struct lend_op op = {.timeout = SECOND * 5};

	cr_assert_eq(mem_end(node->mem, &op, lend_space_free(node->mem, space, &op)), LEND_OK);
}

static char *pointer(struct mem_node *node, lend_space space)
{
	char *p = lend_space_pointer(node->mem, space);

	cr_assert(p, "%s", lend_why());
	cr_assert_eq(p, lend_space_pointer(node->mem, space));
	return p;
}

static enum lend_status seal(struct mem_node *node, lend_space space, uint64_t at, uint64_t len,
			     struct lend_ref *ref)
{
	struct lend_op op = {.timeout = SECOND * 5};
	enum lend_status status =
	    mem_end(node->mem, &op, lend_space_seal(node->mem, space, at, len, NULL, &op));

	*ref = op.ref;
	return status;
}

static enum lend_status prefetch(struct mem_node *node, lend_space space, uint64_t at, uint64_t len)
{
	struct lend_op op = {.timeout = SECOND * 5};

	return mem_end(node->mem, &op, lend_space_prefetch(node->mem, space, at, len, &op));
}

static struct lend_mem_cache_stat cache(void)
{
	struct lend_mem_cache_stat stat;

	lend_mem_cache_stat(&stat);
	return stat;
}

static uint64_t sent(struct mem_node *node)
{
	struct lend_stats stats;

	lend_stats(node->ep, &stats);
	return stats.tx_bytes;
}

static void expect_ref(struct mem_node *node, const struct lend_ref *ref, const char *want,
		       size_t len)
{
	char *got = malloc(len + 1);

	cr_assert_eq(lend_ref_len(ref), len);
	cr_assert_eq(mem_get(node->mem, ref, 0, got, len), LEND_OK);
	cr_assert(!memcmp(got, want, len), "a snapshot of %zu bytes is another", len);
	free(got);
}

ALL(sizes)
{
	static const size_t size[] = {1,     4095,    4096,          4097,
				      65536, 1 << 20, (1 << 20) + 1, (8 << 20) + 1};

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		char *in = malloc(size[i]), *p;
		struct lend_ref ref, changed;
		lend_space space;

		mem_fill(in, size[i], i + 1);
		ref = mem_put(node->mem, in, size[i], NULL);
		space = map(node, &ref);
		p = pointer(node, space);
		cr_assert(!memcmp(p, in, size[i]), "%zu bytes came as others", size[i]);
		p[size[i] / 2] ^= 1;
		p[size[i] - 1] ^= 2;
		cr_assert_eq(seal(node, space, 0, size[i], &changed), LEND_OK);
		expect_ref(node, &ref, in, size[i]);
		in[size[i] / 2] ^= 1;
		in[size[i] - 1] ^= 2;
		expect_ref(node, &changed, in, size[i]);
		cr_assert_eq(lend_space_intact(node->mem, space), 0);
		free_space(node, space);
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
		cr_assert_eq(mem_release(node->mem, &changed), LEND_OK);
		free(in);
	}
}

ALL(a_new_space_is_zeros_without_asking)
{
	lend_space space = alloc(node, 3 * PAGE + 5);
	struct lend_mem_cache_stat before = cache();
	char want[3 * PAGE + 5] = {0}, *p = pointer(node, space);
	struct lend_ref ref;

	cr_assert(!memcmp(p, want, sizeof(want)));
	p[PAGE] = want[PAGE] = 7;
	p[3 * PAGE + 4] = want[3 * PAGE + 4] = 9;
	cr_assert_eq(seal(node, space, 0, sizeof(want), &ref), LEND_OK);
	expect_ref(node, &ref, want, sizeof(want));
	cr_assert_eq(cache().misses, before.misses);
	cr_assert_eq(cache().zeros, before.zeros);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* A space that was written to before has bytes that are no snapshot's. */
ALL(written_before)
{
	char in[5 * PAGE], part[100];
	struct iovec iov = {part, sizeof(part)};
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref;
	lend_space space, fresh;

	mem_fill(in, sizeof(in), 1);
	mem_fill(part, sizeof(part), 2);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	fresh = map(node, &ref);
	cr_assert(!memcmp(pointer(node, fresh), in, sizeof(in)));
	space = map(node, &ref);
	cr_assert_eq(
	    mem_end(node->mem, &op, lend_space_write(node->mem, space, PAGE - 50, &iov, 1, &op)),
	    LEND_OK);
	memcpy(in + PAGE - 50, part, sizeof(part));
	cr_assert(!memcmp(pointer(node, space), in, sizeof(in)));
	free_space(node, space);
	free_space(node, fresh);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

NET(a_seal_sends_the_stored_pages_alone)
{
	enum { LEN = 300 * PAGE };
	char *in = malloc(LEN), *p;
	struct lend_ref ref, a, b, c;
	lend_space space;
	uint64_t before;

	mem_fill(in, LEN, 3);
	ref = mem_put(node->mem, in, LEN, NULL);
	space = map(node, &ref);
	p = pointer(node, space);
	cr_assert(!memcmp(p, in, LEN));
	p[10 * PAGE] = in[10 * PAGE] = 1;
	p[11 * PAGE + 1] = in[11 * PAGE + 1] = 1;
	p[200 * PAGE] = in[200 * PAGE] = 1;
	before = sent(node);
	cr_assert_eq(seal(node, space, 0, LEN, &a), LEND_OK);
	cr_assert_gt(sent(node) - before, 3 * PAGE);
	cr_assert_lt(sent(node) - before, 4 * PAGE);
	expect_ref(node, &a, in, LEN);
	before = sent(node);
	cr_assert_eq(seal(node, space, 0, LEN, &b), LEND_OK);
	cr_assert_lt(sent(node) - before, PAGE, "nothing was stored since");
	p[11 * PAGE + 1] = in[11 * PAGE + 1] = 2; /* a page that was sent is told of anew */
	cr_assert_eq(seal(node, space, 0, LEN, &c), LEND_OK);
	expect_ref(node, &c, in, LEN);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &a), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &b), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &c), LEND_OK);
	free(in);
}

/* The second finds nothing stored any more, and must not overtake what the first one sends. */
ALL(seals_at_once)
{
	enum { LEN = 512 * PAGE, SEALS = 4 };
	static char want[LEN], *p;
	lend_space space = alloc(node, LEN);
	struct lend_op op[SEALS];

	p = pointer(node, space);
	for (int round = 1; round < 8; round++) {
		for (size_t i = 0; i < LEN; i += PAGE)
			p[i] = want[i] = (char)round;
		for (int i = 0; i < SEALS; i++) {
			op[i] = (struct lend_op){.timeout = SECOND * 5};
			cr_assert_eq(lend_space_seal(node->mem, space, 0, LEN, NULL, &op[i]), 0);
		}
		for (int i = 0; i < SEALS; i++) {
			cr_assert_eq(mem_end(node->mem, &op[i], 0), LEND_OK);
			expect_ref(node, &op[i].ref, want, LEN);
			cr_assert_eq(mem_release(node->mem, &op[i].ref), LEND_OK);
		}
	}
	free_space(node, space);
}

struct busy {
	volatile char *p;
	atomic_bool *stop;
};

static void *store_on(void *arg)
{
	struct busy *b = arg;

	for (size_t i = 0; !atomic_load(b->stop); i++)
		b->p[i * PAGE % (16 * PAGE)]++;
	return NULL;
}

/* It goes over its range once: who stores on does not keep it from its end. */
NET(a_seal_ends_while_others_store)
{
	lend_space space = alloc(node, 16 * PAGE);
	atomic_bool stop = false;
	struct busy busy = {pointer(node, space), &stop};
	pthread_t thread;
	struct lend_ref ref;

	cr_assert_eq(pthread_create(&thread, NULL, store_on, &busy), 0);
	for (int i = 0; i < 100; i++) {
		struct lend_mem_stat before, after;

		mem_stat(node->mem, &before);
		cr_assert_eq(seal(node, space, 0, 16 * PAGE, &ref), LEND_OK);
		mem_stat(node->mem, &after);
		cr_assert_leq(after.ops - before.ops, 16 + 2, "a page was sent twice");
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	free_space(node, space);
}

ALL(a_seal_of_a_part_leaves_the_rest_for_later)
{
	char in[8 * PAGE], *p;
	lend_space space = alloc(node, sizeof(in));
	struct lend_ref part, whole;

	p = pointer(node, space);
	mem_fill(in, sizeof(in), 4);
	memcpy(p, in, sizeof(in));
	cr_assert_eq(seal(node, space, PAGE + 1, 2 * PAGE, &part), LEND_OK);
	expect_ref(node, &part, in + PAGE + 1, 2 * PAGE);
	cr_assert_eq(seal(node, space, 0, sizeof(in), &whole), LEND_OK);
	expect_ref(node, &whole, in, sizeof(in));
	cr_assert_eq(mem_release(node->mem, &part), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &whole), LEND_OK);
	cr_assert_eq(seal(node, space, 1, sizeof(in), &part), LEND_OUT_OF_RANGE);
	free_space(node, space);
}

ALL(reads_and_writes_are_copies_in_their_place)
{
	char in[3 * PAGE], out[3 * PAGE] = {0}, *p;
	struct iovec put[] = {{in, 100}, {in + 100, sizeof(in) - 100}}, get = {out, sizeof(out)};
	struct lend_op w = {.timeout = SECOND}, s = {.timeout = SECOND}, r = {.timeout = SECOND};
	lend_space space = alloc(node, sizeof(in) + 1);

	p = pointer(node, space);
	mem_fill(in, sizeof(in), 5);
	cr_assert_eq(lend_space_write(node->mem, space, 1, put, 2, &w), 0);
	cr_assert_eq(lend_space_seal(node->mem, space, 1, sizeof(in), NULL, &s), 0);
	cr_assert_eq(lend_space_read(node->mem, space, 1, &get, 1, &r), 0);
	cr_assert_eq(mem_end(node->mem, &w, 0), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &r, 0), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &s, 0), LEND_OK);
	cr_assert(!memcmp(in, out, sizeof(in)) && !memcmp(p + 1, in, sizeof(in)));
	expect_ref(node, &s.ref, in, sizeof(in));
	r = (struct lend_op){.timeout = SECOND};
	cr_assert_eq(mem_end(node->mem, &r, lend_space_read(node->mem, space, 2, &get, 1, &r)),
		     LEND_OUT_OF_RANGE);
	r = (struct lend_op){.timeout = SECOND};
	cr_assert_eq(
	    mem_end(node->mem, &r, lend_space_read(node->mem, space, UINT64_MAX, &get, 1, &r)),
	    LEND_OUT_OF_RANGE);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &s.ref), LEND_OK);
}

/* Mapped again, by itself or as a slice on the same pages, a snapshot is not fetched again. */
NET(the_cache_serves_every_reference_of_the_process)
{
	enum { LEN = 40 * PAGE };
	char *in = malloc(LEN);
	struct lend_mem_cache_stat before, after;
	struct lend_ref ref, slice;
	lend_space space;

	mem_fill(in, LEN, 6);
	ref = mem_put(node->mem, in, LEN, NULL);
	space = map(node, &ref);
	cr_assert(!memcmp(pointer(node, space), in, LEN));
	free_space(node, space);
	before = cache();
	cr_assert_geq(before.pages_used, 40);

	space = map(node, &ref);
	cr_assert(!memcmp(pointer(node, space), in, LEN));
	free_space(node, space);
	cr_assert_eq(lend_ref_slice(&ref, 3 * PAGE, 30 * PAGE, LEND_READ | LEND_MAP, &slice), 0);
	space = map(node, &slice);
	cr_assert(!memcmp(pointer(node, space), in + 3 * PAGE, 30 * PAGE));
	free_space(node, space);
	after = cache();
	cr_assert_eq(after.misses, before.misses);
	cr_assert_eq(after.hits, before.hits + 70);

	/* Other places of pages are other pages; and what lies past a slice is not to be seen. */
	cr_assert_eq(lend_ref_slice(&ref, 100, 5 * PAGE + 10, LEND_READ | LEND_MAP, &slice), 0);
	space = map(node, &slice);
	cr_assert(!memcmp(pointer(node, space), in + 100, 5 * PAGE + 10));
	for (size_t i = 5 * PAGE + 10; i < 6 * PAGE; i++)
		cr_assert_eq(pointer(node, space)[i], 0);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

/* The last page of a slice is less than the snapshot's. */
NET(a_part_of_a_page_is_not_the_page)
{
	char in[6 * PAGE];
	struct lend_ref ref, slice;
	lend_space part, whole;

	mem_fill(in, sizeof(in), 12);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	cr_assert_eq(lend_ref_slice(&ref, 0, 2 * PAGE + 10, LEND_READ | LEND_MAP, &slice), 0);
	part = map(node, &slice);
	cr_assert(!memcmp(pointer(node, part), in, 2 * PAGE + 10));
	whole = map(node, &ref);
	cr_assert(!memcmp(pointer(node, whole), in, sizeof(in)));
	free_space(node, part);
	part = map(node, &slice);
	cr_assert_eq(pointer(node, part)[2 * PAGE + 10], 0);
	free_space(node, part);
	free_space(node, whole);
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
		struct lend_mem_cache_stat before = cache(), after;

		cr_assert_eq(lend_mem_cache_limit(limit[i]), 0);
		for (int round = 0; round < 2; round++) {
			lend_space space = map(node, &ref);

			cr_assert(!memcmp(pointer(node, space), in, LEN));
			free_space(node, space);
		}
		after = cache();
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
	space = map(node, &ref);
	p = pointer(node, space);
	cr_assert_eq(p[600 * PAGE], in[600 * PAGE]);
	before = cache();
	cr_assert_eq(prefetch(node, space, 5 * PAGE - 1, LEN - 5 * PAGE + 1), LEND_OK);
	cr_assert_eq(prefetch(node, space, 5 * PAGE - 1, LEN - 5 * PAGE + 1), LEND_OK);
	cr_assert(!memcmp(p + 4 * PAGE, in + 4 * PAGE, LEN - 4 * PAGE));
	cr_assert_eq(cache().faults, before.faults);
	cr_assert_eq(cache().prefetched - before.prefetched, 696);
	p[0] = 1;
	cr_assert_eq(cache().faults, before.faults + 1);
	cr_assert_eq(prefetch(node, space, 0, LEN), LEND_OK);
	cr_assert_eq(p[0], 1, "a prefetch leaves what is here");
	cr_assert_eq(prefetch(node, space, 0, 0), LEND_OK);
	cr_assert_eq(prefetch(node, space, 1, LEN), LEND_OUT_OF_RANGE);
	cr_assert_eq(prefetch(node, space, UINT64_MAX, 2), LEND_OUT_OF_RANGE);
	free_space(node, space);
	space = alloc(node, 10 * PAGE);
	p = pointer(node, space);
	before = cache();
	cr_assert_eq(prefetch(node, space, 0, 10 * PAGE), LEND_OK);
	cr_assert_eq(p[9 * PAGE], 0);
	cr_assert_eq(cache().faults, before.faults);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

/* A scan waits a few times, not once per page; random touches fetch no page but their own. */
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
	space = map(node, &ref);
	p = pointer(node, space);
	a = cache();
	for (size_t i = 0; i < N; i++)
		cr_assert_eq(p[i * PAGE], in[i * PAGE]);
	b = cache();
	cr_assert_eq(b.misses - a.misses, N);
	cr_assert_lt(b.faults - a.faults, 60);
	cr_assert_gt(b.ahead - a.ahead, N - 60);
	free_space(node, space);
	space = map(node, &ref);
	p = pointer(node, space);
	b = cache();
	for (size_t i = 0; i < N / 16; i++) {
		size_t page = i * 1663 % (N / 2) * 2;

		cr_assert_eq(p[page * PAGE], in[page * PAGE]);
	}
	c = cache();
	cr_assert_eq(c.misses - b.misses, N / 16);
	cr_assert_eq(c.ahead, b.ahead);
	free_space(node, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}

ALL(when_there_is_no_pointer)
{
	lend_space space = alloc(node, 0), full = alloc(node, PAGE);
	struct lend_op op = {.timeout = SECOND * 5};
	char byte = 1;
	struct iovec iov = {&byte, 1};

	cr_assert_null(lend_space_pointer(node->mem, space));
	cr_assert(strstr(lend_why(), "empty"), "%s", lend_why());
	free_space(node, space);
	cr_assert_null(lend_space_pointer(node->mem, space));
	cr_assert(strstr(lend_why(), "freed"), "%s", lend_why());
	cr_assert_eq(lend_space_prefetch(node->mem, space, 0, 0, &op), -ESTALE);
	cr_assert_eq(lend_space_intact(node->mem, space), -ESTALE);
	cr_assert_eq(lend_space_prefetch(node->mem, full, 0, 1, &op), -EINVAL);
	cr_assert_eq(lend_space_intact(node->mem, full), 0);
	cr_assert_eq(lend_space_write(node->mem, full, 0, &iov, 1, &op), 0);
	cr_assert_null(lend_space_pointer(node->mem, full));
	cr_assert(strstr(lend_why(), "wait"), "%s", lend_why());
	cr_assert_eq(mem_end(node->mem, &op, 0), LEND_OK);
	cr_assert_eq(pointer(node, full)[0], 1);
	free_space(node, full);
}

/* Of several clients of one process, whose threads come and go, the last one ends the pager. */
ALL(clients_share_the_pager)
{
	char in[3 * PAGE];
	struct lend_ref ref;

	mem_fill(in, sizeof(in), 10);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	for (int i = 0; i < 3; i++) {
		struct mem_node other = *node;
		lend_space space, mine = map(node, &ref);

		mem_client_open(node, &other.ep, &other.mem);
		space = map(&other, &ref);
		cr_assert(!memcmp(pointer(&other, space), in, sizeof(in)));
		if (i)
			cr_assert(!memcmp(pointer(node, mine), in, sizeof(in)));
		mem_client_close(other.ep, other.mem); /* its space goes with it */
		cr_assert(!memcmp(pointer(node, mine), in, sizeof(in)));
		free_space(node, mine);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

enum { THREADS = 4, SHARED = 512 };
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
	for (size_t i = 0; i < SHARED * 2; i++) {
		size_t at = lend_rng_below(&rng, SHARED * PAGE);

		t->wrong += t->p[at] != t->want[at];
	}
	for (size_t i = 0; i < SHARED; i++) /* all at the same places at once */
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
		lend_space space = map(node, &ref);

		cr_assert_eq(lend_mem_cache_limit(round % 2 ? 100 * PAGE : 0), 0);
		for (uint64_t i = 0; i < THREADS; i++) {
			t[i] = (struct toucher){pointer(node, space), in, round * 10 + i, 0};
			cr_assert_eq(pthread_create(&thread[i], NULL, touch_all, &t[i]), 0);
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(thread[i], NULL);
			cr_assert_eq(t[i].wrong, 0, "seed %llu", (unsigned long long)t[i].seed);
		}
		free_space(node, space);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	free(in);
}
