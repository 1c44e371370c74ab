/* Goal: the store keeps its guarantees at every page size: bytes, charges and copies are in its own
 * pages, pages that are used again read as zeros, and no step frees more than its nodes. Method:
 * each rule at each size from 4 KiB to 2 MiB, with lengths around a page. Covers: mn/store/frame.c,
 * mn/store/cow.c, mn/store/page_tree.c */
#include "unit/storekit.h"
#include "mn/store/store.h"
#include "util/bits.h"
#include "one_line_test.h"

#define OK(call) cr_assert_eq(call, LEND_MEM_OK)

enum { PAGES = 24, MAX = PAGES * LEND_MEM_PAGE_MAX };

static uint8_t *data, *back;
static struct client a;
static struct kit *k;

static void open_paged(uint32_t page)
{
	k = kit_open_paged(PAGES, page, 7);
	memset(&a, 0, sizeof(a));
	OK(kit_hello(k, &a, 1, 1));
}

/* Runs rule(page) on a new store of each size; the store must be empty and pass the audit at the
 * end. */
static void each(void (*rule)(uint32_t page))
{
	data = malloc(MAX);
	back = malloc(MAX);
	for (uint32_t i = 0; i < MAX; i++)
		data[i] = (uint8_t)(i * 7 + i / 4096);
	for (uint32_t page = LEND_MEM_PAGE; page <= LEND_MEM_PAGE_MAX; page *= 2) {
		open_paged(page);
		rule(page);
		while (lend_store_deadline(k->store) == 0)
			lend_store_tick(k->store, k->now);
		cr_assert_eq(kit_stats(k).pages_used, 0, "pages of %u", page);
		kit_close(k);
	}
	free(data);
	free(back);
}

static void takes_whole_pages(uint32_t page)
{
	const struct {
		uint64_t len, pages;
	} row[] = {{1, 1}, {page - 1, 1}, {page, 1}, {page + 1, 2}, {3ul * page, 3}};
	struct lend_store_usage use;
	struct lend_memref ref;

	cr_assert_eq(kit_stats(k).page_bytes, page);
	cr_assert_eq(kit_stats(k).pages_total, PAGES);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		OK(kit_put(k, &a, data, row[i].len, kit_owned, &ref));
		lend_store_usage(k->store, 0, &use);
		cr_expect_eq(kit_stats(k).pages_used, row[i].pages, "%u, row %zu", page, i);
		cr_expect_eq(use.pages, row[i].pages, "%u, row %zu", page, i);
		OK(kit_get(k, &a, &ref, 0, row[i].len, back));
		cr_expect_eq(memcmp(data, back, row[i].len), 0, "%u, row %zu", page, i);
		OK(kit_release(k, &a, &ref));
		while (lend_store_deadline(k->store) == 0)
			lend_store_tick(k->store, k->now);
	}
}

TestRuns(store_page_size, what_is_stored_takes_whole_pages, each(takes_whole_pages));

/* A write that crosses from page 1 to page 2 of a map which begins in the middle of a page. */
static void copies_one_page(uint32_t page)
{
	uint64_t len = 4ul * page - 77, base = page / 2 + 3, at = 2ul * page - base - 1;
	uint8_t xy[] = "xy";
	struct lend_memref ref, part;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, len, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, base, len - base, LEND_RIGHT_MAP, &part), 0);
	OK(kit_map(k, &a, &part, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, at, 2, xy));
	cr_expect_eq(kit_stats(k).cow_copies, 2, "%u", page);
	cr_expect_eq(kit_stats(k).pages_used, 6, "%u", page);
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, len - base, back));
	cr_expect_eq(memcmp(back + at, xy, 2), 0, "%u", page);
	memcpy(back + at, data + base + at, 2);
	cr_expect_eq(memcmp(back, data + base, len - base), 0, "%u", page);
	OK(kit_get(k, &a, &ref, 0, len, back));
	cr_expect_eq(memcmp(back, data, len), 0, "%u", page);
	OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &space, 0, 0, NULL));
	OK(kit_release(k, &a, &ref));
}

TestRuns(store_page_size, a_write_copies_the_pages_that_it_touches, each(copies_one_page));

