/* Goal: a life (a client's lease period on the node) belongs to the sessions that opened it or
 * proved that they have its key. Method: a table of HELLOs that must not join; a process's other
 * sessions; sessions with other numbers; 10,000 HELLOs and BYEs. Covers: mn/store/lease.c,
 * mn/store/exec.c */
#include "teardown.h"
#include "unit/storekit.h"

#define OK(expr)       cr_assert_eq(expr, LEND_MEM_OK)
#define IS(expr, want) cr_assert_eq(expr, LEND_MEM_##want)

static struct kit *k;
static struct client a;
static struct lend_memref ref;
static const uint8_t data[100] = {7};

static void open_one(void)
{
	memset(&a, 0, sizeof(a));
	k = kit_open(64, 1);
	OK(kit_hello(k, &a, 1, 1));
	OK(kit_put(k, &a, data, sizeof(data), kit_owned, &ref));
}

static void teardown(void)
{
	kit_close(k);
}

TestSuite(store_life, .init = open_one);

/* A session with the right incarnation, and all else that a server which the client called could
 * know. */
static struct client make_stranger(void)
{
	struct client w = {.number = 1, .life = a.life, .id = a.id};

	memcpy(w.peer.incarnation, a.peer.incarnation, sizeof(w.peer.incarnation));
	memset(w.peer.context, 9, sizeof(w.peer.context));
	return w;
}

TestThen(store_life, join__without_the_proof__aborted)
{
	enum { NO_PROOF, OTHER_KEY, OTHER_SESSION, OTHER_CLIENT, OTHER_LIFE, OTHER_INCARNATION, N };

	for (int row = 0; row < N; row++) {
		struct client w = make_stranger();
		struct lend_memop op = {.kind = LEND_MEMOP_HELLO, .client = 1, .life = a.life};
		uint8_t key[LEND_MEMOP_KEY], context[LEND_MEMOP_CONTEXT];
		struct lend_memop proven = op;

		memcpy(key, a.key, sizeof(key));
		memcpy(context, w.peer.context, sizeof(context));
		key[15] ^= row == OTHER_KEY;
		context[31] ^= row == OTHER_SESSION;
		proven.client += row == OTHER_CLIENT;
		op.life += row == OTHER_LIFE;
		w.peer.incarnation[15] ^= row == OTHER_INCARNATION;
		if (row != NO_PROOF)
			lend_memop_proof(key, context, &proven, op.proof);
		IS(kit_exec(k, &w, &op, NULL), ABORTED);
		cr_assert_eq(w.peer.life, 0, "row %d", row);
		IS(kit_release(k, &w, &ref), ABORTED);
	}
	OK(kit_release(k, &a, &ref));
}

TestThen(store_life, operation__session_that_did_not_join__aborted)
{
	struct client w = make_stranger();
	uint8_t forgot;

	w.id = 0; /* the put again, for its recorded reply */
	IS(kit_put(k, &w, data, sizeof(data), kit_owned, &ref), ABORTED);
	IS(kit_forget(k, &w, 1, &forgot), ABORTED);
	IS(kit_do(k, &w, &(struct lend_memop){.kind = LEND_MEMOP_BYE_CLIENT}, NULL), ABORTED);
	cr_assert_eq(kit_stats(k).clients, 1);
	cr_assert_eq(kit_stats(k).repeats, 0);
}

TestThen(store_life, hello__incarnation_in_use__another_life)
{
	struct client w = {0}, late = {0};

	OK(kit_hello(k, &w, 1, 1));
	cr_assert_neq(w.life, a.life);
	cr_assert_neq(memcmp(w.key, a.key, sizeof(w.key)), 0);
	IS(kit_release(k, &w, &ref), FAILED_PRECONDITION);
	lend_store_hangup(k->store,
			  a.life); /* the squatter keeps its life, the next process gets another */
	OK(kit_hello(k, &late, 1, 1));
	cr_assert_neq(late.life, w.life);
}

TestThen(store_life, hello__again_in_its_session__same_life)
{
	uint64_t life = a.life;
	uint8_t key[LEND_MEMOP_KEY];

	memcpy(key, a.key, sizeof(key));
	OK(kit_hello(k, &a, 1, 1)); /* its reply was lost */
	cr_assert_eq(a.life, life);
	cr_assert_eq(memcmp(key, a.key, sizeof(key)), 0);
	OK(kit_release(k, &a, &ref));
}

