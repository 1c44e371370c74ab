/* Goal: an operation that finds a table full returns a status and changes nothing. Exhausted
 * numbers, empty requests and a placement made for another operation get typed errors, too. Method:
 * a table is marked full directly, the operation fails, and succeeds once there is room; every
 * ledger is checked in between. Covers: mn/store/exec.c, mn/store/data_exec.c, mn/store/ref_exec.c,
 * mn/store/placement.c, mn/store/space.c, mn/store/hold.c */
#include "unit/storesuite.h"

#include "mn/store/store.h"

TestSuite(store_edges, .init = setup);

/* Fills the table, so that nothing fits until room(). */
static uint32_t fill_store(struct lend_table *t)
{
	uint32_t cap = t->cap;

	t->cap = t->used;
	return cap;
}

TestThen(store_edges, page_tables_run_out)
{
	struct lend_memspace space, other;
	struct lend_memref ref, more, part;
	uint32_t cap;

	OK(kit_alloc(k, &a, UINT64_C(1) << 30, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 5000, 10, data));
	OK(kit_seal(k, &a, &space, 4096, 1 << 20, kit_owned, &ref));
	cap = fill_store(&k->store->node);
	IS(kit_seal(k, &a, &space, 0, 1 << 20, kit_owned, &more), RESOURCE_EXHAUSTED);
	cr_assert_eq(lend_memref_slice(&ref, 0, 1 << 19, LEND_RIGHT_MAP, &part), 0);
	IS(kit_map(k, &a, &part, &other), RESOURCE_EXHAUSTED);
	OK(kit_map(k, &a, &ref, &other)); /* all of it: no part to leave out */
	IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 1 << 29, 10, data), RESOURCE_EXHAUSTED);
	kit_audit(k);
	k->store->node.cap = cap;
	OK(kit_seal(k, &a, &space, 0, 1 << 20, kit_owned, &more));
	OK(kit_map(k, &a, &part, &other));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 1 << 29, 10, data));
}

TestThen(store_edges, a_hand_over_is_undone_once_there_is_room)
{
	struct lend_memref ref;
	uint64_t shared_id, transfer_id;
	uint8_t forgot;
	uint32_t cap;

	a.low = 1;
	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_grant(k, &a, &ref, shared));
	shared_id = a.id;
	OK(kit_grant(k, &a, &ref, transfer));
	transfer_id = a.id;
	cap = fill_store(&k->store->hold);
	IS(kit_forget(k, &a, transfer_id, &forgot), RESOURCE_EXHAUSTED);
	kit_audit(k);
	k->store->hold.cap = cap;
	OK(kit_forget(k, &a, transfer_id, &forgot));
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).holds, 1);
	OK(kit_forget(k, &a, shared_id, &forgot)); /* a shared grant adds no holder */
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).grants, 0);
}

TestThen(store_edges, a_giver_that_holds_again_keeps_one_hold)
{
	struct lend_memref ref;
	uint8_t forgot;

	a.low = 1;
	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_grant(k, &a, &ref, shared));
	OK(kit_grant(k, &a, &ref, transfer));
	OK(kit_ref_op(k, &a, LEND_MEMOP_ADOPT, &ref));
	OK(kit_forget(k, &a, 3, &forgot));
	cr_assert_eq(kit_stats(k).holds, 1);
}

TestThen(store_edges, an_adopt_is_undone_once_there_is_room)
{
	struct lend_memref ref;
	uint8_t forgot;
	uint32_t cap;

	b.low = 1;
	OK(kit_put(k, &a, data, 4096, transfer, &ref));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	cap = fill_store(&k->store->grant);
	IS(kit_forget(k, &b, b.id, &forgot), RESOURCE_EXHAUSTED);
	kit_audit(k);
	k->store->grant.cap = cap;
	OK(kit_forget(k, &b, b.id, &forgot));
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).holds, 0);
	cr_assert_eq(kit_stats(k).grants, 1);
}

TestThen(store_edges, numbers_run_out)
{
	struct lend_memref ref;
	uint64_t serial = k->store->serial;

	k->store->serial = (UINT64_C(1) << 48) - 1;
	IS(kit_put(k, &a, data, 4096, kit_owned, &ref), RESOURCE_EXHAUSTED);
	k->store->serial = serial;
}

TestThen(store_edges, a_request_of_no_bytes)
{
	struct lend_store_seg none = {NULL, 0};

	IS(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, NULL, 0, 0, false},
			   &k->out),
	   INVALID_ARGUMENT);
	IS(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, &none, 1, 0, false},
			   &k->out),
	   INVALID_ARGUMENT);
}

/* Makes a placement for one operation, then runs another operation with it. */
static enum lend_mem_status run_placed(struct lend_memop *op, const struct lend_memop *other)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n, fixed, len = lend_memop_encode(op, head);
	uint32_t p = lend_store_place(k->store, &a.peer, head, len, len + lend_memop_payload(op),
				      seg, &n, &fixed);
	struct lend_store_seg in[] = {{head, 0}, {data, lend_memop_payload(other)}};

	cr_assert_neq(p, 0);
	in[0].len = lend_memop_encode(other, head);
	return lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, in, 2, p, false},
			       &k->out);
}

TestThen(store_edges, a_placement_for_another_operation)
{
	struct lend_memop put = {.kind = LEND_MEMOP_PUT, .client = 1, .low = 1, .len = 9000};
	struct lend_memop other, write = put;

	OK(kit_alloc(k, &a, 20000, &write.space));
	put.life = write.life = a.life;
	put.id = write.id = 2;
	write.kind = LEND_MEMOP_WRITE;
	other = put;
	other.len = 100;
	OK(run_placed(&put, &other)); /* a placement of another length */
	put.id = write.id = 3;
	other = (struct lend_memop){
	    .kind = LEND_MEMOP_ALLOC, .client = 1, .life = a.life, .id = 3, .low = 1, .len = 9000};
	OK(run_placed(&put, &other)); /* a placement of no bytes */
	put.id = write.id = 4;
	other = write;
	other.offset = 1;
	OK(run_placed(&write, &other)); /* no page of this write starts there */
	a.id = 4;
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &write.space, 1, 9000, back));
	cr_assert_eq(memcmp(back, data, 9000), 0);
	kit_audit(k);
	write.id = 6;
	write.offset = 20001;
	cr_assert_eq(lend_store_place(k->store, &a.peer, data, 0, 0, NULL, NULL, NULL), 0);
}
