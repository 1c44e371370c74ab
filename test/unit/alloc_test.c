/* Goal: objects of lend_malloc() do not overlap, are aligned and have at least the size asked for.
 * Freed memory is used again, misuse aborts, running out of memory returns NULL, and fork() is
 * survived. Method: a table of size classes, a naive list of live objects under seeds, ulimit -v.
 * Covers: src/alloc/alloc.c, src/alloc/cache.c, src/alloc/slab.c, src/alloc/run.c,
 * src/alloc/region.c, src/alloc/depot.c */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/slab.h"
#include "lend/alloc.h"
#include "sys/last_error.h"
#include "util/rng.h"
#include "one_line_test.h"

#define MIB ((size_t)1 << 20)

Test(alloc, classes_table)
{
	static const struct {
		size_t len;
		uint32_t want;
	} table[] = {{0, 64},        {1, 64},        {64, 64},       {65, 128},     {256, 256},
		     {257, 320},     {512, 512},     {513, 640},     {1024, 1024},  {1025, 1280},
		     {40960, 40960}, {40961, 49152}, {57345, 65536}, {65536, 65536}};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		cr_assert_eq(lend_class_len(lend_class_of(table[i].len)), table[i].want, "%zu",
			     table[i].len);
	for (uint32_t c = 0; c < LEND_CLASSES; c++) {
		uint32_t len = lend_class_len(c), whole = lend_class_tiles(c) * LEND_TILE_LEN;

		cr_assert_eq(lend_class_of(len), c);
		cr_assert_eq(lend_class_of(len + 1), c + 1);
		cr_assert_leq(lend_class_objects(c), LEND_SLAB_OBJECTS_MAX);
		cr_assert_leq(whole - lend_class_objects(c) * len, whole / 8);
		cr_assert_lt(lend_class_tiles(c), 256, "lend_tile.back is a byte");
	}
}

Test(alloc, start__inner_pointer__is_refused)
{
	for (uint32_t c = 0; c < LEND_CLASSES; c++)
		for (uint32_t at = 0; at < lend_class_tiles(c) * LEND_TILE_LEN; at += 16)
			cr_assert_eq(lend_class_is_start(at, lend_class_magic(c)),
				     at % lend_class_len(c) == 0, "class %u, %u", c, at);
}

/* The naive model: the live objects, and the pattern that each must still hold. */
enum { LIVE = 512 };
struct live {
	uint8_t *p;
	size_t len;
	uint8_t fill;
};

static size_t draw_len(struct lend_rng *rng)
{
	size_t most = (size_t)1 << lend_rng_below(rng, 21);

	return lend_rng_below(rng, 64) ? lend_rng_below(rng, most + 1)
				       : lend_rng_below(rng, 5 * MIB);
}

/* Fills both ends and one cache line in the middle: enough to see any overlap of whole lines. */
static void paint_object(const struct live *l)
{
	memset(l->p, l->fill, l->len < 256 ? l->len : 256);
	if (l->len) {
		l->p[l->len / 2] = l->fill;
		l->p[l->len - 1] = l->fill;
	}
}

static bool is_intact(const struct live *l)
{
	for (size_t i = 0; i < l->len && i < 256; i++)
		if (l->p[i] != l->fill)
			return false;
	return !l->len || (l->p[l->len / 2] == l->fill && l->p[l->len - 1] == l->fill);
}

static bool find_overlap(const struct live *live, const struct live *l)
{
	for (int i = 0; i < LIVE; i++)
		if (live + i != l && live[i].p && l->p < live[i].p + live[i].len &&
		    live[i].p < l->p + l->len)
			return true;
	return false;
}

static void run_step(struct live *live, struct lend_rng *rng, uint64_t seed)
{
	struct live *l = &live[lend_rng_below(rng, LIVE)];
	size_t align = (size_t)1 << lend_rng_below(rng, lend_rng_below(rng, 8) ? 7 : 22);

	if (l->p) {
		cr_assert(is_intact(l), "seed %lu: somebody wrote to %zu bytes", seed, l->len);
		lend_free(l->p);
		l->p = NULL;
		return;
	}
	l->len = draw_len(rng);
	l->fill = (uint8_t)lend_rng_next(rng);
	l->p = align > 64 ? lend_aligned(align, l->len) : lend_malloc(l->len);
	cr_assert(l->p, "seed %lu: %s", seed, lend_why_text());
	cr_assert_geq(lend_usable(l->p), l->len);
	cr_assert_eq((uintptr_t)l->p % (align > 64 ? align : 64), 0, "seed %lu", seed);
	cr_assert(!find_overlap(live, l), "seed %lu: %zu bytes handed out twice", seed, l->len);
	paint_object(l);
}

