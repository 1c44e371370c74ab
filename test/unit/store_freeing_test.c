/* Goal: a large release frees its pages in bounded steps; other operations do not wait for it, and
 * none is refused memory meanwhile. Method: stores just large enough, objects of many page table
 * nodes. Covers: mn/store/page_tree.c, mn/store/frame.c, mn/store/cow.c */
#include "unit/storekit.h"

#include "mn/store/store.h"

#define OK(call) cr_assert_eq(call, LEND_MEM_OK)

enum { PAGE = LEND_MEM_PAGE, PAGES = 2048, STEP = 4 * 64 };

static uint8_t data[PAGES * PAGE];
static struct client a;

/* Opens a store that frees this many page table nodes per step. */
static struct kit *open_with(uint32_t pages, uint32_t reap)
{
	struct kit *k = kit_open(pages, 7);

	k->config.reap = reap;
	lend_store_init(k->store, &k->config, k->pages, k->now);
	memset(&a, 0, sizeof(a));
	OK(kit_hello(k, &a, 1, 1));
	memset(data, 0x5a, sizeof(data));
	return k;
}

Test(store_freeing, a_step_frees_no_more_than_its_share)
{
	struct kit *k = open_with(PAGES, 4);
	struct lend_memref ref;
	uint64_t used;

	OK(kit_put(k, &a, data, sizeof(data), kit_owned, &ref));
	OK(kit_release(k, &a, &ref));
	used = kit_stats(k).pages_used;
	cr_assert_geq(used, PAGES - STEP);
	for (uint32_t ticks = 0; used > 0; ticks++) {
		uint64_t before = used;

		cr_assert_leq(ticks, PAGES / STEP + 1);
		cr_assert_eq(lend_store_deadline(k->store), 0);
		lend_store_tick(k->store, k->now);
		kit_audit(k);
		used = kit_stats(k).pages_used;
		cr_assert_leq(before - used, STEP);
	}
	cr_assert_gt(lend_store_deadline(k->store), k->now);
	cr_assert_eq(kit_stats(k).nodes_used, 0);
	kit_close(k);
}

Test(store_freeing, freed_pages__nothing_else_to_do__are_zeroed_in_steps)
{
	struct kit *k = open_with(PAGES, 4);
	const struct lend_set *dirty = &k->store->free.dirty;
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 100 * PAGE, kit_owned, &ref));
	OK(kit_release(k, &a, &ref));
	while (lend_store_deadline(k->store) <= k->now)
		lend_store_tick(k->store, k->now);
	cr_assert_eq(dirty->n, 100, "they can be taken before");
	k->now = lend_store_deadline(k->store);
	for (uint32_t before = dirty->n; before > 0; before = dirty->n) {
		cr_assert_leq(lend_store_deadline(k->store), k->now);
		lend_store_tick(k->store, k->now);
		kit_audit(k);
		cr_assert(dirty->n < before && before - dirty->n <= 32);
	}
	cr_assert_gt(lend_store_deadline(k->store), k->now);
	for (uint32_t i = 0; i < PAGE; i++)
		cr_assert_eq(lend_page(k->store, 1)[i] | lend_page(k->store, 100)[i], 0);
	kit_close(k);
}

Test(store_freeing, release__small__frees_at_once)
{
	struct kit *k = open_with(PAGES, 4);
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 3 * 64 * PAGE, kit_owned, &ref));
	OK(kit_release(k, &a, &ref));
	cr_assert_eq(kit_stats(k).pages_used, 0);
	kit_close(k);
}

Test(store_freeing, alloc__store_full__uses_freed_frames)
{
	struct kit *k = open_with(PAGES, 1);
	struct lend_memref ref;

	for (int i = 0; i < 20; i++) {
		OK(kit_put(k, &a, data, sizeof(data), kit_owned, &ref));
		OK(kit_release(k, &a, &ref));
		kit_audit(k);
	}
	kit_close(k);
}

Test(store_freeing, write__shared_with_a_released_object__no_copy)
{
	struct kit *k = open_with(PAGES + 1, 1);
	struct lend_memspace space;
	struct lend_memref ref;

	OK(kit_alloc(k, &a, sizeof(data), &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, sizeof(data), data));
	OK(kit_seal(k, &a, &space, 0, sizeof(data), kit_owned, &ref));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, PAGE, data)); /* the last free page */
	OK(kit_release(k, &a, &ref));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, PAGE, 63 * PAGE, data));
	cr_assert_eq(kit_stats(k).cow_copies, 1);
	kit_audit(k);
	kit_close(k);
}
