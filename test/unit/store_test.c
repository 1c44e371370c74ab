/* Goal: each operation does what the protocol says, gives a typed status otherwise, and none of the
 * faults known from other systems is possible. Method: short stories, one per rule, each ending in
 * an audit of all ledgers. Tests named after a known fault are the list of what must be impossible.
 */
#include "unit/storekit.h"

#define S UINT64_C(1000000000)
static const struct lend_memterms transfer = {LEND_TERMS_TRANSFER, 0, 10 * S};
static const struct lend_memterms shared = {LEND_TERMS_SHARED, 1, 10 * S};
static const struct lend_memterms shared0 = {LEND_TERMS_SHARED, 0, 10 * S};

static uint8_t data[64 * LEND_MEM_PAGE], back[64 * LEND_MEM_PAGE];
static struct kit *k;
static struct who a, b;

static void setup(void)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 4096 + 1);
	k = kit_open(64, 1);
	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_hello(k, &b, 2, 1), LEND_MEM_OK);
}

static void teardown(void)
{
	struct lend_memstats stats;

	lend_store_hangup(k->store, a.incarnation);
	lend_store_hangup(k->store, b.incarnation);
	while (kit_stats(k).grants)
		kit_next_deadline(k);
	stats = kit_stats(k);
	cr_assert_eq(stats.pages_used, 0);
	cr_assert_eq(stats.refs + stats.spaces + stats.holds + stats.nodes_used, 0);
	cr_assert_eq(stats.clients, 0);
	kit_close(k);
}

TestSuite(store, .init = setup, .fini = teardown);
#define OK(x)     cr_assert_eq((x), LEND_MEM_OK)
#define IS(x, st) cr_assert_eq((x), LEND_MEM_##st)

Test(store, put_and_get_of_every_length_near_a_page)
{
	static const uint64_t len[] = {0, 1, 4095, 4096, 4097, 8192, 8193, 64 * 4096};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct lend_memref ref;

		OK(kit_put(k, &a, data, len[i], kit_owned, &ref));
		cr_assert_eq(kit_stats(k).pages_used, (len[i] + 4095) / 4096);
		OK(kit_get(k, &b, &ref, 0, len[i], back));
		cr_assert_eq(memcmp(data, back, len[i]), 0);
		kit_audit(k);
		OK(kit_release(k, &a, &ref));
		cr_assert_eq(kit_stats(k).pages_used, 0);
	}
}

Test(store, range_overflow)
{
	static const struct {
		uint64_t offset, len;
		enum lend_mem_status want;
	} row[] = {
	    {0, 5000, LEND_MEM_OK},
	    {0, 5001, LEND_MEM_OUT_OF_RANGE},
	    {5000, 0, LEND_MEM_OK},
	    {5001, 0, LEND_MEM_OUT_OF_RANGE},
	    {4999, 2, LEND_MEM_OUT_OF_RANGE},
	    {UINT64_MAX, 2, LEND_MEM_OUT_OF_RANGE},
	    {UINT64_MAX - 4095, 4096, LEND_MEM_OUT_OF_RANGE},
	    {UINT64_C(1) << 63, 1, LEND_MEM_OUT_OF_RANGE},
	};
	struct lend_memref ref, r2;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, 5000, kit_owned, &ref));
	OK(kit_alloc(k, &a, 5000, &space));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint64_t o = row[i].offset, n = row[i].len;

		cr_assert_eq(kit_get(k, &a, &ref, o, n, back), row[i].want, "row %zu", i);
		cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_READ, &space, o, n, back), row[i].want);
		cr_assert_eq(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, o, n, data),
			     row[i].want);
		cr_assert_eq(kit_seal(k, &a, &space, o, n, kit_owned, &r2), row[i].want);
	}
	IS(kit_alloc(k, &a, LEND_MEMREF_ROOT_MAX + 1, &space), OUT_OF_RANGE);
	OK(kit_alloc(k, &a, LEND_MEMREF_ROOT_MAX, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, LEND_MEMREF_ROOT_MAX - 9, 9, data));
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, LEND_MEMREF_ROOT_MAX - 9, 9, back));
	cr_assert_eq(memcmp(data, back, 9), 0);
}