TestThen(store_life, join__sessions_of_one_process__hold_together)
{
	struct client again, thread, lease = {0};
	struct lend_memop renew = {.kind = LEND_MEMOP_HELLO, .life = a.life};
	static const uint8_t zero[LEND_MEMOP_KEY];
	struct lend_memhello hello;

	OK(kit_join(k, &again, &a, 1)); /* its session ended; the client continues */
	cr_assert(lend_memhello_decode(k->out.head, k->out.len, &hello));
	cr_assert(hello.life == a.life && !memcmp(hello.key, zero, sizeof(zero)));
	again.id = a.id;
	OK(kit_release(k, &again, &ref));
	OK(kit_join(k, &thread, &a, 2));
	cr_assert_eq(kit_stats(k).clients, 2);
	memcpy(lease.peer.incarnation, a.peer.incarnation, 16);
	lend_memop_proof(a.key, lease.peer.context, &renew, renew.proof);
	k->now += k->config.lease - 1;
	OK(kit_exec(k, &lease, &renew, NULL)); /* needs no client */
	cr_assert_eq(kit_stats(k).clients, 2);
	k->now += k->config.lease - 1;
	lend_store_tick(k->store, k->now);
	cr_assert_eq(kit_stats(k).clients, 2);
}

TestThen(store_life, hello__other_numbers_in_one_session__few_clients)
{
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO};

	for (op.client = 1; op.client <= LEND_STORE_PEER_CLIENTS; op.client++)
		OK(kit_exec(k, &a, &op, NULL));
	for (; op.client < 300; op.client++)
		IS(kit_exec(k, &a, &op, NULL), RESOURCE_EXHAUSTED);
	cr_assert_eq(kit_stats(k).clients, LEND_STORE_PEER_CLIENTS);
	cr_assert_eq(kit_stats(k).incarnations, 1);
	OK(kit_do(k, &a, &(struct lend_memop){.kind = LEND_MEMOP_BYE_CLIENT}, NULL));
	OK(kit_exec(k, &a, &op, NULL));
	op.client = 0;
	IS(kit_exec(k, &a, &op, NULL), INVALID_ARGUMENT);
}

/* Two threads send HELLO at once: the second gives up its own life for the first's. */
TestThen(store_life, join__session_with_a_life__leaves_it)
{
	struct client b = {0};
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO, .client = 2, .life = a.life};

	OK(kit_hello(k, &b, 1, 2));
	cr_assert_eq(kit_stats(k).incarnations, 2);
	lend_memop_proof(a.key, b.peer.context, &op, op.proof);
	OK(kit_exec(k, &b, &op, NULL));
	cr_assert_eq(kit_stats(k).incarnations, 1);
	cr_assert_eq(kit_stats(k).clients, 2);
	cr_assert_eq(b.peer.life, a.life);
}

TestThen(store_life, hello__from_a_queue__refused)
{
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO, .client = 2};
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	struct lend_store_seg seg = {head, lend_memop_encode(&op, head)};
	struct lend_store_in in = {.peer = &a.peer, .seg = &seg, .n = 1, .late = true};

	IS(lend_store_exec(k->store, k->now, &in, &k->out), INVALID_ARGUMENT);
	cr_assert_eq(a.peer.life, a.life);
}

TestThen(store_life, numbers__hello_and_bye_in_a_loop__never_again)
{
	struct lend_memop bye = {.kind = LEND_MEMOP_BYE_CLIENT};
	uint64_t last = a.life;

	for (int i = 0; i < 10000; i++) {
		struct client w = {0};

		OK(kit_hello(k, &w, 1, 1));
		cr_assert_gt(w.life, last);
		last = w.life;
		OK(kit_do(k, &w, &bye, NULL));
	}
	cr_assert_geq(UINT64_MAX - last, UINT64_C(1) << 62);
}

/* A client's entry and records are used again by the next one, whose operation ids are the same. */
TestThen(store_life, records__entry_used_again__empty)
{
	struct client next = {.number = 0};
	struct lend_memspace space;

	lend_store_hangup(k->store, a.life);
	OK(kit_hello(k, &next, 2, 1));
	OK(kit_alloc(k, &next, 100, &space)); /* a's first operation was a PUT */
	cr_assert_eq(kit_stats(k).repeats, 0);
}