/* Each tile is used or free; bitmaps, records and counters agree, and no record names a free
 * tile. */
static bool regions_are_sound(void)
{
	bool sound = true;

	lend_regions_lock();
	for (struct lend_region *r = lend_regions_first(); r; r = r->next) {
		uint32_t free = 0, run = 0;

		for (uint32_t i = 0; i < r->tiles; i++) {
			bool used = r->used[i / 64] >> i % 64 & 1;

			sound &= used == (r->tile[i].kind != LEND_TILE_FREE);
			run = used ? 0 : run + 1;
			free += !used;
			sound &= run <= r->longest;
			sound &= lend_region_of(r->base + (size_t)i * LEND_TILE_LEN) == r;
		}
		sound &= free == r->free;
	}
	lend_regions_unlock();
	return sound;
}

static void run_steps(uint64_t seed, int steps)
{
	static struct live live[LIVE];
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (int i = 0; i < steps; i++) {
		run_step(live, &rng, seed);
		if (i % 1000 == 0)
			cr_assert(lend_slabs_audit() && regions_are_sound(), "seed %lu", seed);
	}
	for (int i = 0; i < LIVE; i++) {
		cr_assert(!live[i].p || is_intact(&live[i]), "seed %lu", seed);
		lend_free(live[i].p);
		live[i].p = NULL;
	}
	cr_assert(lend_slabs_audit() && regions_are_sound(), "seed %lu", seed);
}

static struct lend_alloc_stat stat_now(void)
{
	struct lend_alloc_stat stat;

	lend_alloc_stat_get(&stat);
	return stat;
}

Test(alloc, naive_model_under_seeds)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		run_steps(seed, 4000);
	lend_alloc_trim();
	cr_assert_eq(stat_now().used, 0);
	cr_assert_eq(stat_now().mapped, 0);
}

/* After nine of ten objects are freed, the rest pins no more memory than its slabs. */
Test(alloc, fragmentation_is_bounded)
{
	enum { N = 20000 };
	static void *p[N];
	struct lend_rng rng;
	size_t left = 0, peak;

	lend_rng_seed(&rng, 3);
	for (int i = 0; i < N; i++)
		cr_assert(p[i] = lend_malloc(4096));
	peak = stat_now().used;
	cr_assert_leq(peak, (size_t)N * 4096 + N * 4096 / 16 + MIB);
	for (int i = 0; i < N; i++)
		if (i % 1000 >= 100) {
			lend_free(p[i]);
			p[i] = NULL;
		} else {
			left += 4096;
		}
	lend_alloc_trim();
	cr_assert_leq(stat_now().used, 2 * left, "%zu bytes for %zu", stat_now().used, left);
	for (int i = 0; i < N; i++)
		lend_free(p[i]);
}

Test(alloc, free__all_objects__returns_the_memory)
{
	void *p[40];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 40; i++)
			cr_assert(p[i] = lend_malloc(16 * MIB));
		cr_assert_geq(stat_now().mapped, 640 * MIB);
		for (int i = 0; i < 40; i++)
			lend_free(p[i]);
		cr_assert_leq(stat_now().mapped, LEND_RUN_SPARE_MAX + LEND_REGION_GROWTH);
	}
	lend_alloc_trim();
	cr_assert_eq(stat_now().mapped, 0);
}