Test(store, partial_page_cow_write)
{
	struct lend_memref ref;
	struct lend_memspace space;
	uint64_t before;

	OK(kit_put(k, &a, data, 3 * 4096, kit_owned, &ref));
	OK(kit_map(k, &b, &ref, &space));
	before = kit_stats(k).cow_copies;
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 5000, 10, (uint8_t[10]){0}));
	cr_assert_eq(kit_stats(k).cow_copies, before + 1);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 6000, 10, (uint8_t[10]){0}));
	cr_assert_eq(kit_stats(k).cow_copies, before + 1); /* sole owner now */
	cr_assert_eq(kit_stats(k).pages_used, 4);
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 3 * 4096, back));
	for (size_t i = 0; i < 3 * 4096; i++)
		cr_assert_eq(back[i],
			     (i >= 5000 && i < 5010) || (i >= 6000 && i < 6010) ? 0 : data[i]);
	OK(kit_get(k, &a, &ref, 0, 3 * 4096, back));
	cr_assert_eq(memcmp(data, back, 3 * 4096), 0);
}

Test(store, snapshot_torn_by_release_before_the_copy)
{
	struct lend_memref ref, sealed;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, 2 * 4096, kit_owned, &ref));
	OK(kit_map(k, &b, &ref, &space));
	OK(kit_seal(k, &b, &space, 100, 5000, kit_owned, &sealed));
	OK(kit_release(k, &a, &ref));
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 0, 8192, (uint8_t[8192]){9}));
	OK(kit_get(k, &a, &sealed, 0, 5000, back));
	cr_assert_eq(memcmp(data + 100, back, 5000), 0);
	OK(kit_space_op(k, &b, LEND_MEMOP_FREE, &space, 0, 0, NULL));
	OK(kit_get(k, &a, &sealed, 0, 5000, back));
	cr_assert_eq(memcmp(data + 100, back, 5000), 0);
	cr_assert_eq(kit_stats(k).pages_used, 2);
}

Test(store, refcount_wrap_256_holders)
{
	struct lend_memref ref;
	struct who w[258];

	memset(w, 0, sizeof(w));
	OK(kit_put(k, &a, data, 4096, (struct lend_memterms){LEND_TERMS_SHARED, 258, S}, &ref));
	OK(kit_release(k, &a, &ref));
	for (uint32_t i = 0; i < 258; i++) {
		OK(kit_hello(k, &w[i], 100 + i, 1));
		OK(kit_ref_op(k, &w[i], LEND_MEMOP_ADOPT, &ref));
	}
	kit_next_deadline(k); /* the grant ends */
	cr_assert_eq(kit_stats(k).holds, 258);
	for (uint32_t i = 0; i < 258; i++) {
		OK(kit_get(k, &a, &ref, 0, 4096, back));
		OK(kit_release(k, &w[i], &ref));
	}
	IS(kit_get(k, &a, &ref, 0, 4096, back), NOT_FOUND);
	for (uint32_t i = 0; i < 258; i++)
		lend_store_hangup(k->store, w[i].incarnation);
}

Test(store, many_maps_of_one_page)
{
	struct lend_memref ref;
	struct lend_memspace space[300];

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	for (int i = 0; i < 300; i++)
		OK(kit_map(k, &b, &ref, &space[i]));
	OK(kit_release(k, &a, &ref));
	for (int i = 0; i < 300; i++) {
		OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space[i], 0, 4096, back));
		cr_assert_eq(memcmp(data, back, 4096), 0);
		OK(kit_space_op(k, &b, LEND_MEMOP_FREE, &space[i], 0, 0, NULL));
	}
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

Test(store, bogus_or_duplicate_map)
{
	struct lend_memref ref, bad;
	struct lend_memspace space, again;
	struct lend_memop op = {.kind = LEND_MEMOP_MAP, .client = 1};

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	for (int bit = 0; bit < 128; bit++) {
		bad = ref;
		bad.token[bit / 8] ^= (uint8_t)(1 << bit % 8);
		IS(kit_map(k, &b, &bad, &space), PERMISSION_DENIED);
	}
	bad = ref;
	bad.slot += 1;
	IS(kit_map(k, &b, &bad, &space), PERMISSION_DENIED);
	bad = ref;
	bad.slot |= 63u << 26;
	IS(kit_map(k, &b, &bad, &space), NOT_FOUND);
	OK(kit_map(k, &b, &ref, &space));
	op.ref = ref;
	op.life = b.life;
	op.id = b.id;
	op.low = b.id;
	OK(kit_exec(k, &b, &op, NULL)); /* the network's repeat */
	lend_memspace_decode(k->out.head, 16, &again);
	cr_assert_eq(memcmp(&space, &again, sizeof(space)), 0);
	cr_assert_eq(kit_stats(k).spaces, 1);
	IS(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, 1, back), NOT_FOUND); /* b's alone */
}

