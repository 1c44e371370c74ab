/* Goal: a million live references and ten thousand live spaces cost at most 64 bytes of tables each
 * and slow no operation much; releasing a large object frees at most its bound of frames per turn.
 * Method: snapshots of one page, so that only tables grow; table bytes come from the arena's size.
 * Times are this thread's CPU time, the least of several runs, and are printed; they fail the test
 * only when far beyond what a busy machine explains. Covers: mn/store/store.c, mn/store/hold.c,
 * mn/store/space.c, mn/store/frame.c, mn/store/cow.c */
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "mn/store/store.h"
#include "unit/storekit.h"
#include "util/rng.h"

enum { FEW = 1000, MANY = 1000000, SPACES = 10000, RUNS = 7, OPS = FEW, LARGE = 16384 };
static struct kit *k;
static struct client a;
static struct lend_memref *ref;
static struct lend_rng rng;

/* As the node maps it: huge pages where available. */
static void *map_memory(size_t len)
{
	const size_t huge = 2 << 20;
	void *at = aligned_alloc(huge, (len + huge - 1) & ~(huge - 1));

	cr_assert(at);
	(void)madvise(at, (len + huge - 1) & ~(huge - 1), MADV_HUGEPAGE);
	return at;
}

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void open_with(uint32_t pages, uint32_t objects)
{
	k = calloc(1, sizeof(*k));
	lend_store_config_default(&k->config, (uint64_t)pages * LEND_MEM_PAGE, LEND_MEM_PAGE);
	k->config.objects = k->config.holds = objects;
	k->config.clients = k->config.incarnations = 1;
	k->config.epoch = 1;
	k->store = map_memory(lend_store_size(&k->config));
	k->pages = map_memory(lend_store_pages_size(&k->config));
	memset(k->pages, 0, lend_store_pages_size(&k->config));
	lend_store_init(k->store, &k->config, k->pages, k->now);
	k->scratch = malloc(lend_store_audit_size(k->store));
	memset(&a, 0, sizeof(a));
	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
	lend_rng_seed(&rng, 1);
}

/* Distinct references in random order, drawn before the clock starts. */
static struct lend_memref drawn[OPS];
static uint32_t drawn_at[OPS];

static void draw_refs(uint32_t n)
{
	for (uint32_t i = 0; i < OPS; i++)
		drawn_at[i] = (uint32_t)(((uint64_t)i * n + lend_rng_below(&rng, n)) / OPS);
	for (uint32_t i = OPS - 1; i > 0; i--) {
		uint32_t j = (uint32_t)lend_rng_below(&rng, i + 1), at = drawn_at[i];

		drawn_at[i] = drawn_at[j];
		drawn_at[j] = at;
	}
	for (uint32_t i = 0; i < OPS; i++)
		drawn[i] = ref[drawn_at[i]];
}

/* Time in ns of a get, and of a release with the seal that replaces it, among n live references. */
static void measure_ops(const struct lend_memspace *space, uint32_t n, double *get, double *turn)
{
	double start;
	char byte;

	*get = *turn = 1e9;
	for (int r = 0; r < RUNS; r++) {
		draw_refs(n);
		start = cpu_ns();
		for (int i = 0; i < OPS; i++)
			kit_get(k, &a, &drawn[i], 0, 1, &byte);
		*get = fmin(*get, (cpu_ns() - start) / OPS);
		draw_refs(n);
		start = cpu_ns();
		for (int i = 0; i < OPS; i++) {
			kit_release(k, &a, &drawn[i]);
			kit_seal(k, &a, space, 0, 64, kit_owned, &drawn[i]);
		}
		*turn = fmin(*turn, (cpu_ns() - start) / OPS);
		for (int i = 0; i < OPS; i++)
			ref[drawn_at[i]] = drawn[i];
	}
}

static double bytes_each(uint32_t objects, uint32_t holds)
{
	struct lend_store_config c = k->config;
	size_t with = lend_store_size(&c);

	c.objects -= objects;
	c.holds -= holds;
	return (double)(with - lend_store_size(&c)) / objects;
}