/* The number of frames that a write of len bytes lands in directly. */
static uint32_t landing(const struct lend_memspace *space, uint64_t offset, uint64_t len)
{
	struct lend_memop op = {.kind = LEND_MEMOP_WRITE,
				.client = a.number,
				.life = a.life,
				.id = a.id + 1,
				.low = a.id + 1,
				.space = *space,
				.offset = offset,
				.len = len};
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(&op, head), segs, fixed, before, taken, p;

	before = (uint32_t)kit_stats(k).pages_used;
	p = lend_store_place(k->store, &a.peer, head, n, n + len, seg, &segs, &fixed);
	taken = (uint32_t)kit_stats(k).pages_used - before;
	cr_assert_eq(p == 0, taken == 0);
	if (p)
		lend_store_unplace(k->store, p);
	return taken;
}

static void lands_from_a_page_on(uint32_t page)
{
	uint64_t min = page > LEND_STORE_PLACE_MIN ? page : LEND_STORE_PLACE_MIN;
	struct lend_memspace space;

	OK(kit_alloc(k, &a, 4 * min, &space));
	cr_expect_eq(landing(&space, 0, min - 1), 0, "%u", page);
	cr_expect_eq(landing(&space, 0, min), min / page, "%u", page);
	cr_expect_eq(landing(&space, page, min + 1), min / page + 1, "%u", page);
	cr_expect_eq(landing(&space, page - 1, min), 0, "%u", page);
	OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &space, 0, 0, NULL));
}

TestRuns(store_page_size, a_write_lands_in_frames_from_a_page_on, each(lands_from_a_page_on));

static void used_again_reads_zeros(uint32_t page)
{
	struct lend_memspace space;
	struct lend_memref ref;

	OK(kit_put(k, &a, data, page, kit_owned, &ref));
	OK(kit_release(k, &a, &ref));
	OK(kit_alloc(k, &a, page, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 77, 5, data));
	cr_assert_eq(memcmp(lend_page(k->store, 1) + 77, data, 5), 0, "the same page");
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, page, back));
	cr_expect_eq(memcmp(back + 77, data, 5), 0, "%u", page);
	memset(back + 77, 0, 5);
	for (uint32_t i = 0; i < page; i++)
		cr_assert_eq(back[i], 0, "byte %u of %u", i, page);
	OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &space, 0, 0, NULL));
}

TestRuns(store_page_size, a_page_used_again_reads_as_zeros, each(used_again_reads_zeros));

static void frees_bit_by_bit(uint32_t page)
{
	uint64_t most = k->config.reap * 64, used;
	uint32_t pages = (uint32_t)lend_min_u64(PAGES, LEND_MEM_PART_MAX / page);
	struct lend_memref ref;

	OK(kit_put(k, &a, data, (uint64_t)pages * page, kit_owned, &ref));
	OK(kit_release(k, &a, &ref));
	used = kit_stats(k).pages_used;
	cr_expect_eq(used, pages > most ? pages - most : 0, "%u", page);
	for (uint64_t before = used; used; before = used) {
		cr_assert_eq(lend_store_deadline(k->store), 0, "%u", page);
		lend_store_tick(k->store, k->now);
		kit_audit(k);
		used = kit_stats(k).pages_used;
		cr_expect_eq(used, before > most ? before - most : 0, "%u", page);
	}
	cr_expect_eq(kit_stats(k).nodes_used, 0, "%u", page);
}

TestRuns(store_page_size, a_step_frees_no_more_than_its_nodes, each(frees_bit_by_bit));

/* Frames that are still being freed are available to an allocation, even in the middle of a
 * node. */
static void full_is_not_full(uint32_t page)
{
	uint32_t pages = (uint32_t)lend_min_u64(PAGES, LEND_MEM_PART_MAX / page);
	struct lend_memref ref;

	for (int i = 0; i < 9; i++) {
		OK(kit_put(k, &a, data, (uint64_t)pages * page, kit_owned, &ref));
		OK(kit_release(k, &a, &ref));
	}
}

TestRuns(store_page_size, alloc__frames_being_freed__are_used, each(full_is_not_full));
