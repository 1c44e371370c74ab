/* Goal: terms, adopt, grant, release, FORGET and leases follow the protocol exactly. Method: short
 * sequences, one per rule, each ending in an audit of all ledgers. Covers: mn/store/ref_exec.c,
 * mn/store/hold.c, mn/store/lease.c, mn/store/undo_log.h */
#include "unit/storesuite.h"

TestSuite(store_refs, .init = setup);

TestThen(store_refs, terms_transfer)
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
	OK(kit_release(k, &a, &ref)); /* the grantee gives up a hold that it could adopt */
	cr_assert_eq(kit_stats(k).pages_used, 0);
	IS(kit_ref_op(k, &a, LEND_MEMOP_ADOPT, &ref), NOT_FOUND);
}

TestThen(store_refs, terms_shared)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, shared, &ref));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_release(k, &b, &ref));
	OK(kit_release(k, &a, &ref));
	OK(kit_get(k, &b, &ref, 0, 10, back)); /* readable until the TTL, used up or not */
	IS(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref), FAILED_PRECONDITION);
	k->now += 10 * S; /* an operation at the TTL, before any tick */
	IS(kit_get(k, &b, &ref, 0, 10, back), NOT_FOUND);
}

TestThen(store_refs, earliest_grant_is_used_first)
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
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref)); /* the later grant is still complete */
}

TestThen(store_refs, release_of_many)
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
	cr_assert_eq(kit_stats(k).refs, 3); /* nothing is half done */
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

TestThen(store_refs, repeats_get_the_same_reply_once)
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
	op.id = op.low = UINT64_MAX; /* a client can spoil its own numbers, nothing else */
	OK(kit_exec(k, &a, &op, data));
	cr_assert_eq(kit_stats(k).refs, 4);
}

TestThen(store_refs, forget_of_each_operation)
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
	OK(kit_forget(k, &a, 2, &forgot)); /* FORGET of the map */
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
	OK(kit_forget(k, &b, b.id, &forgot)); /* the grant comes back with at least 5 s left */
	cr_assert_eq(forgot, LEND_FORGOT_UNDONE);
	cr_assert_eq(kit_stats(k).holds, 0);
	cr_assert_eq(lend_store_deadline(k->store), k->now + 5 * S);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_forget(k, &a, a.id, &forgot)); /* the grant was used: too late */
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	OK(kit_forget(k, &b, b.id, &forgot)); /* an adopt of a held reference: nothing to undo */
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	cr_assert_eq(kit_stats(k).holds, 1);
	OK(kit_release(k, &b, &ref));
	OK(kit_forget(k, &b, b.id, &forgot));
	cr_assert_eq(forgot, LEND_FORGOT_RAN);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

/* FORGET cannot restore the grant while the table is full: the adopt stands, unchanged. */
TestThen(store_refs, forget_without_room_changes_nothing)
{
	struct lend_memop renew = {.kind = LEND_MEMOP_RENEW};
	struct lend_memref ref, other;
	uint64_t adopted, hash;
	uint8_t forgot;

	OK(kit_put(k, &a, data, 1, transfer, &ref));
	OK(kit_put(k, &a, data, 1, kit_owned, &other));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	adopted = b.low = b.id;
	for (uint32_t i = 0; i < k->config.grants; i++)
		OK(kit_grant(k, &a, &other, shared));
	OK(kit_do(k, &b, &renew, NULL));
	hash = lend_store_hash(k->store);
	IS(kit_forget(k, &b, adopted, &forgot), RESOURCE_EXHAUSTED);
	cr_assert_eq(lend_store_hash(k->store), hash);
	OK(kit_release(k, &a, &other));
	OK(kit_get(k, &b, &ref, 0, 1, back));
}

TestThen(store_refs, lease_ends_and_life_is_fenced)
{
	struct lend_memref ref, kept;
	struct lend_memspace space;
	uint64_t life = a.life;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_alloc(k, &a, 9, &space));
	OK(kit_put(k, &b, data, 4096, kit_owned, &kept));
	k->now += 20 * S;
	OK(kit_get(k, &b, &kept, 0, 1, back)); /* any operation renews */
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
	a.life = a.peer.life;
}

TestThen(store_refs, a_paused_node_extends_leases_first)
{
	struct lend_memref ref;

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	k->now = lend_store_deadline(k->store) + 20 * S; /* the node was suspended */
	lend_store_tick(k->store, k->now);
	cr_assert_eq(kit_stats(k).clients, 2);
	cr_assert_eq(kit_stats(k).pauses, 1);
	OK(kit_get(k, &a, &ref, 0, 1, back));
}

TestThen(store_refs, clients_of_one_process_are_apart)
{
	struct client a2 = {0};
	struct lend_memref ref;
	struct lend_memop bye = {.kind = LEND_MEMOP_BYE_CLIENT};

	OK(kit_join(k, &a2, &a, 2));
	OK(kit_put(k, &a, data, 4096, shared, &ref));
	OK(kit_ref_op(k, &a2, LEND_MEMOP_ADOPT, &ref));
	cr_assert_eq(kit_stats(k).holds, 2);
	OK(kit_do(k, &a2, &bye, NULL));
	cr_assert_eq(kit_stats(k).holds, 1);
	OK(kit_get(k, &a, &ref, 0, 1, back));
	IS(kit_do(k, &a2, &bye, NULL), ABORTED);
}
