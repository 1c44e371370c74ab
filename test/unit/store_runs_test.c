/* Goal: a long object consists of few runs of frames, also after long mixed use, and of one run
 * where enough contiguous frames are free. Method: puts of 4 KiB to 1 MiB and releases at 70 % fill
 * under seeds, long ones through placements, with and without quarantine; runs are counted as a
 * process would map them, and compared with the free frames of the frame table. Covers:
 * mn/store/frame_alloc.c */
#include "mn/store/store.h"
#include "unit/storekit.h"
#include "util/bits.h"
#include "util/rng.h"

enum { PAGES = 8192, LONG = 256, LIVE_MAX = 8192, STEPS = 6000, FILL = PAGES * 7 / 10 };

static struct kit *k;
static struct client a;
static uint8_t data[LONG * LEND_MEM_PAGE];

static void open_all(uint64_t quarantine)
{
	k = kit_open(PAGES, 1);
	k->config.objects = k->config.holds = LIVE_MAX + 64;
	k->config.quarantine = quarantine;
	k->config.yields = 1;
	k->config.checksum = 0;
	free(k->store);
	free(k->scratch);
	k->size = lend_store_size(&k->config);
	k->store = aligned_alloc(64, (k->size + 63) & ~(size_t)63);
	lend_store_init(k->store, &k->config, k->pages, k->now);
	k->scratch = malloc(lend_store_audit_size(k->store));
	memset(&a, 0, sizeof(a));
	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
}

static bool is_free(uint32_t i)
{
	const struct lend_frame *f = lend_frame_at(k->store, i);

	return !f->refs && !f->pins;
}

/* The longest run of unused frames, in quarantine or not. */
static uint32_t longest_run(void)
{
	uint32_t most = 0, n = 0;

	for (uint32_t i = 1; i <= PAGES; i++) {
		n = is_free(i) ? n + 1 : 0;
		most = lend_max_u32(most, n);
	}
	return most;
}

/* The object's runs of frames, found by walking its pages. */
static uint32_t runs_of(const struct lend_memref *ref)
{
	const struct lend_store_seg *seg;
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .ref = *ref, .len = ref->root_len};

	cr_assert_eq(kit_do(k, &a, &op, NULL), LEND_MEM_OK);
	seg = k->out.seg;
	cr_assert_geq(k->out.n, 1);
	cr_assert_not_null(seg);
	lend_store_done(k->store, k->out.tenant, k->out.seg, k->out.n);
	return k->out.n;
}

static bool put_pages(uint32_t pages, struct lend_memref *ref)
{
	return kit_put(k, &a, data, (uint64_t)pages * LEND_MEM_PAGE, kit_owned, ref) == LEND_MEM_OK;
}

/* Mostly small objects; the large ones hold as many bytes in total. */
static uint32_t draw_pages(struct lend_rng *r)
{
	switch (lend_rng_below(r, 16)) {
	case 0:
		return 1 + (uint32_t)lend_rng_below(r, LONG);
	case 1:
	case 2:
		return 1 + (uint32_t)lend_rng_below(r, 32);
	default:
		return 1 + (uint32_t)lend_rng_below(r, 3);
	}
}

struct live {
	struct lend_memref ref[LIVE_MAX];
	uint32_t n;
};

static void drop_one(struct live *l, uint32_t i)
{
	cr_assert_eq(kit_release(k, &a, &l->ref[i]), LEND_MEM_OK);
	l->ref[i] = l->ref[--l->n];
}

/* Ages the store: mixed use at 70 % of its pages. */
static void age_store(struct live *l, struct lend_rng *r)
{
	for (int i = 0; i < STEPS; i++) {
		k->now += lend_rng_below(r, 2000);
		while (l->n && (k->store->frame.used > FILL || l->n == LIVE_MAX))
			drop_one(l, (uint32_t)lend_rng_below(r, l->n));
		l->n += put_pages(draw_pages(r), &l->ref[l->n]);
		if (i % 1000 == 0)
			kit_audit(k);
	}
}

static void wait_quarantine(void)
{
	for (int i = 0; i < 4 * PAGES / 128; i++) {
		k->now += k->config.quarantine;
		lend_store_tick(k->store, k->now);
	}
}

static void mixed_use(uint64_t seed, uint64_t quarantine)
{
	static struct live l;
	struct lend_memref ref[8];
	struct lend_rng r;
	uint32_t one;

	l.n = 0;
	lend_rng_seed(&r, seed);
	open_all(quarantine);
	age_store(&l, &r);
	wait_quarantine();
	one = longest_run();
	for (int i = 0; i < 8; i++) {
		uint32_t runs;

		cr_assert(put_pages(LONG, &ref[i]));
		runs = runs_of(&ref[i]);
		/* Gaps between blocks may stay unused. */
		cr_assert_leq(runs, i < 2 ? 8 : 64, "seed %llu", (unsigned long long)seed);
		cr_assert(runs == 1 || one < LONG + 63, "seed %llu: %u runs, and %u side by side",
			  (unsigned long long)seed, runs, one);
		one = longest_run();
	}
	for (int i = 0; i < 8; i++)
		cr_assert_eq(kit_release(k, &a, &ref[i]), LEND_MEM_OK);
	while (l.n)
		drop_one(&l, 0);
	kit_close(k);
}