Test(store_scale, a_million_references)
{
	double get[2], turn[2], each;
	struct lend_memspace space;

	open_with(64, 1 << 20);
	ref = map_memory(MANY * sizeof(*ref));
	cr_assert_eq(kit_alloc(k, &a, 64, &space), LEND_MEM_OK);
	cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 64, k->config.key),
		     LEND_MEM_OK);
	for (uint32_t i = 0; i < MANY; i++) {
		if (i == FEW)
			measure_ops(&space, FEW, &get[0], &turn[0]);
		cr_assert_eq(kit_seal(k, &a, &space, 0, 64, kit_owned, &ref[i]), LEND_MEM_OK);
	}
	measure_ops(&space, MANY, &get[1], &turn[1]);
	each = bytes_each(MANY, MANY);
	printf(
	    "store_scale: %.1f bytes of tables per reference; get %.0f ns among %d, %.0f ns among "
	    "%d; release and seal %.0f ns, %.0f ns\n",
	    each, get[0], FEW, get[1], MANY, turn[0], turn[1]);
	cr_assert_leq(each, 64);
	/* More references mean another cache miss or two, not a number of misses that grows with
	 * n. */
	cr_assert_lt(get[1], 3 * get[0] + 2000);
	cr_assert_lt(turn[1], 3 * turn[0] + 4000);
	kit_audit(k);
	free(ref);
	kit_close(k);
}

Test(store_scale, ten_thousand_spaces)
{
	struct lend_memspace space;
	double each;

	open_with(64, 2 * SPACES);
	for (int i = 0; i < SPACES; i++)
		cr_assert_eq(kit_alloc(k, &a, 1 << 30, &space), LEND_MEM_OK);
	each = bytes_each(SPACES, 0);
	printf("store_scale: %.1f bytes of tables per space\n", each);
	cr_assert_leq(each, 64);
	kit_close(k);
}

Test(store_scale, a_large_object_goes_in_bounded_turns)
{
	static uint8_t data[1 << 20];
	struct lend_memspace space;
	struct lend_memref large;
	uint64_t used, most = 0, turns = 0;
	double ns, worst = 0, sum = 0;

	open_with(LARGE + 64, 64);
	cr_assert_eq(kit_alloc(k, &a, (uint64_t)LARGE * LEND_MEM_PAGE, &space), LEND_MEM_OK);
	memset(data, 1, sizeof(data));
	for (uint64_t at = 0; at < (uint64_t)LARGE * LEND_MEM_PAGE; at += sizeof(data))
		cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, at, sizeof(data), data),
			     LEND_MEM_OK);
	cr_assert_eq(kit_seal(k, &a, &space, 0, (uint64_t)LARGE * LEND_MEM_PAGE, kit_owned, &large),
		     LEND_MEM_OK);
	cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_FREE, &space, 0, 0, NULL), LEND_MEM_OK);
	used = kit_stats(k).pages_used;
	ns = cpu_ns();
	cr_assert_eq(kit_release(k, &a, &large), LEND_MEM_OK);
	for (;; turns++) {
		uint64_t now = kit_stats(k).pages_used;

		ns = cpu_ns() - ns;
		sum += ns;
		worst = ns > worst ? ns : worst;
		most = used - now > most ? used - now : most;
		used = now;
		if (!used)
			break;
		ns = cpu_ns();
		lend_store_tick(k->store, k->now);
	}
	printf(
	    "store_scale: %d frames in %llu turns, at most %llu in one; %.0f ns per frame, %.0f us "
	    "in the longest turn\n",
	    LARGE, (unsigned long long)turns, (unsigned long long)most, sum / LARGE, worst / 1e3);
	cr_assert_leq(most, k->config.reap * 64);
	kit_close(k);
}

/* The charge of an object has 24 bits, fewer than the number of a frame. The tables are sparse, and
 * only the first frames are used. */
Test(store_scale, an_object_ends_at_the_width_of_its_charge)
{
	enum { FRAMES = 16 };
	uint8_t page[LEND_MEM_PAGE] = {1};
	struct lend_memspace space;

	k = calloc(1, sizeof(*k));
	lend_store_config_default(&k->config, (uint64_t)LEND_STORE_PAGES_MAX * LEND_MEM_PAGE,
				  LEND_MEM_PAGE);
	k->config.epoch = 1;
	k->store = mmap(NULL, lend_store_size(&k->config), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert_neq(k->store, MAP_FAILED);
	k->pages = map_memory(FRAMES * LEND_MEM_PAGE);
	memset(k->pages, 0, FRAMES * LEND_MEM_PAGE);
	(void)lend_store_build(k->store, &k->config, k->pages, k->now);
	memset(&a, 0, sizeof(a));
	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_alloc(k, &a, UINT64_C(100) << 30, &space), LEND_MEM_OK);
	lend_object_at(k->store, space.slot)->charge = LEND_CHARGE_MAX - 1;
	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, i % 2 * LEND_MEM_PAGE,
					  sizeof(page), page),
			     i == 1 ? LEND_MEM_RESOURCE_EXHAUSTED : LEND_MEM_OK, "%d", (int)i);
	cr_assert_eq(lend_object_at(k->store, space.slot)->charge, LEND_CHARGE_MAX);
	munmap(k->store, lend_store_size(&k->config));
	free(k->pages);
	free(k);
}
