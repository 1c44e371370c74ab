/* Goal: a read of several references gives each part its own status and exactly its own bytes, and
 * pins nothing longer than its reply. Method: parts that succeed next to parts that fail in each
 * possible way, slices of one page, the greatest numbers and lengths, and malformed lists; every
 * ledger is counted after each. Covers: mn/store/get_many.c, mn/store/data_exec.c */
#include "util/bits.h" /* before the suite: it has an a and a b of its own */

#include "unit/storesuite.h"

#include "mn/store/page_tree.h"
#include "mn/store/store.h"

TestSuite(store_get_many, .init = setup);

struct asked {
	const struct lend_memref *ref; /* NULL: 64 bytes that are no reference */
	uint64_t offset, len;
	enum lend_mem_status want;
};

/* Asks for the parts. The bytes are in back, and the statuses are checked. */
static enum lend_mem_status ask_parts(struct client *w, const struct asked *part, uint32_t n)
{
	uint8_t list[LEND_MEM_MANY_MAX * LEND_MEMPART_LEN], ref[LEND_MEMREF_LEN];
	struct lend_memop op = {.kind = LEND_MEMOP_GET_MANY, .n = n};

	for (uint32_t i = 0; i < n; i++) {
		memset(ref, 0xff, sizeof(ref));
		if (part[i].ref)
			lend_memref_encode(part[i].ref, ref);
		lend_mempart_encode(ref, part[i].offset, part[i].len, list + i * LEND_MEMPART_LEN);
	}
	if (kit_do(k, w, &op, list) != LEND_MEM_OK)
		return k->out.status;
	for (uint32_t i = 0; i < n; i++)
		cr_expect_eq(lend_load_u32(k->out.head + 4 * i), part[i].want, "part %u: %u", i,
			     lend_load_u32(k->out.head + 4 * i));
	cr_expect_eq(k->out.head_len, k->out.pinned ? 4 * n : 0);
	kit_collect(k, back);
	cr_expect_eq(kit_stats(k).pages_pinned, 0);
	if (!k->out.damaged)
		kit_audit(k);
	return LEND_MEM_OK;
}

static bool is_zero(const uint8_t *at, size_t len)
{
	while (len && !*at)
		at++, len--;
	return !len;
}

TestThen(store_get_many, some_fail__others_have_their_bytes)
{
	struct lend_memref one, two, gone, forged, narrow;
	uint8_t *at = back;

	OK(kit_put(k, &a, data, 10000, kit_owned, &one));
	OK(kit_put(k, &b, data + 77, 5000, kit_owned, &two));
	OK(kit_put(k, &a, data, 10, kit_owned, &gone));
	OK(kit_release(k, &a, &gone));
	forged = one;
	forged.serial++;
	cr_assert_eq(lend_memref_slice(&one, 0, 100, LEND_RIGHT_GRANT, &narrow), 0);
	OK(ask_parts(&a,
		     (struct asked[]){{&one, 1, 9999, LEND_MEM_OK},
				      {&gone, 0, 10, LEND_MEM_NOT_FOUND},
				      {&forged, 0, 5000, LEND_MEM_PERMISSION_DENIED},
				      {&two, 0, 5000, LEND_MEM_OK},
				      {&narrow, 0, 100, LEND_MEM_PERMISSION_DENIED},
				      {&two, 1, 5000, LEND_MEM_OUT_OF_RANGE},
				      {&two, UINT64_MAX, 2, LEND_MEM_OUT_OF_RANGE},
				      {NULL, 0, 3, LEND_MEM_INVALID_ARGUMENT},
				      {&one, 10000, 0, LEND_MEM_OK},
				      {&one, 0, 1, LEND_MEM_OK}},
		     10));
	cr_expect_arr_eq(at, data + 1, 9999);
	at += 9999;
	cr_expect(is_zero(at, 5010));
	at += 5010;
	cr_expect_arr_eq(at, data + 77, 5000);
	at += 5000;
	cr_expect(is_zero(at, 5105));
	cr_expect_eq(at[5105], data[0]);
	cr_expect_eq(kit_stats(k).stale, 1);
	cr_expect_eq(kit_stats(k).denied, 2);
}

/* The end of one part and the beginning of the next are in one page: it is pinned twice. */
TestThen(store_get_many, parts_of_one_page__are_unpinned_each)
{
	struct lend_memref ref;
	struct asked part[LEND_MEM_MANY_MAX];

	OK(kit_put(k, &a, data, 10000, kit_owned, &ref));
	for (uint32_t i = 0; i < LEND_MEM_MANY_MAX; i++)
		part[i] = (struct asked){&ref, i * 150, 150, LEND_MEM_OK};
	OK(ask_parts(&a, part, LEND_MEM_MANY_MAX));
	cr_expect_arr_eq(back, data, LEND_MEM_MANY_MAX * 150);
	for (uint32_t i = 0; i < LEND_MEM_MANY_MAX; i++)
		part[i] = (struct asked){&ref, 4000, 200, LEND_MEM_OK};
	OK(ask_parts(&a, part, LEND_MEM_MANY_MAX));
	cr_expect_arr_eq(back + 63 * 200, data + 4000, 200);
	OK(kit_release(k, &a, &ref));
	cr_expect_eq(kit_stats(k).pages_used, 0);
}