Test(store, unmapped_reference_leak)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, transfer, &ref));
	lend_store_hangup(k->store, a.incarnation);
	OK(kit_get(k, &b, &ref, 0, 4096, back)); /* lives on its grant */
	kit_next_deadline(k);
	IS(kit_get(k, &b, &ref, 0, 4096, back), NOT_FOUND);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	cr_assert_eq(kit_stats(k).grants_expired, 1);
}

Test(store, creator_reads_own_reference)
{
	static const struct lend_memterms *terms[] = {&kit_owned, &transfer, &shared, &shared0};
	struct lend_memref ref;

	for (size_t i = 0; i < 4; i++) {
		OK(kit_put(k, &a, data, 5000, *terms[i], &ref));
		OK(kit_get(k, &a, &ref, 10, 4000, back));
		cr_assert_eq(memcmp(data + 10, back, 4000), 0);
	}
}

Test(store, recycled_page_bytes)
{
	struct lend_memref ref, stale;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, 64 * 4096, kit_owned, &ref));
	stale = ref;
	OK(kit_release(k, &a, &ref));
	OK(kit_alloc(k, &b, 64 * 4096, &space));
	for (uint64_t p = 0; p < 64; p++)
		OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, p * 4096 + 5, 1, (uint8_t[1]){3}));
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 64 * 4096, back));
	for (size_t i = 0; i < 64 * 4096; i++)
		cr_assert_eq(back[i], i % 4096 == 5 ? 3 : 0);
	IS(kit_get(k, &a, &stale, 0, 1, back), NOT_FOUND);
}

Test(store, get_pins_pages_until_done)
{
	struct lend_memref ref;
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .len = 64 * 4096};
	static struct lend_store_out reply;

	OK(kit_put(k, &a, data, 64 * 4096, kit_owned, &ref));
	op.ref = ref;
	OK(kit_do(k, &b, &op, NULL));
	reply = k->out;
	OK(kit_release(k, &a, &ref));
	cr_assert_eq(kit_stats(k).refs, 0);
	cr_assert_eq(kit_stats(k).pages_pinned, 64);
	IS(kit_put(k, &a, data, 1, kit_owned, &ref), RESOURCE_EXHAUSTED);
	lend_store_hangup(k->store, b.incarnation); /* who asked is gone: the carrier is not */
	k->out = reply;
	kit_audit(k);
	kit_collect(k, back);
	cr_assert_eq(memcmp(data, back, 64 * 4096), 0);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

Test(store, write_under_a_reply_leaves_the_reply_alone)
{
	struct lend_memspace space;
	struct lend_memop op = {.kind = LEND_MEMOP_READ, .len = 4096};
	static struct lend_store_out reply;

	OK(kit_alloc(k, &a, 4096, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 4096, data));
	op.space = space;
	OK(kit_do(k, &a, &op, NULL));
	reply = k->out;
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 9, (uint8_t[9]){0}));
	cr_assert_eq(memcmp(reply.seg[0].data, data, 4096), 0);
	lend_store_done(k->store, reply.seg, reply.n);
	cr_assert_eq(kit_stats(k).pages_used, 1);
	cr_assert_eq(kit_stats(k).cow_copies, 0);
}

Test(store, out_of_memory_is_a_status_and_changes_nothing)
{
	struct lend_memref ref, r2;
	struct lend_memspace space;
	uint64_t hash;

	OK(kit_put(k, &a, data, 63 * 4096, kit_owned, &ref));
	IS(kit_put(k, &a, data, 4097, kit_owned, &r2), RESOURCE_EXHAUSTED);
	cr_assert_eq(kit_stats(k).pages_used, 63);
	OK(kit_map(k, &b, &ref, &space));
	IS(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 4000, 200, data), RESOURCE_EXHAUSTED);
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 8192, back));
	cr_assert_eq(memcmp(data, back, 8192), 0);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 0, 96, data)); /* one page is left */
	IS(kit_put(k, &a, data, 1, kit_owned, &r2), RESOURCE_EXHAUSTED);
	hash = lend_store_hash(k->store);
	IS(kit_get(k, &a, &ref, 63 * 4096, 1, back), OUT_OF_RANGE);
	cr_assert_eq(lend_store_hash(k->store) == hash, false); /* low water moved */
	hash = lend_store_hash(k->store);
	a.id--;
	IS(kit_get(k, &a, &ref, 63 * 4096, 1, back), OUT_OF_RANGE);
	cr_assert_eq(lend_store_hash(k->store), hash);
}