Test(store_runs, long_objects_after_mixed_use)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		mixed_use(seed, 0);
	for (uint64_t seed = 5; seed <= 8; seed++)
		mixed_use(seed, 1000000);
}

/* Each put finds the gap of exactly its length. */
Test(store_runs, a_gap_that_fits)
{
	struct lend_memref ref[3], got;

	open_all(0);
	for (uint32_t n = 2; n < 64; n++) {
		const void *gap;

		cr_assert(put_pages(1, &ref[0]) && put_pages(n, &ref[1]) &&
			  put_pages(63 - n, &ref[2]));
		runs_of(&ref[1]);
		gap = k->out.seg[0].data;
		cr_assert_eq(kit_release(k, &a, &ref[1]), LEND_MEM_OK);
		cr_assert(put_pages(n, &got));
		cr_assert_eq(runs_of(&got), 1, "%u pages", n);
		cr_assert_leq(k->out.seg[0].data, gap);
		cr_assert_eq(kit_release(k, &a, &got), LEND_MEM_OK);
		cr_assert_eq(kit_release(k, &a, &ref[0]), LEND_MEM_OK);
		cr_assert_eq(kit_release(k, &a, &ref[2]), LEND_MEM_OK);
	}
	kit_close(k);
}

/* A space that is written page after page while other clients allocate. */
Test(store_runs, written_bit_by_bit)
{
	struct lend_memspace space;
	struct lend_memref ref;

	open_all(0);
	cr_assert_eq(kit_alloc(k, &a, LONG * LEND_MEM_PAGE, &space), LEND_MEM_OK);
	for (uint64_t at = 0; at < LONG; at += 16)
		cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, at * LEND_MEM_PAGE,
					  16 * LEND_MEM_PAGE, data),
			     LEND_MEM_OK);
	cr_assert_eq(kit_seal(k, &a, &space, 0, LONG * LEND_MEM_PAGE, kit_owned, &ref),
		     LEND_MEM_OK);
	cr_assert_leq(runs_of(&ref), 2);
	lend_store_hangup(k->store, a.life);
	kit_close(k);
}

/* Lets a write land in frames of its own. */
static void write_placed(const struct lend_memspace *space, uint64_t page, uint64_t pages)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 1];
	struct lend_memop op = {.kind = LEND_MEMOP_WRITE,
				.client = a.number,
				.life = a.life,
				.id = ++a.id,
				.low = a.id,
				.space = *space,
				.offset = page * LEND_MEM_PAGE,
				.len = pages * LEND_MEM_PAGE};
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(&op, head), segs, fixed, p;

	p = lend_store_place(k->store, &a.peer, head, n, n + op.len, seg + 1, &segs, &fixed);
	cr_assert(p);
	seg[0] = (struct lend_store_seg){head, n};
	cr_assert_eq(lend_store_exec(k->store, k->now,
				     &(struct lend_store_in){&a.peer, seg, segs + 1, p, false},
				     &k->out),
		     LEND_MEM_OK);
}

/* Spaces that are written in turn, as several long puts at once are: one run each, also next to
 * short objects. */
Test(store_runs, written_in_turn__one_run_each)
{
	enum { SPACES = 4, PART = 64 };
	struct lend_memref ref, few[LONG / PART];
	struct lend_memspace space[SPACES];

	open_all(0);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < SPACES; i++)
			cr_assert_eq(kit_alloc(k, &a, LONG * LEND_MEM_PAGE, &space[i]),
				     LEND_MEM_OK);
		for (uint64_t at = 0; at < LONG; at += PART) {
			for (int i = 0; i < SPACES; i++)
				write_placed(&space[i], at, PART);
			cr_assert(put_pages(PART, &few[at / PART]));
		}
		for (int i = 0; i < SPACES; i++) {
			cr_assert_eq(
			    kit_seal(k, &a, &space[i], 0, LONG * LEND_MEM_PAGE, kit_owned, &ref),
			    LEND_MEM_OK);
			cr_assert_eq(runs_of(&ref), 1, "round %d, space %d", round, i);
			cr_assert_eq(kit_release(k, &a, &ref), LEND_MEM_OK);
			cr_assert_eq(kit_release(k, &a, &few[i]), LEND_MEM_OK);
		}
		kit_audit(k);
	}
	lend_store_hangup(k->store, a.life);
	kit_close(k);
}

/* Frames that a long put was promised are others' when there are none left. */
Test(store_runs, full_store__claimed_frames_are_used)
{
	struct lend_memspace space;
	struct lend_memref ref;

	open_all(0);
	cr_assert_eq(kit_alloc(k, &a, (uint64_t)PAGES * LEND_MEM_PAGE, &space), LEND_MEM_OK);
	write_placed(&space, 0, 64);
	for (uint32_t i = 1; i < PAGES / LONG; i++) {
		cr_assert(put_pages(LONG, &ref));
		cr_assert_eq(runs_of(&ref), 1, "object %u", i);
	}
	lend_store_hangup(k->store, a.life);
	kit_close(k);
}
