/* Goal: a call with queue set waits for a slot, in order, and ends in time without one. Method: the
 * slots of a session are held by calls without an answer, or by cancelled ones of which the server
 * knows nothing yet. Covers: src/rpc/call_queue.c, cn/op_call.c, cn/args/args.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "e2e/rpc_pair.h"

enum { SLOTS = 4, QUEUED = 6 };

static struct ask hold[SLOTS], queued[QUEUED];
static char order[QUEUED + 1];

static void note_order(struct lend_call *call)
{
	order[strlen(order)] = (char)('a' + ((struct ask *)(void *)call - queued));
	ask_done(call);
}

static void start_queued(struct pair *pair, int i, uint8_t priority, lend_ns timeout,
			 lend_request parent)
{
	queued[i] = (struct ask){.call = {.method = SINK,
					  .queue = 1,
					  .priority = priority,
					  .timeout = timeout,
					  .parent = parent,
					  .done = note_order}};
	cr_assert_eq(lend_call_start(pair->client, pair->session, &queued[i].call), 0, "%s",
		     lend_why());
}

/* Opens a pair. All slots of its client are in use. */
static void open_held(struct pair *pair, const char *scheme)
{
	struct lend_config config = LEND_CONFIG_INIT;

	memset(order, 0, sizeof(order));
	config.calls = SLOTS;
	pair_open_with(pair, scheme, &config, &config);
	for (int i = 0; i < SLOTS; i++)
		ask_start(pair, &hold[i], HOLD, LEND_NEVER);
	pair_until_held(pair, SLOTS);
}

static void end_held(struct pair *pair)
{
	for (int i = 0; i < SLOTS; i++) {
		(void)lend_reply(pair->server, pair->held[i], LEND_OK, NULL);
		cr_assert(pair_until(pair, &hold[i].done));
		ask_give(pair->client, &hold[i]);
	}
}

static void end_queued(struct pair *pair, int i, enum lend_status status)
{
	cr_assert(pair_until(pair, &queued[i].done), "call %d waits for ever", i);
	cr_assert_eq(queued[i].call.status, status, "call %d: %d", i, queued[i].call.status);
	cr_assert_eq(queued[i].call.ran, status == LEND_OK ? LEND_RAN_YES : LEND_RAN_NO);
	cr_assert_eq(queued[i].times, 1);
	lend_buf_give(pair->client, queued[i].call.reply);
}

/* The urgent call e is among the first SLOTS. It may end after the others of these: each carrier
 * lets less urgent datagrams go first now and then. */
Test(rpc_queue, slots_of_cancelled_calls__start_in_order)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		char *urgent;

		open_held(&pair, pair_schemes[s]);
		for (int i = 0; i < QUEUED; i++)
			start_queued(&pair, i, i == 4 ? LEND_NORMAL - 1 : 0, 0, (lend_request){0});
		for (int i = 0; i < SLOTS; i++)
			lend_call_cancel(pair.client, &hold[i].call);
		for (int i = 0; i < QUEUED; i++)
			end_queued(&pair, i, LEND_OK);
		urgent = memchr(order, 'e', SLOTS);
		cr_assert(urgent, "%s: %s", pair_schemes[s], order);
		memmove(urgent, urgent + 1, strlen(urgent));
		cr_assert_str_eq(order, "abcdf", "%s", pair_schemes[s]);
		end_held(&pair);
		pair_close(&pair);
	}
}

Test(rpc_queue, no_slot_becomes_free__ends_at_its_deadline)
{
	for (int s = 0; s < SCHEMES; s++) {
		lend_ns begun, after = 20000000;
		struct pair pair;

		open_held(&pair, pair_schemes[s]);
		start_queued(&pair, 0, 0, LEND_NEVER, (lend_request){0});
		begun = lend_now(pair.client);
		start_queued(&pair, 1, 0, after, (lend_request){0});
		while (!queued[1].done) /* sleeps */
			cr_assert_geq(lend_wait(pair.client, begun + SECOND), 0);
		end_queued(&pair, 1, LEND_DEADLINE_EXCEEDED);
		cr_assert_geq(lend_now(pair.client) - begun, after);
		cr_assert_lt(lend_now(pair.client) - begun, after + SECOND / 2);
		cr_assert(!queued[0].done);
		end_held(&pair);
		end_queued(&pair, 0, LEND_OK);
		pair_close(&pair);
	}
}