Test(store, out_of_memory_under_a_shared_root)
{
	struct lend_memspace space;
	struct lend_memref ref;

	OK(kit_alloc(k, &a, 4096 * 4096,
		     &space)); /* two levels, so a seal of all shares the root */
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 40 * 4096, data));
	OK(kit_seal(k, &a, &space, 0, 4096 * 4096, kit_owned, &ref));
	IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 25 * 4096, back), RESOURCE_EXHAUSTED);
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 24 * 4096, back));
	cr_assert_eq(kit_stats(k).cow_copies, 24);
	OK(kit_get(k, &b, &ref, 0, 40 * 4096, back));
	cr_assert_eq(memcmp(data, back, 40 * 4096), 0);
}

Test(store, address_zero_or_error_returned_as_address)
{
	struct lend_memspace zero = {0, 1, 0}, space;

	IS(kit_space_op(k, &a, LEND_MEMOP_READ, &zero, 0, 0, back), NOT_FOUND);
	zero.serial = 1;
	IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &zero, 0, 1, data), NOT_FOUND);
	zero = (struct lend_memspace){UINT32_MAX, 1, 1};
	IS(kit_space_op(k, &a, LEND_MEMOP_FREE, &zero, 0, 0, NULL), NOT_FOUND);
	IS(kit_alloc(k, &a, UINT64_MAX, &space), OUT_OF_RANGE);
	cr_assert_eq(k->out.len, 0);
	OK(kit_alloc(k, &a, 4096, &space));
	cr_assert_neq(space.serial, 0);
	cr_assert_neq(space.slot, 0);
}

Test(store, slices_limit_what_a_bearer_can_do)
{
	struct lend_memref ref, part, deep, bad;
	struct lend_memspace space;
	struct lend_memop op = {.kind = LEND_MEMOP_NARROW, .offset = 10, .len = 20, .rights = 1};

	OK(kit_put(k, &a, data, 3 * 4096, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, 5000, 1000, LEND_RIGHT_READ | LEND_RIGHT_MAP, &part),
		     0);
	cr_assert_eq(lend_memref_slice(&part, 100, 50, LEND_RIGHT_READ, &deep), 0);
	OK(kit_get(k, &b, &deep, 0, 50, back));
	cr_assert_eq(memcmp(data + 5100, back, 50), 0);
	IS(kit_get(k, &b, &deep, 0, 51, back), OUT_OF_RANGE);
	IS(kit_get(k, &b, &deep, UINT64_MAX - 20, 51, back), OUT_OF_RANGE);
	IS(kit_map(k, &b, &deep, &space), PERMISSION_DENIED);
	IS(kit_grant(k, &a, &part, transfer), PERMISSION_DENIED);
	bad = part;
	bad.rights[1] = LEND_RIGHT_ALL;
	IS(kit_grant(k, &a, &bad, transfer), PERMISSION_DENIED);
	bad = part;
	bad.slice[0].len = 2000;
	IS(kit_get(k, &b, &bad, 0, 2000, back), PERMISSION_DENIED);
	OK(kit_map(k, &b, &part, &space));
	cr_assert_eq(kit_stats(k).pages_used, 3);
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 1000, back));
	cr_assert_eq(memcmp(data + 5000, back, 1000), 0);
	IS(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 1001, back), OUT_OF_RANGE);
	OK(kit_release(k, &a, &ref));
	cr_assert_eq(kit_stats(k).pages_used, 1); /* a map keeps its own pages only */

	OK(kit_put(k, &a, data, 3 * 4096, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, 100, 100, 3, &part), 0);
	cr_assert_eq(lend_memref_slice(&part, 10, 50, 1, &op.ref), 0);
	OK(kit_do(k, &b, &op, NULL));
	cr_assert(lend_memref_decode(k->out.head, &deep));
	cr_assert_eq(lend_memref_slice(&deep, 1, 10, 1, &deep), 0);
	OK(kit_get(k, &b, &deep, 0, 10, back));
	cr_assert_eq(memcmp(data + 121, back, 10), 0);
}

/* Whoever has a token can sign any slice of it, also one that lies: the node must look at the
 * ranges. */
