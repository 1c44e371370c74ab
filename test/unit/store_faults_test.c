/* Goal: faults known from published systems cannot happen here. Method: one test per fault, in the
 * situation where it was found; each ends in an audit of all ledgers. Covers: mn/store/store.c,
 * mn/store/exec.c, mn/store/data_exec.c, mn/store/ref_exec.c, mn/store/cow.c, mn/store/hold.c,
 * mn/store/page_tree.c */
#include "unit/storesuite.h"

TestSuite(store_faults, .init = setup);

TestThen(store_faults, range_overflow)
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

TestThen(store_faults, partial_page_cow_write)
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

TestThen(store_faults, snapshot_torn_by_release_before_the_copy)
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

TestThen(store_faults, refcount_wrap_256_holders)
{
	struct lend_memref ref;
	struct client w[258];

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
		lend_store_hangup(k->store, w[i].life);
}

TestThen(store_faults, bogus_or_duplicate_map)
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
	OK(kit_exec(k, &b, &op, NULL)); /* a retransmission */
	lend_memspace_decode(k->out.head, 16, &again);
	cr_assert_eq(memcmp(&space, &again, sizeof(space)), 0);
	cr_assert_eq(kit_stats(k).spaces, 1);
	IS(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, 1, back), NOT_FOUND); /* b's own space */
}

TestThen(store_faults, unmapped_reference_leak)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, transfer, &ref));
	lend_store_hangup(k->store, a.life);
	OK(kit_get(k, &b, &ref, 0, 4096, back)); /* kept alive by its grant */
	kit_next_deadline(k);
	IS(kit_get(k, &b, &ref, 0, 4096, back), NOT_FOUND);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	cr_assert_eq(kit_stats(k).grants_expired, 1);
}

TestThen(store_faults, creator_reads_own_reference)
{
	static const struct lend_memterms *terms[] = {&kit_owned, &transfer, &shared, &shared0};
	struct lend_memref ref;

	for (size_t i = 0; i < 4; i++) {
		OK(kit_put(k, &a, data, 5000, *terms[i], &ref));
		OK(kit_get(k, &a, &ref, 10, 4000, back));
		cr_assert_eq(memcmp(data + 10, back, 4000), 0);
	}
}

TestThen(store_faults, recycled_page_bytes)
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

TestThen(store_faults, out_of_memory_is_a_status_and_changes_nothing)
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
	cr_assert_eq(lend_store_hash(k->store) == hash, false); /* low water has moved */
	hash = lend_store_hash(k->store);
	a.id--;
	IS(kit_get(k, &a, &ref, 63 * 4096, 1, back), OUT_OF_RANGE);
	cr_assert_eq(lend_store_hash(k->store), hash);
}

TestThen(store_faults, out_of_memory_under_a_shared_root)
{
	struct lend_memspace space;
	struct lend_memref ref;

	OK(kit_alloc(k, &a, 4096 * 4096,
		     &space)); /* two levels: a seal of the whole space shares the root */
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 40 * 4096, data));
	OK(kit_seal(k, &a, &space, 0, 4096 * 4096, kit_owned, &ref));
	IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 25 * 4096, back), RESOURCE_EXHAUSTED);
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 24 * 4096, back));
	cr_assert_eq(kit_stats(k).cow_copies, 24);
	OK(kit_get(k, &b, &ref, 0, 40 * 4096, back));
	cr_assert_eq(memcmp(data, back, 40 * 4096), 0);
}

TestThen(store_faults, address_zero_or_error_returned_as_address)
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

TestThen(store_faults, stale_result_after_a_timeout)
{
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .client = 1, .id = 9, .low = 1, .len = 4096};
	uint8_t forgot;

	op.life = a.life;
	a.low = 1;
	OK(kit_forget(k, &a, 9, &forgot)); /* arrives before the put */
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

TestThen(store_faults, hostile_bytes_get_a_typed_answer)
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
			struct lend_store_in in = {&a.peer, &seg, 1, 0, false};

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
				lend_store_done(k->store, 0, k->out.seg, k->out.n);
			for (seg.len = bit % 8 ? n : 0; seg.len < n; seg.len++)
				lend_store_exec(k->store, k->now, &in, &k->out);
			head[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		kit_audit(k);
	}
	cr_assert_gt(kit_stats(k).bad_ops, 0);
	cr_assert_gt(kit_stats(k).denied, 0);
}