Test(rpc_queue, cancelled_or_session_ended__ends_not_run)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		open_held(&pair, pair_schemes[s]);
		for (int i = 0; i < 4; i++)
			start_queued(&pair, i, 0, LEND_NEVER, (lend_request){0});
		lend_call_cancel(pair.client, &queued[3].call);
		end_queued(&pair, 3, LEND_CANCELLED);
		lend_call_cancel(pair.client, &queued[0].call);
		end_queued(&pair, 0, LEND_CANCELLED);
		start_queued(&pair, 3, 0, LEND_NEVER, (lend_request){0});
		lend_disconnect(pair.client, pair.session);
		for (int i = 1; i < 4; i++)
			end_queued(&pair, i, LEND_CANCELLED);
		for (int i = 0; i < SLOTS; i++) {
			cr_assert(pair_until(&pair, &hold[i].done));
			ask_give(pair.client, &hold[i]);
		}
		pair_close(&pair);
	}
}

static struct pair *back; /* a server's own calls, to a third endpoint */

static void serve_forward(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)in;
	(void)arg;
	back->held[back->n_held++] = request;
	start_queued(back, 0, 0, LEND_NEVER, request);
}

/* A call that waits is cancelled with the request that it serves. */
Test(rpc_queue, parent_cancelled__ends_not_run)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *first;
	struct ask outer = {.call = {.method = FORWARD, .done = ask_done}};
	struct pair pair;
	lend_session session;
	char address[128];

	memset(order, 0, sizeof(order));
	config.calls = SLOTS;
	pair_open_with(&pair, "shm", &config, &config);
	lend_close(pair.client);
	pair_address(address, sizeof(address), "shm");
	config.listen = address;
	cr_assert_eq(lend_open(&config, &pair.client), 0);
	cr_assert_eq(lend_serve(pair.client, FORWARD, serve_forward, NULL, 0), 0);
	cr_assert_eq(lend_connect(pair.client, pair.address, &pair.session), 0);
	for (int i = 0; i < SLOTS; i++)
		ask_start(&pair, &hold[i], HOLD, LEND_NEVER);
	pair_until_held(&pair, SLOTS);
	back = &pair;
	config.listen = NULL;
	cr_assert_eq(lend_open(&config, &first), 0);
	cr_assert_eq(lend_connect(first, address, &session), 0);
	cr_assert_eq(lend_call_start(first, session, &outer.call), 0);
	while (pair.n_held == SLOTS) {
		lend_poll(first);
		pair_turns(&pair, 1);
	}
	lend_call_cancel(first, &outer.call);
	while (!queued[0].done || !outer.done) {
		lend_poll(first);
		pair_turns(&pair, 1);
	}
	end_queued(&pair, 0, LEND_CANCELLED);
	lend_close(first);
	end_held(&pair);
	pair_close(&pair);
}

/* Operations with cancelled calls leave their slots in use until the node knows of it. Then a
 * stopped node answers none of those, and the next operation waits; it must not end
 * RESOURCE_EXHAUSTED, as nothing is exhausted. */
Test(rpc_queue, memory_operation_without_a_slot__waits_or_ends_in_time)
{
	static char bytes[100];
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_op op[SLOTS], late = {.timeout = 20000000}, put = {.timeout = LEND_NEVER};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct mem_node node;
	struct lend_ref ref;

	mem_node_start(&node, "shm", "1M", "");
	config.calls = SLOTS;
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	ref = mem_put(mem, bytes, sizeof(bytes), NULL);
	kill(node.pid, SIGSTOP);
	for (int i = 0; i < SLOTS; i++) {
		op[i] = (struct lend_op){.timeout = LEND_NEVER};
		cr_assert_eq(lend_get(mem, &ref, 0, &iov, 1, &op[i]), 0);
		cr_assert_geq(lend_poll(ep), 0);
	}
	for (int i = 0; i < SLOTS; i++) {
		lend_op_cancel(mem, &op[i]);
		cr_assert_eq(mem_end(mem, &op[i], 0), LEND_CANCELLED);
	}
	cr_assert_eq(mem_end(mem, &late, lend_get(mem, &ref, 0, &iov, 1, &late)),
		     LEND_DEADLINE_EXCEEDED);
	cr_assert_eq(lend_put(mem, &iov, 1, NULL, &put), 0);
	cr_assert_geq(lend_poll(ep), 0);
	kill(node.pid, SIGCONT);
	cr_assert_eq(mem_end(mem, &put, 0), LEND_OK);
	mem_client_close(ep, mem);
	mem_node_stop(&node);
}