Test(store, slices_with_a_genuine_token_past_their_parent)
{
	static const struct lend_memslice row[] = {
	    {0, 5001}, {5000, 1}, {5001, 0}, {(UINT64_C(1) << 40) - 1, 2}, {4999, 2}};
	struct lend_memref ref, lie;

	OK(kit_put(k, &a, data, 5000, kit_owned, &ref));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		lie = ref;
		lie.root_len = UINT64_C(1) << 41;
		cr_assert_eq(lend_memref_slice(&lie, row[i].offset, row[i].len, 1, &lie), 0);
		lie.root_len = 5000;
		IS(kit_get(k, &b, &lie, 0, 0, back), INVALID_ARGUMENT);
		lie = ref;
		cr_assert_eq(lend_memref_slice(&lie, 0, 5000, 1, &lie), 0);
		lie.slice[0].len = UINT64_C(1) << 41;
		cr_assert_eq(lend_memref_slice(&lie, row[i].offset, row[i].len, 1, &lie), 0);
		lie.slice[0].len = 5000;
		IS(kit_get(k, &b, &lie, 0, 0, back), INVALID_ARGUMENT);
	}
	cr_assert_eq(lend_memref_slice(&ref, 0, 10, LEND_RIGHT_READ, &lie), 0);
	lie.rights[1] = LEND_RIGHT_ALL;
	cr_assert_eq(lend_memref_slice(&lie, 0, 10, LEND_RIGHT_ALL, &lie), 0);
	lie.rights[1] = LEND_RIGHT_READ;
	IS(kit_grant(k, &a, &lie, transfer), INVALID_ARGUMENT);
}

Test(store, terms_transfer)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, transfer, &ref));
	cr_assert_eq(kit_stats(k).holds, 0);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref)); /* again: consumes nothing */
	IS(kit_ref_op(k, &a, LEND_MEMOP_ADOPT, &ref), FAILED_PRECONDITION);
	IS(kit_release(k, &a, &ref), FAILED_PRECONDITION);
	OK(kit_grant(k, &b, &ref, transfer)); /* drops b's hold in the same step */
	cr_assert_eq(kit_stats(k).holds, 0);
	OK(kit_release(k, &a, &ref)); /* a bearer gives up what it could adopt */
	cr_assert_eq(kit_stats(k).pages_used, 0);
	IS(kit_ref_op(k, &a, LEND_MEMOP_ADOPT, &ref), NOT_FOUND);
}

Test(store, terms_shared)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, shared, &ref));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_release(k, &b, &ref));
	OK(kit_release(k, &a, &ref));
	OK(kit_get(k, &b, &ref, 0, 10, back)); /* readable until ttl, used up or not */
	IS(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref), FAILED_PRECONDITION);
	k->now += 10 * S; /* an operation at the ttl, before any tick */
	IS(kit_get(k, &b, &ref, 0, 10, back), NOT_FOUND);
}

Test(store, earliest_grant_is_used_first)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_grant(k, &a, &ref, (struct lend_memterms){LEND_TERMS_SHARED, 1, 2 * S}));
	OK(kit_grant(k, &a, &ref, (struct lend_memterms){LEND_TERMS_SHARED, 1, 9 * S}));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	k->now += 3 * S;
	lend_store_tick(k->store, k->now);
	cr_assert_eq(kit_stats(k).grants, 1);
	OK(kit_release(k, &b, &ref));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref)); /* the later one is still whole */
}

Test(store, release_of_many)
{
	struct lend_memref ref[3], forged;
	uint8_t bytes[4 * LEND_MEMREF_LEN];
	struct lend_memop op = {.kind = LEND_MEMOP_RELEASE, .n = 4};

	for (int i = 0; i < 3; i++) {
		OK(kit_put(k, &a, data, 4096, kit_owned, &ref[i]));
		lend_memref_encode(&ref[i], bytes + i * 64);
	}
	forged = ref[0];
	forged.token[3] ^= 4;
	lend_memref_encode(&forged, bytes + 192);
	IS(kit_do(k, &a, &op, bytes), PERMISSION_DENIED);
	cr_assert_eq(kit_stats(k).refs, 3); /* nothing half done */
	memset(bytes + 192, 0xff, 64);
	IS(kit_do(k, &a, &op, bytes), INVALID_ARGUMENT);
	cr_assert_eq(kit_stats(k).refs, 3);
	lend_memref_encode(&ref[0], bytes + 192);
	OK(kit_do(k, &a, &op, bytes));
	cr_assert_eq(k->out.head[0], 3);
	cr_assert_eq(k->out.head[4], 1);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	IS(kit_do(k, &a, &op, bytes), NOT_FOUND);
}

