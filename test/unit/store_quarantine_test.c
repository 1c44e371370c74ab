/* Goal: a freed page is not used again before its quarantine ends, is counted meanwhile, is not
 * lost, and is zeroed while the store is idle. Method: a full store; its pages are released and
 * needed again just before and just after that time. Covers: mn/store/frame_alloc.c,
 * mn/store/frame.c */
#include "mn/store/frame.h"
#include "unit/storesuite.h"

enum { QUARANTINE = 1000000 };

static void open_resting(void)
{
	setup();
	k->config.quarantine = QUARANTINE;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	lend_store_init(k->store, &k->config, k->pages, k->now);
	OK(kit_hello(k, &a, 1, 1));
	OK(kit_hello(k, &b, 2, 1));
}

TestSuite(store_quarantine, .init = open_resting);

static enum lend_mem_status put_all(struct lend_memref *ref)
{
	return kit_put(k, &a, data, 64 * LEND_MEM_PAGE, kit_owned, ref);
}

TestThen(store_quarantine, freed_pages_rest)
{
	struct lend_memref ref;

	for (int round = 0; round < 5; round++) {
		OK(put_all(&ref));
		OK(kit_release(k, &a, &ref));
		cr_assert_eq(kit_stats(k).pages_used, 0);
		cr_assert_eq(kit_stats(k).pages_quarantined, 64);
		kit_audit(k);
		k->now += QUARANTINE - 1;
		IS(kit_put(k, &a, data, 1, kit_owned, &ref), RESOURCE_EXHAUSTED);
		/* At most twice that time, if there are requests meanwhile. */
		k->now += QUARANTINE;
		lend_store_tick(k->store, k->now);
		k->now += QUARANTINE;
		lend_store_tick(k->store, k->now);
		cr_assert_eq(kit_stats(k).pages_quarantined, 0);
		kit_audit(k);
	}
}

TestThen(store_quarantine, quarantine__freed_later__rests_longer)
{
	struct lend_memref one, two, three;

	OK(kit_put(k, &a, data, 32 * LEND_MEM_PAGE, kit_owned, &one));
	OK(kit_put(k, &a, data, 32 * LEND_MEM_PAGE, kit_owned, &two));
	k->now += 5 * QUARANTINE;
	OK(kit_release(k, &a, &one));
	k->now += QUARANTINE;
	OK(kit_release(k, &a, &two)); /* the guard changes before it */
	k->now += QUARANTINE;
	OK(kit_put(k, &a, data, 32 * LEND_MEM_PAGE, kit_owned, &three));
	cr_assert_eq(kit_stats(k).pages_quarantined, 32);
	IS(kit_put(k, &a, data, 1, kit_owned, &one), RESOURCE_EXHAUSTED);
	k->now += QUARANTINE;
	OK(kit_put(k, &a, data, 32 * LEND_MEM_PAGE, kit_owned, &one));
}

static uint32_t clean_now(void)
{
	lend_frame_clean(k->store, k->now);
	return k->store->free.dirty.n;
}

/* Freed pages are zeroed when their number has not changed for some time, not between requests. */
TestThen(store_quarantine, freed_pages__in_use_again__are_not_cleaned)
{
	enum { CLEAN_NS = 10000000 };
	struct lend_memref ref, kept;

	for (int round = 0; round < 20; round++) {
		OK(kit_put(k, &a, data, 4 * LEND_MEM_PAGE, kit_owned, &ref));
		OK(kit_release(k, &a, &ref));
		OK(kit_put(k, &a, data, LEND_MEM_PAGE, kit_owned, &kept));
		k->now += CLEAN_NS;
		cr_assert_gt(clean_now(), 0, "round %d", round);
	}
	k->now += CLEAN_NS;
	cr_assert_eq(clean_now(), 0);
}

/* Quarantine yields under memory pressure: the longest freed goes first, and no allocation is
 * refused. */
TestThen(store_quarantine, pages_that_yield)
{
	struct lend_memref one, two, three;
	uint8_t *last;

	k->config.yields = 1;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	lend_store_init(k->store, &k->config, k->pages, k->now);
	OK(kit_hello(k, &a, 1, 1));
	OK(kit_hello(k, &b, 2, 1));
	OK(kit_put(k, &a, data, LEND_MEM_PAGE, kit_owned, &one));
	OK(kit_get(k, &a, &one, 0, 1, back));
	last = k->out.seg[0].data;
	OK(kit_release(k, &a, &one));
	OK(kit_put(k, &a, data, 60 * LEND_MEM_PAGE, kit_owned, &two));
	OK(kit_get(k, &a, &two, 0, 1, back));
	cr_assert_neq(k->out.seg[0].data, last, "there are others");
	OK(kit_release(k, &a, &two));
	cr_assert_eq(kit_stats(k).pages_quarantined, 61);
	for (int round = 0; round < 20; round++) {
		OK(kit_put(k, &a, data, (1 + (uint64_t)round * 3) * LEND_MEM_PAGE, kit_owned,
			   &one));
		OK(kit_put(k, &a, data, (63 - (uint64_t)round * 3) * LEND_MEM_PAGE, kit_owned,
			   &two));
		IS(kit_put(k, &a, data, 1, kit_owned, &three), RESOURCE_EXHAUSTED);
		kit_audit(k);
		OK(kit_release(k, &a, &one));
		OK(kit_release(k, &a, &two));
		kit_audit(k);
	}
}