TestThen(store_get_many, no_bytes__statuses_only)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 0, kit_owned, &ref));
	OK(ask_parts(
	    &a, (struct asked[]){{&ref, 0, 0, LEND_MEM_OK}, {&ref, 1, 0, LEND_MEM_OUT_OF_RANGE}},
	    2));
	cr_expect_eq(k->out.len, 8);
}

TestThen(store_get_many, too_many_bytes__nothing_is_read)
{
	struct asked part[3] = {{NULL, 0, LEND_MEM_PART_MAX, LEND_MEM_OK},
				{NULL, 0, 1, LEND_MEM_OK},
				{NULL, 0, UINT64_MAX, LEND_MEM_OK}};

	IS(ask_parts(&a, part, 2), INVALID_ARGUMENT);
	IS(ask_parts(&a, part + 1, 2), INVALID_ARGUMENT);
	cr_expect_eq(k->out.n, 0);
	part[0].want = LEND_MEM_INVALID_ARGUMENT;
	part[0].len = sizeof(back);
	OK(ask_parts(&a, part, 1)); /* a failed part has zeros */
	cr_expect(is_zero(back, sizeof(back)));
}

TestThen(store_get_many, damaged_page__that_part_is_data_loss)
{
	struct lend_memref good, bad;
	struct lend_view view;
	uint8_t *byte;

	OK(kit_put(k, &a, data, 9000, kit_owned, &good));
	OK(kit_put(k, &a, data, 9000, kit_owned, &bad));
	view = lend_object_view(k->store, bad.slot & LEND_MEMREF_SLOT_MASK);
	byte = lend_page(k->store, lend_tree_frame(k->store, &view, 2));
	*byte ^= 1;
	OK(ask_parts(&a,
		     (struct asked[]){{&bad, 100, 8500, LEND_MEM_DATA_LOSS},
				      {&good, 0, 9000, LEND_MEM_OK},
				      {&bad, 0, 8000, LEND_MEM_OK}},
		     3));
	cr_expect(k->out.damaged);
	cr_expect(is_zero(back, 8500));
	cr_expect_arr_eq(back + 8500, data, 9000);
	cr_expect_arr_eq(back + 17500, data, 8000);
	cr_expect_eq(kit_stats(k).damaged, 1);
	*byte ^= 1;
}

/* The whole operation waits, whatever else it reads, and has pinned nothing. */
TestThen(store_get_many, unwritten_snapshot__all_wait)
{
	struct lend_memop early = {
	    .kind = LEND_MEMOP_PUT, .flags = LEND_MEMOP_EARLY, .len = 100, .terms = kit_owned};
	struct lend_memref written, ref;
	struct asked part[2];

	OK(kit_put(k, &a, data, 5000, kit_owned, &written));
	OK(kit_do(k, &a, &early, NULL));
	cr_assert(lend_memref_decode(k->out.head, &ref));
	part[0] = (struct asked){&written, 0, 5000, LEND_MEM_OK};
	part[1] = (struct asked){&ref, 0, 100, LEND_MEM_OK};
	cr_expect_eq(ask_parts(&b, part, 2), LEND_MEM_UNWRITTEN);
	cr_expect_eq(k->out.awaits_serial, ref.serial);
	cr_expect(lend_store_awaits(k->store, k->out.awaits_slot, k->out.awaits_serial));
	cr_expect_eq(kit_stats(k).pages_pinned, 0);
	OK(kit_release(k, &a, &ref));
	part[1].want = LEND_MEM_NOT_FOUND;
	OK(ask_parts(&b, part, 2));
}

TestThen(store_get_many, bound_to_another_tenant__that_part_is_denied)
{
	struct lend_memop bound = {
	    .kind = LEND_MEMOP_PUT, .flags = LEND_MEMOP_BOUND, .len = 5000, .terms = kit_owned};
	struct lend_memref secret, open;

	k->tenant = 1;
	OK(kit_do(k, &a, &bound, data));
	cr_assert(lend_memref_decode(k->out.head, &secret));
	k->tenant = 0;
	OK(kit_put(k, &b, data, 300, kit_owned, &open));
	OK(ask_parts(&b,
		     (struct asked[]){{&secret, 0, 5000, LEND_MEM_PERMISSION_DENIED},
				      {&open, 0, 300, LEND_MEM_OK}},
		     2));
	cr_expect(is_zero(back, 5000));
	cr_expect_arr_eq(back + 5000, data, 300);
}

/* Pages of replies in flight are limited as pages are: parts within the limit are read. */
TestThen(store_get_many, no_room_to_pin__that_part_is_refused)
{
	struct lend_store_quota quota = {4, 100, 100};
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 3 * LEND_MEM_PAGE, kit_owned, &ref));
	lend_store_set_quota(k->store, 0, &quota);
	OK(ask_parts(&a,
		     (struct asked[]){{&ref, 0, 3 * LEND_MEM_PAGE, LEND_MEM_OK},
				      {&ref, 0, 3 * LEND_MEM_PAGE, LEND_MEM_RESOURCE_EXHAUSTED},
				      {&ref, 0, 1, LEND_MEM_OK}},
		     3));
}