Test(store, repeats_get_the_same_reply_once)
{
	struct lend_memop op = {.kind = LEND_MEMOP_PUT, .client = 1, .id = 5, .low = 5, .len = 100};
	uint8_t first[64];

	op.life = a.life;
	op.terms = kit_owned;
	OK(kit_exec(k, &a, &op, data));
	memcpy(first, k->out.head, 64);
	OK(kit_exec(k, &a, &op, data));
	cr_assert_eq(memcmp(first, k->out.head, 64), 0);
	cr_assert_eq(kit_stats(k).refs, 1);
	op.kind = LEND_MEMOP_ALLOC;
	IS(kit_exec(k, &a, &op, data), INVALID_ARGUMENT);
	op.kind = LEND_MEMOP_PUT;
	op.id = 4;
	op.low = 4;
	IS(kit_exec(k, &a, &op, data), FAILED_PRECONDITION); /* below low water */
	op.id = 5 + 63;
	op.low = 5;
	OK(kit_exec(k, &a, &op, data));
	op.id = 5 + 64;
	IS(kit_exec(k, &a, &op, data), RESOURCE_EXHAUSTED);
	op.low = 6;
	OK(kit_exec(k, &a, &op, data));
	op.id = op.low = UINT64_MAX; /* a client may spoil its own numbers, nothing else */
	OK(kit_exec(k, &a, &op, data));
	cr_assert_eq(kit_stats(k).refs, 4);
}

Test(store, stale_result_after_a_timeout)
{
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .client = 1, .id = 9, .low = 1, .len = 4096};
	uint8_t forgot;

	op.life = a.life;
	a.low = 1;
	OK(kit_forget(k, &a, 9, &forgot)); /* overtakes the put */
	cr_assert_eq(forgot, LEND_FORGOT_PREVENTED);
	IS(kit_exec(k, &a, &op, data), ABORTED);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	op.id = 10;
	OK(kit_exec(k, &a, &op, data));
	for (int twice = 0; twice < 2; twice++) {
		OK(kit_forget(k, &a, 10, &forgot));
		cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	}
	IS(kit_exec(k, &a, &op, data), ABORTED);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	IS(kit_forget(k, &a, 0, &forgot), INVALID_ARGUMENT);
	IS(kit_forget(k, &a, 65, &forgot), RESOURCE_EXHAUSTED);
	a.low = 11;
	OK(kit_forget(k, &a, 11, &forgot));
	a.low = 0;
	IS(kit_forget(k, &a, 10, &forgot), FAILED_PRECONDITION);
}

Test(store, forget_of_each_operation)
{
	struct lend_memref ref, sealed;
	struct lend_memspace space;
	uint8_t forgot;

	a.low = b.low = 1;
	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_map(k, &a, &ref, &space));
	OK(kit_seal(k, &a, &space, 0, 10, shared, &sealed));
	OK(kit_forget(k, &a, a.id, &forgot));
	IS(kit_get(k, &a, &sealed, 0, 1, back), NOT_FOUND);
	OK(kit_forget(k, &a, 2, &forgot)); /* map */
	cr_assert_eq(kit_stats(k).spaces, 0);

	OK(kit_grant(k, &a, &ref, transfer));
	cr_assert_eq(kit_stats(k).holds, 0);
	OK(kit_forget(k, &a, a.id, &forgot)); /* gives the hold back */
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).holds, 1);
	cr_assert_eq(kit_stats(k).grants, 0);

	OK(kit_grant(k, &a, &ref, transfer));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	k->now += 8 * S;
	OK(kit_forget(k, &b, b.id, &forgot)); /* the grant comes back with 5 s at least */
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).holds, 0);
	cr_assert_eq(lend_store_deadline(k->store), k->now + 5 * S);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_forget(k, &a, a.id, &forgot)); /* the grant was used: too late */
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_forget(k, &b, b.id, &forgot)); /* of an adopt of what was held: nothing */
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	cr_assert_eq(kit_stats(k).holds, 1);
	OK(kit_release(k, &b, &ref));
	OK(kit_forget(k, &b, b.id, &forgot));
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

Test(store, lease_ends_and_life_is_fenced)
{
	struct lend_memref ref, kept;
	struct lend_memspace space;
	uint32_t life = a.life;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_alloc(k, &a, 9, &space));
	OK(kit_put(k, &b, data, 4096, kit_owned, &kept));
	k->now += 20 * S;
	OK(kit_get(k, &b, &kept, 0, 1, back)); /* any traffic renews */
	while (k->now < 1000 + 30 * S)
		kit_next_deadline(k);
	cr_assert_eq(kit_stats(k).clients, 1);
	cr_assert_eq(kit_stats(k).pages_used, 1);
	IS(kit_get(k, &b, &ref, 0, 1, back), NOT_FOUND);
	IS(kit_put(k, &a, data, 1, kit_owned, &ref), ABORTED);
	OK(kit_hello(k, &a, 1, 1));
	cr_assert_neq(a.life, life);
	IS(kit_space_op(k, &a, LEND_MEMOP_FREE, &space, 0, 0, NULL), NOT_FOUND);
	OK(kit_put(k, &a, data, 1, kit_owned, &ref));
	a.life = life;
	IS(kit_put(k, &a, data, 1, kit_owned, &ref), ABORTED);
}