/* Objects of 25 and 54 MiB come and go: their memory stays mapped as long as they do. */
Test(alloc, free__long_objects_again_and_again__keeps_their_memory)
{
	uint64_t regions = 0;

	for (int i = 0; i < 100; i++) {
		void *a = lend_malloc(25 * MIB), *b = lend_malloc(54 * MIB);

		lend_free(i & 1 ? a : b);
		lend_free(i & 1 ? b : a);
		if (i == 10)
			regions = lend_regions_count;
	}
	cr_assert_eq(lend_regions_count, regions);
	for (int i = 0; i < 100; i++) {
		void *a = lend_malloc(54 * MIB);

		lend_free(a);
	}
	cr_assert_leq(stat_now().mapped, LEND_RUN_SPARE, "%zu bytes", stat_now().mapped);
	lend_alloc_trim();
}

Test(alloc, aligned_table)
{
	static const size_t bad[] = {0, 3, 96, 4 * MIB};

	for (size_t align = 1; align <= 2 * MIB; align *= 2)
		for (size_t len = 0; len <= 3 * MIB; len = 3 * len + 1) {
			uint8_t *p = lend_aligned(align, len);

			cr_assert(p && (uintptr_t)p % align == 0 && lend_usable(p) >= len);
			memset(p, 1, len);
			lend_free(p);
		}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_null(lend_aligned(bad[i], 64));
	cr_assert_null(lend_malloc((size_t)1 << 47));
	cr_assert_null(lend_malloc(SIZE_MAX));
	cr_assert_gt(strlen(lend_why_text()), 0);
	lend_free(NULL);
}

Test(alloc, double_free, .signal = SIGABRT)
{
	void *p = lend_malloc(100);

	lend_free(p);
	lend_free(p);
}

Test(alloc, double_free_of_a_run, .signal = SIGABRT)
{
	void *keep = lend_malloc(100), *p = lend_malloc(MIB);

	cr_assert(keep);
	lend_free(p);
	lend_free(p);
}

TestRuns(alloc, free_of_an_inside, lend_free((char *)lend_malloc(300) + 64), .signal = SIGABRT);
TestRuns(alloc, free_of_an_inside_of_a_run, lend_free((char *)lend_malloc(MIB) + LEND_TILE_LEN),
	 .signal = SIGABRT);

Test(alloc, free_of_foreign_memory, .signal = SIGABRT)
{
	int foreign;

	lend_free(&foreign);
}

/* The mark of a freed object is a value in its first word. A live object with any other value there
 * can be freed. */
Test(alloc, free__any_first_word__is_no_double_free)
{
	for (int i = 0; i < 100; i++) {
		uintptr_t *p = lend_malloc(64);

		*p = i % 2 ? (uintptr_t)p : 0;
		lend_free(p);
		p = lend_malloc(64); /* not written to: the allocator chose its content */
		lend_free(p);
	}
}

/* Without address space, small, large and table allocations return NULL; they succeed once there is
 * some. */
Test(alloc, malloc__no_address_space__returns_null)
{
	struct rlimit old, none = {0, 0};
	void *p[4096];
	int n = 0;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the sanitizer's own memory is refused first");
#endif
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	p[n++] = lend_malloc(64);
	cr_assert(p[0]);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	while (n < 4096 && (p[n] = lend_malloc(65536)))
		n++;
	cr_assert_lt(n, 40, "a region has no more");
	cr_assert_null(lend_malloc(3 * MIB));
	cr_assert(strstr(lend_why_text(), "ulimit -v"), "%s", lend_why_text());
	cr_assert_null(lend_aligned(2 * MIB, 1));
	cr_assert(lend_slabs_audit() && regions_are_sound());
	lend_free(p[--n]);
	cr_assert(p[n++] = lend_malloc(65536));
	cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
	cr_assert(p[n++] = lend_malloc(3 * MIB));
	while (n > 0)
		lend_free(p[--n]);
	lend_alloc_trim();
	cr_assert_eq(stat_now().mapped, 0);
}

Test(alloc, a_forks_child_has_a_copy)
{
	char *p = lend_malloc(1000), *q = lend_malloc(MIB);
	int status = -1;
	pid_t child;

	memset(p, 'p', 1000);
	memset(q, 'q', MIB);
	child = fork();
	if (child == 0) {
		bool sound = p[999] == 'p' && q[MIB - 1] == 'q';

		p[0] = 'c';
		lend_free(p);
		lend_free(q);
		run_steps(7, 2000);
		_exit(!sound);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert(p[0] == 'p');
	lend_free(p);
	lend_free(q);
}
