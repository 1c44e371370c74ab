/* Goal: a tenant holds no more pages, references, clients and recorded replies than its quota, and
 * is refused at once beyond it. It pays for its own holdings only, and cannot act for another
 * tenant's process. Method: scripts with two tenants; after each step the bill is compared with the
 * expected numbers, and the audit counts it again. Covers: mn/store/tenant.c, mn/store/space.c */
#include "unit/storesuite.h"

enum { RICH, POOR, PAGES = 8 };

static void set_quota(uint32_t tenant, uint64_t pages, uint32_t refs, uint32_t clients)
{
	lend_store_set_quota(k->store, tenant, &(struct lend_store_quota){pages, refs, clients});
}

static void check_bill(uint32_t tenant, uint64_t pages, uint32_t refs)
{
	struct lend_store_usage use;

	kit_audit(k);
	lend_store_usage(k->store, tenant, &use);
	cr_assert_eq(use.pages, pages, "tenant %u pays %llu pages, must pay %llu", tenant,
		     (unsigned long long)use.pages, (unsigned long long)pages);
	cr_assert_eq(use.refs, refs, "tenant %u has %u references, must have %u", tenant, use.refs,
		     refs);
}

/* Client a belongs to the rich tenant, b to the poor one. */
static void open_two(void)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(data, 7, sizeof(data));
	k = kit_open(64, 1);
	OK(kit_hello(k, &a, 1, 1));
	k->tenant = POOR;
	OK(kit_hello(k, &b, 2, 1));
	set_quota(POOR, PAGES, 4, 2);
}

static void set_tenant(uint32_t tenant)
{
	k->tenant = tenant;
}

TestSuite(store_tenant, .init = open_two);

TestThen(store_tenant, pages_end_at_the_quota)
{
	struct lend_memref one, two;

	OK(kit_put(k, &b, data, PAGES * 4096, kit_owned, &one));
	check_bill(POOR, PAGES, 1);
	IS(kit_put(k, &b, data, 1, kit_owned, &two), RESOURCE_EXHAUSTED);
	cr_assert_eq(kit_stats(k).over_quota, 1);
	OK(kit_put(k, &b, data, 0, kit_owned, &two));
	OK(kit_release(k, &b, &one));
	check_bill(POOR, 0, 1);
	OK(kit_put(k, &b, data, PAGES * 4096, kit_owned, &one));
	set_tenant(RICH);
	OK(kit_put(k, &a, data, 32 * 4096, kit_owned, &two)); /* the other tenant continues */
}

TestThen(store_tenant, references_end_at_the_quota)
{
	struct lend_memref ref;
	struct lend_memspace space;

	OK(kit_put(k, &b, data, 1, shared, &ref)); /* a hold and a grant */
	OK(kit_alloc(k, &b, 1 << 20, &space));
	check_bill(POOR, 1, 3); /* one page, however many stakes */
	IS(kit_put(k, &b, data, 1, shared, &ref), RESOURCE_EXHAUSTED);
	OK(kit_put(k, &b, data, 1, kit_owned, &ref));
	check_bill(POOR, 2, 4);
	IS(kit_alloc(k, &b, 1, &space), RESOURCE_EXHAUSTED);
	IS(kit_map(k, &b, &ref, &space), RESOURCE_EXHAUSTED);
	IS(kit_grant(k, &b, &ref, shared), RESOURCE_EXHAUSTED);
	OK(kit_grant(k, &b, &ref, transfer)); /* a hold exchanged for a grant */
	check_bill(POOR, 2, 4);
}

TestThen(store_tenant, clients_end_at_the_quota)
{
	struct client c = {.number = 0}, d = {.number = 0};

	OK(kit_hello(k, &c, 3, 1));
	IS(kit_hello(k, &d, 4, 1), RESOURCE_EXHAUSTED);
	lend_store_hangup(k->store, c.life);
	OK(kit_hello(k, &d, 4, 1));
	lend_store_hangup(k->store, d.life);
}

TestThen(store_tenant, a_space_is_charged_as_it_is_written)
{
	struct lend_memspace space;
	struct lend_memref ref;

	OK(kit_alloc(k, &b, 1 << 30, &space));
	check_bill(POOR, 0, 1);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 4000, 200, data));
	check_bill(POOR, 2, 1);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 0, 8192,
			data)); /* rewrites pages that it owns */
	check_bill(POOR, 2, 1);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 1 << 20, 2 * 4096, data));
	OK(kit_seal(k, &b, &space, 0, 1 << 30, kit_owned, &ref));
	check_bill(POOR, 8, 2);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 0, 8192, data)); /* copies are charged */
	IS(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 1 << 21, 1, data), RESOURCE_EXHAUSTED);
	OK(kit_release(k, &b, &ref));
	check_bill(POOR, 4, 1);
	OK(kit_space_op(k, &b, LEND_MEMOP_WRITE, &space, 1 << 21, 1, data));
	check_bill(POOR, 5, 1);
}