Test(store, a_paused_node_extends_leases_first)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	k->now = lend_store_deadline(k->store) + 20 * S; /* this node slept */
	lend_store_tick(k->store, k->now);
	cr_assert_eq(kit_stats(k).clients, 2);
	cr_assert_eq(kit_stats(k).pauses, 1);
	OK(kit_get(k, &a, &ref, 0, 1, back));
}

Test(store, clients_of_one_process_are_apart)
{
	struct who a2 = {0};
	struct lend_memref ref;
	struct lend_memop bye = {.kind = LEND_MEMOP_BYE_CLIENT};

	OK(kit_hello(k, &a2, 1, 2));
	cr_assert_eq(a2.life, a.life);
	OK(kit_put(k, &a, data, 4096, shared, &ref));
	OK(kit_ref_op(k, &a2, LEND_MEMOP_ADOPT, &ref));
	cr_assert_eq(kit_stats(k).holds, 2);
	OK(kit_do(k, &a2, &bye, NULL));
	cr_assert_eq(kit_stats(k).holds, 1);
	OK(kit_get(k, &a, &ref, 0, 1, back));
	IS(kit_do(k, &a2, &bye, NULL), ABORTED);
}

Test(store, restart_makes_old_references_not_found)
{
	struct lend_memref ref;
	struct kit *k2 = kit_open(64, 2);
	struct who w = {0};

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_hello(k2, &w, 1, 1));
	OK(kit_put(k2, &w, back, 4096, kit_owned, &(struct lend_memref){0}));
	IS(kit_get(k2, &w, &ref, 0, 1, back), NOT_FOUND);
	IS(kit_put(k2, &a, data, 1, kit_owned, &ref) == LEND_MEM_OK ? LEND_MEM_ABORTED
								    : k2->out.status,
	   ABORTED);
	lend_store_hangup(k2->store, w.incarnation);
	kit_close(k2);
}

static uint32_t place(const struct who *w, struct lend_memop *op, struct lend_store_seg *seg,
		      uint32_t *n, uint8_t *head)
{
	uint32_t fixed = 0, len = lend_memop_encode(op, head), p;

	p = lend_store_place(k->store, w->incarnation, head, len, len + lend_memop_payload(op),
			     seg + 1, n, &fixed);
	seg[0] = (struct lend_store_seg){head, len};
	if (p)
		cr_assert_eq(fixed, len);
	return p;
}

Test(store, placed_put_and_write_copy_nothing)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 1];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .client = 1, .id = 1, .low = 1, .len = 9000};
	uint32_t n, p;
	uint64_t at = 0;
	struct lend_memref ref;
	struct lend_memspace space;

	op.life = a.life;
	p = place(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	cr_assert_eq(kit_stats(k).pages_used, 3);
	kit_audit(k);
	for (uint32_t i = 1; i <= n; at += seg[i++].len)
		memcpy(seg[i].data, data + at, seg[i].len);
	cr_assert_eq(at, 9000);
	OK(lend_store_exec(k->store, k->now, &(struct lend_store_in){a.incarnation, seg, n + 1, p},
			   &k->out));
	cr_assert(lend_memref_decode(k->out.head, &ref));
	cr_assert_eq(kit_stats(k).pages_used, 3);
	OK(kit_get(k, &b, &ref, 0, 9000, back));
	cr_assert_eq(memcmp(back, data, 9000), 0);
	cr_assert_eq(place(&a, &op, seg, &n, head), 0); /* a repeat needs no memory */

	a.id = 1;
	OK(kit_map(k, &a, &ref, &space));
	op = (struct lend_memop){.kind = LEND_MEMOP_WRITE,
				 .client = 1,
				 .life = a.life,
				 .id = 3,
				 .low = 1,
				 .space = space,
				 .len = 8200};
	p = place(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	at = 0;
	for (uint32_t i = 1; i <= n; at += seg[i++].len)
		memset(seg[i].data, 0xee, seg[i].len);
	OK(lend_store_exec(k->store, k->now, &(struct lend_store_in){a.incarnation, seg, n + 1, p},
			   &k->out));
	a.id = 3;
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, 9000, back));
	for (int i = 0; i < 9000; i++)
		cr_assert_eq(back[i], i < 8200 ? 0xee : data[i], "%d", i);
	kit_audit(k);

	op.id = 4;
	p = place(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	lend_store_unplace(k->store, p); /* the message died */
	op.offset = 1;                   /* unaligned, or past the end: not placed */
	cr_assert_eq(place(&a, &op, seg, &n, head), 0);
	op.offset = 4096;
	cr_assert_eq(place(&a, &op, seg, &n, head), 0);
	op.offset = 0;
	op.life++;
	cr_assert_eq(place(&a, &op, seg, &n, head), 0);
	cr_assert_eq(kit_stats(k).pages_used, 6);
	/* Its client dies between place and exec. */
	op.life--;
	p = place(&a, &op, seg, &n, head);
	lend_store_hangup(k->store, a.incarnation);
	IS(lend_store_exec(k->store, k->now, &(struct lend_store_in){a.incarnation, seg, n + 1, p},
			   &k->out),
	   ABORTED);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

Test(store, tables_full_are_statuses)
{
	struct lend_memref ref[65];
	struct lend_memspace space;
	uint32_t n = 0;

	while (kit_alloc(k, &a, 1, &space) == LEND_MEM_OK)
		n++;
	cr_assert_eq(n, 2000);
	IS(k->out.status, RESOURCE_EXHAUSTED);
	IS(kit_put(k, &a, data, 1, kit_owned, &ref[0]), RESOURCE_EXHAUSTED);
	for (uint32_t i = 0;; i++) {
		struct who w = {0};

		if (kit_hello(k, &w, 1000 + i, 1) != LEND_MEM_OK) {
			cr_assert_eq(i, 298);
			break;
		}
	}
	IS(k->out.status, RESOURCE_EXHAUSTED);
	while (kit_stats(k).clients > 2)
		for (uint32_t i = 0; i < 298; i++) {
			uint8_t inc[16] = {0};
			uint32_t p = 1000 + i;

			memcpy(inc, &p, 4);
			lend_store_hangup(k->store, inc);
		}
}

Test(store, copy_of_the_arena_is_the_same_store)
{
	struct lend_memref ref;
	struct lend_store *copy = aligned_alloc(64, (k->size + 63) & ~(size_t)63);
	struct lend_store *old = k->store;

	OK(kit_put(k, &a, data, 5000, kit_owned, &ref));
	memcpy(copy, k->store, k->size);
	lend_store_attach(copy, k->pages);
	cr_assert_eq(lend_store_hash(copy), lend_store_hash(old));
	k->store = copy;
	OK(kit_get(k, &b, &ref, 0, 5000, back));
	cr_assert_eq(memcmp(data, back, 5000), 0);
	cr_assert_neq(lend_store_hash(copy), lend_store_hash(old));
	free(old);
}

Test(store, hostile_bytes_get_a_typed_answer)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX + 64];
	struct lend_memref ref;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_alloc(k, &a, 4096, &space));
	for (uint8_t kind = 1; kind < LEND_MEMOP_KINDS; kind++) {
		struct lend_memop op = {
		    .kind = kind, .client = 1, .life = a.life, .id = 50, .low = 1};
		uint32_t n;

		if (kind == LEND_MEMOP_BYE_CLIENT)
			continue;
		op.ref = ref;
		op.space = space;
		op.len = 8;
		op.n = 1;
		op.target = 40;
		if (kind == LEND_MEMOP_GRANT)
			op.terms = transfer;
		memset(head, 0x5a, sizeof(head));
		n = lend_memop_encode(&op, head) + (uint32_t)lend_memop_payload(&op);
		for (uint32_t bit = 0; bit < n * 8; bit++) {
			struct lend_store_seg seg = {head, n};
			struct lend_store_in in = {a.incarnation, &seg, 1, 0};

			head[bit / 8] ^= (uint8_t)(1u << bit % 8);
			if (head[0] == LEND_MEMOP_BYE_CLIENT) {
				head[bit / 8] ^= (uint8_t)(1u << bit % 8);
				continue;
			}
			lend_store_exec(k->store, k->now, &in, &k->out);
			cr_assert(k->out.status <= LEND_MEM_UNIMPLEMENTED);
			if (k->out.status)
				cr_assert_eq(k->out.n, 0);
			if (k->out.pinned)
				lend_store_done(k->store, k->out.seg, k->out.n);
			for (seg.len = bit % 8 ? n : 0; seg.len < n; seg.len++)
				lend_store_exec(k->store, k->now, &in, &k->out);
			head[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		kit_audit(k);
	}
	cr_assert_gt(kit_stats(k).bad_ops, 0);
	cr_assert_gt(kit_stats(k).denied, 0);
}