TestThen(store_tenant, a_claim_moves_the_charge)
{
	struct lend_memref ref, big;

	set_tenant(RICH);
	OK(kit_put(k, &a, data, 5 * 4096, transfer, &ref));
	OK(kit_put(k, &a, data, 9 * 4096, transfer, &big));
	check_bill(RICH, 14, 2);
	set_tenant(POOR);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	check_bill(RICH, 9, 1);
	check_bill(POOR, 5, 1);
	IS(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &big), RESOURCE_EXHAUSTED);
	check_bill(RICH, 9, 1);
	OK(kit_get(k, &b, &big, 0, 9 * 4096, back)); /* reading charges nothing */
}

TestThen(store_tenant, forget__claims__go_back_to_the_payer)
{
	struct lend_memref ref;
	uint8_t forgot;

	set_tenant(RICH);
	OK(kit_put(k, &a, data, 5 * 4096, transfer, &ref));
	set_tenant(POOR);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	b.low = b.id;
	set_quota(RICH, 1, 1, 9); /* a quota never loses data */
	OK(kit_forget(k, &b, b.id, &forgot));
	check_bill(RICH, 5, 1);
	check_bill(POOR, 0, 0);
}

TestThen(store_tenant, release__by_another_tenant__charges_none)
{
	struct lend_memref ref;

	set_tenant(RICH);
	OK(kit_put(k, &a, data, 3 * 4096, shared, &ref));
	set_tenant(POOR);
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref));
	check_bill(RICH, 3, 2);
	check_bill(POOR, 3, 1);
	set_tenant(RICH);
	OK(kit_release(k, &a, &ref));
	check_bill(RICH, 3, 1); /* the grant keeps it */
	check_bill(POOR, 3, 1);
	k->now += 11 * S;
	lend_store_tick(k->store, k->now);
	check_bill(RICH, 0, 0);
	check_bill(POOR, 3, 1);
}

TestThen(store_tenant, replies_in_progress)
{
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .len = 9 * 4096};
	struct lend_store_out first;
	struct lend_memref ref;

	set_tenant(RICH);
	OK(kit_put(k, &a, data, 9 * 4096, kit_owned, &ref));
	op.ref = ref;
	set_tenant(POOR);
	OK(kit_do(k, &b, &op, NULL)); /* a single operation is always allowed */
	first = k->out;
	op.len = 1;
	IS(kit_do(k, &b, &op, NULL), RESOURCE_EXHAUSTED);
	set_tenant(RICH);
	OK(kit_do(k, &a, &op, NULL));
	kit_collect(k, back);
	set_tenant(POOR);
	lend_store_done(k->store, first.tenant, first.seg, first.n);
	OK(kit_do(k, &b, &op, NULL));
	kit_collect(k, back);
}

TestThen(store_tenant, pages_that_a_message_lands_in)
{
	struct lend_memop op = {.kind = LEND_MEMOP_PUT, .len = PAGES * 4096};
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n, segs, fixed, landing;

	op.client = b.number;
	op.life = b.life;
	op.id = op.low = ++b.id;
	n = lend_memop_encode(&op, head);
	landing = lend_store_place(k->store, &b.peer, head, n, n + op.len, seg, &segs, &fixed);
	cr_assert(landing);
	check_bill(POOR, PAGES, 0);
	op.id = ++b.id;
	n = lend_memop_encode(&op, head);
	cr_assert_eq(lend_store_place(k->store, &b.peer, head, n, n + op.len, seg, &segs, &fixed),
		     0);
	lend_store_unplace(k->store, landing);
	check_bill(POOR, 0, 0);
}

/* A life keeps its tenant: a join from another tenant's session does not move the charge. */
TestThen(store_tenant, a_life_has_one_tenant)
{
	struct lend_memref ref;
	struct client copy = b, more;

	OK(kit_put(k, &b, data, 1, kit_owned, &ref));
	set_tenant(RICH);
	memset(&copy.peer.life, 0, sizeof(copy.peer.life));
	IS(kit_release(k, &copy, &ref), ABORTED);
	OK(kit_join(k, &more, &b, 7));
	OK(kit_put(k, &more, data, 1, kit_owned, &ref));
	check_bill(RICH, 0, 0);
	check_bill(POOR, 2, 2);
}

/* Tenants get entries in order of arrival and keep them; a changed quota takes effect. */
TestThen(store_tenant, tenants__in_order_of_arrival__keep_their_entry)
{
	static const struct lend_store_quota none = {UINT64_MAX, UINT32_MAX, UINT32_MAX};
	uint32_t tenants = k->config.tenants, place;

	for (uint32_t i = 1; i < tenants; i++)
		cr_assert_eq(lend_store_tenant(k->store, 100 + i, &none), i);
	cr_assert_eq(lend_store_tenant(k->store, 5, &none), 0, "as the rest of the world");
	for (uint32_t i = 1; i < tenants; i++)
		cr_assert_eq(lend_store_tenant(k->store, 100 + i, &none), i);
	place = lend_store_tenant(k->store, 100 + POOR, &(struct lend_store_quota){0, 1, 1});
	cr_assert_eq(place, POOR);
	k->tenant = POOR;
	cr_assert_eq(kit_put(k, &b, data, 1, kit_owned, &(struct lend_memref){0}),
		     LEND_MEM_RESOURCE_EXHAUSTED);
}

/* Once 225 of 300 client slots are taken, one process may have as many as are left, over all its
 * lives. */
TestThen(store_tenant, one_process_leaves_clients_for_others)
{
	struct client one[300] = {0}, two = {0};
	uint32_t n = 0;

	set_tenant(RICH);
	while (kit_hello(k, &one[n], 5, 1) == LEND_MEM_OK)
		n++;
	IS(k->out.status, RESOURCE_EXHAUSTED);
	cr_assert_eq(n, 224 - 1, "one process has %u of 300 clients, others two", n);
	OK(kit_hello(k, &two, 6, 1));
	OK(kit_hello(k, &one[0], 5, 1)); /* retransmitted */
	kit_audit(k);
	lend_store_hangup(k->store, two.life);
	while (n > 0)
		lend_store_hangup(k->store, one[--n].life);
}

/* Puts a bound snapshot for this tenant. */
static enum lend_mem_status put_bound(struct client *w, struct lend_memref *ref)
{
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .flags = LEND_MEMOP_BOUND, .len = 5000, .terms = shared};
	enum lend_mem_status status = kit_do(k, w, &op, data);

	if (status == LEND_MEM_OK)
		cr_assert(lend_memref_decode(k->out.head, ref));
	return status;
}

TestThen(store_tenant, a_bound_reference_is_refused_to_others)
{
	struct lend_memref ref, part, remote;
	struct lend_memspace space;
	struct lend_memop narrow;

	set_tenant(RICH);
	IS(put_bound(&a, &ref), FAILED_PRECONDITION); /* tenant 0 is none */
	set_tenant(2);
	OK(put_bound(&a, &ref));
	cr_expect_eq(ref.tenant, 2);
	OK(lend_memref_slice(&ref, 100, 50, LEND_RIGHT_READ, &part) ? LEND_MEM_ABORTED
								    : LEND_MEM_OK);
	narrow = (struct lend_memop){
	    .kind = LEND_MEMOP_NARROW, .ref = ref, .len = 10, .rights = LEND_RIGHT_READ};
	OK(kit_do(k, &a, &narrow, NULL));
	cr_assert(lend_memref_decode(k->out.head, &remote));
	OK(kit_get(k, &a, &part, 0, 50, back));
	cr_expect_arr_eq(back, data + 100, 50);
	OK(kit_get(k, &a, &remote, 0, 10, back));
	for (uint32_t other = RICH; other < 4; other++) {
		if (other == 2)
			continue;
		set_tenant(other);
		IS(kit_get(k, &b, &ref, 0, 1, back), PERMISSION_DENIED);
		IS(kit_get(k, &b, &part, 0, 1, back), PERMISSION_DENIED);
		IS(kit_get(k, &b, &remote, 0, 1, back), PERMISSION_DENIED);
		IS(kit_map(k, &b, &ref, &space), PERMISSION_DENIED);
		IS(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &ref), PERMISSION_DENIED);
		IS(kit_release(k, &b, &ref), PERMISSION_DENIED);
		IS(kit_grant(k, &b, &ref, shared), PERMISSION_DENIED);
		ref.tenant = (uint16_t)other; /* the token covers it */
		IS(kit_get(k, &b, &ref, 0, 1, back), PERMISSION_DENIED);
		ref.tenant = 0;
		ref.version = LEND_MEMREF_NODE_VERSION;
		ref.epoch = 1;
		IS(kit_get(k, &b, &ref, 0, 1, back), PERMISSION_DENIED);
		ref.tenant = 2;
		ref.version = LEND_MEMREF_HOME_VERSION;
	}
	set_tenant(2);
	OK(kit_map(k, &a, &ref, &space));
	{
		struct lend_memop seal = {.kind = LEND_MEMOP_SEAL,
					  .flags = LEND_MEMOP_BOUND | LEND_MEMOP_CONSUME,
					  .space = space,
					  .len = 10,
					  .terms = shared};

		OK(kit_do(k, &a, &seal, NULL));
		OK(kit_exec(k, &a, &seal, NULL)); /* repeated: the same reference */
		cr_assert(lend_memref_decode(k->out.head, &part));
		cr_expect_eq(part.tenant, 2);
	}
	OK(kit_release(k, &a, &ref));
	OK(kit_release(k, &a, &part));
	set_tenant(RICH);
}
