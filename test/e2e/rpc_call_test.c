/* Goal: every call ends exactly once with the right status and a correct `ran`, whatever happens to
 * it. Method: two endpoints of one thread, in alternate turns; each rule over shm and udp. Covers:
 * src/rpc/call.c, src/rpc/request.c, src/rpc/nested_calls.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "e2e/rpc_pair.h"

Test(rpc_call, unknown_method)
{
	static const uint32_t lens[] = {10, 100000};

	for (int s = 0; s < SCHEMES; s++)
		for (int i = 0; i < 2; i++) {
			struct ask ask = {.done = false};
			struct pair pair;

			pair_open(&pair, pair_schemes[s]);
			ask_run(&pair, &ask, 77, ask_bytes(pair.client, lens[i], 1));
			cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
			cr_assert_eq(ask.call.ran, LEND_RAN_NO, "ran %d", ask.call.ran);
			cr_assert_null(ask.call.reply);
			ask_give(pair.client, &ask);
			pair_close(&pair);
		}
}

Test(rpc_call, cancel)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask;
		struct pair pair;

		pair_open(&pair, pair_schemes[s]);
		ask_start(&pair, &ask, HOLD, 0);
		lend_call_cancel(pair.client, &ask.call); /* before a byte was sent */
		cr_assert(!ask.done, "done runs inside a turn only");
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_CANCELLED);
		cr_assert_eq(ask.call.ran, LEND_RAN_NO);
		ask_give(pair.client, &ask);

		ask_start(&pair, &ask, HOLD, 0);
		pair_until_held(&pair, 1);
		cr_assert(!lend_request_cancelled(pair.server, pair.held[0]));
		lend_call_cancel(pair.client, &ask.call);
		lend_call_cancel(pair.client, &ask.call);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_CANCELLED);
		cr_assert_eq(ask.call.ran, LEND_RAN_MAYBE);
		cr_assert_eq(ask.times, 1);
		lend_call_cancel(pair.client, &ask.call); /* already ended: no effect */
		pair_turns(&pair, 200);
		cr_assert_eq(ask.times, 1);
		cr_assert(lend_request_cancelled(pair.server, pair.held[0]),
			  "the handler can see it");
		cr_assert_eq(
		    lend_reply(pair.server, pair.held[0], LEND_OK, ask_bytes(pair.server, 10, 1)),
		    -ESTALE);
		cr_assert_eq(
		    lend_reply(pair.server, pair.held[0], LEND_OK, ask_bytes(pair.server, 10, 1)),
		    -ESTALE);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

Test(rpc_call, deadline)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask;
		struct pair pair;
		lend_ns left, begun;

		pair_open(&pair, pair_schemes[s]);
		ask_start(&pair, &ask, ECHO, 0);
		cr_assert(pair_until(&pair, &ask.done));
		ask_give(pair.client, &ask);
		begun = lend_now(pair.client);
		ask_start(&pair, &ask, HOLD, 1);
		while (lend_now(pair.client) <= begun + 1)
			continue;
		cr_assert(pair_until(&pair, &ask.done), "over before a turn came: it is not sent");
		cr_assert_eq(ask.call.status, LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(ask.call.ran, LEND_RAN_NO);
		ask_give(pair.client, &ask);
		begun = lend_now(pair.client);
		ask_start(&pair, &ask, HOLD, 50000000);
		pair_until_held(&pair, 1);
		left = lend_request_left(pair.server, pair.held[0]);
		cr_assert(left > 0 && left <= 50000000, "%llu ns left", (unsigned long long)left);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(ask.call.ran, LEND_RAN_MAYBE);
		cr_assert_geq(lend_now(pair.client) - begun, 50000000);
		while (lend_request_left(pair.server, pair.held[0]) > 0 &&
		       lend_now(pair.client) - begun < 1000000000)
			pair_turns(&pair, 1);
		cr_assert_eq(lend_request_left(pair.server, pair.held[0]), 0);
		ask_give(pair.client, &ask);
		ask_start(&pair, &ask, HOLD, LEND_NEVER);
		pair_until_held(&pair, 2);
		cr_assert_eq(lend_request_left(pair.server, pair.held[1]), LEND_NEVER);
		lend_call_cancel(pair.client, &ask.call);
		cr_assert(pair_until(&pair, &ask.done));
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

Test(rpc_call, reply_once_and_stale_handles)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_call call = {.method = ECHO};
		struct lend_peer peer;
		struct ask ask;
		struct pair pair;
		lend_request odd;

		pair_open(&pair, pair_schemes[s]);
		ask_start(&pair, &ask, HOLD, 0);
		pair_until_held(&pair, 1);
		odd = (lend_request){pair.held[0].id + (UINT64_C(1) << 32)};
		cr_assert_eq(lend_reply(pair.server, odd, LEND_OK, NULL), -ESTALE,
			     "another generation");
		cr_assert_eq(lend_reply(pair.server, (lend_request){UINT64_MAX}, LEND_OK, NULL),
			     -ESTALE);
		cr_assert_eq(lend_reply(pair.server, (lend_request){0}, LEND_OK, NULL), -ESTALE);
		cr_assert_neq(lend_request_session(pair.server, pair.held[0]).id, 0);
		cr_assert_eq(lend_reply(pair.server, pair.held[0], LEND_ABORTED,
					ask_bytes(pair.server, 7, 9)),
			     0);
		cr_assert_eq(
		    lend_reply(pair.server, pair.held[0], LEND_OK, ask_bytes(pair.server, 8, 9)),
		    -ESTALE);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_ABORTED);
		cr_assert(ask_same(ask.call.reply, 7, 9));
		cr_assert_eq(lend_request_session(pair.server, pair.held[0]).id, 0);
		cr_assert(lend_request_cancelled(pair.server, pair.held[0]));
		ask_give(pair.client, &ask);

		cr_assert_eq(lend_call_start(pair.client, (lend_session){0}, &call), -ESTALE);
		cr_assert_eq(lend_call_start(pair.client,
					     (lend_session){pair.session.id + (UINT64_C(1) << 32)},
					     &call),
			     -ESTALE);
		cr_assert_eq(lend_session_peer(pair.client, (lend_session){12345}, &peer), -ESTALE);
		call.parent = pair.held[0];
		cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -ESTALE,
			     "its parent is answered");
		call.parent.id = 0;
		lend_disconnect(pair.client, pair.session);
		lend_disconnect(pair.client, pair.session);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -ESTALE);
		cr_assert_gt(strlen(lend_why()), 0);
		pair_close(&pair);
	}
}

Test(rpc_call, a_buffer_cannot_be_in_two_calls)
{
	struct ask one, two = {.call = {.method = ECHO, .done = ask_done}};
	struct pair pair;

	pair_open(&pair, "shm");
	ask_start(&pair, &one, ECHO, 0);
	two.call.request = one.call.request;
	int rc = lend_call_start(pair.client, pair.session, &two.call);
	cr_assert_eq(rc, -EINVAL, "%d %s", rc, lend_why());
	cr_assert_eq(lend_call_start(pair.client, pair.session, &one.call), -EALREADY);
	cr_assert(pair_until(&pair, &one.done));
	cr_assert_eq(one.call.status, LEND_OK);
	ask_give(pair.client, &one);
	pair_close(&pair);
}

Test(rpc_call, close_in_flight)
{
	for (int s = 0; s < SCHEMES; s++)
		for (int client_ends = 0; client_ends < 2; client_ends++) {
			struct ask ask[20];
			struct pair pair;

			pair_open(&pair, pair_schemes[s]);
			for (int i = 0; i < 20; i++)
				ask_start(&pair, &ask[i], HOLD, 0);
			pair_until_held(&pair, 20);
			lend_close(client_ends ? pair.client : pair.server);
			*(client_ends ? &pair.client : &pair.server) = NULL;
			for (int i = 0; i < 20; i++) {
				cr_assert(client_ends || pair_until(&pair, &ask[i].done));
				cr_assert_eq(ask[i].times, 1);
				cr_assert_eq(ask[i].call.status,
					     client_ends ? LEND_CANCELLED : LEND_UNAVAILABLE);
				if (!client_ends)
					ask_give(pair.client, &ask[i]);
			}
			pair_close(&pair);
		}
}

static int nested_rc[3];

static void serve_nested(lend_request request, const struct lend_buf *in, void *arg)
{
	struct pair *pair = arg;
	struct lend_call call = {.method = ECHO};

	(void)in;
	nested_rc[0] = lend_poll(pair->server);
	nested_rc[1] = lend_run(pair->server, 0);
	nested_rc[2] = lend_call_sync(pair->server, pair->session, &call);
	lend_reply(pair->server, request, LEND_OK, NULL);
}

Test(rpc_call, no_turn_within_a_turn)
{
	struct ask ask = {.done = false};
	struct pair pair;

	pair_open(&pair, "shm");
	lend_serve(pair.server, 9, serve_nested, &pair, 0);
	ask_run(&pair, &ask, 9, NULL);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(nested_rc[i], -EDEADLK);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

struct middle {
	struct pair *pair;
	struct ask ask;
	lend_session onward;
	lend_request request;
};

static void serve_forward(lend_request request, const struct lend_buf *in, void *arg)
{
	struct middle *m = arg;

	(void)in;
	m->request = request;
	m->ask = (struct ask){.call = {.method = HOLD, .parent = request, .done = ask_done}};
	m->ask.call.request = lend_request_take(m->pair->server, request);
	cr_assert_null(lend_request_take(m->pair->server, request), "taken once");
	cr_assert_eq(lend_call_start(m->pair->server, m->onward, &m->ask.call), 0, "%s",
		     lend_why());
}

/* client -> pair.server -> the same endpoint again through another session: the second nested call
 * inherits. */
Test(rpc_call, parent)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask;
		struct pair pair;
		struct middle m = {.pair = &pair};
		struct pair last;
		lend_ns left, end;

		pair_open(&pair, pair_schemes[s]);
		pair_open(&last, pair_schemes[s]);
		cr_assert_eq(lend_serve(pair.server, FORWARD, serve_forward, &m, 0), 0);
		cr_assert_eq(lend_connect(pair.server, last.address, &m.onward), 0);
		ask_start(&pair, &ask, FORWARD, 3000000000u);
		end = lend_now(pair.client) + UINT64_C(10000000000);
		while (!last.n_held && lend_now(pair.client) < end) {
			pair_turns(&pair, 1);
			pair_turns(&last, 1);
		}
		cr_assert_eq(last.n_held, 1);
		left = lend_request_left(last.server, last.held[0]);
		cr_assert(left > 0 && left <= 3000000000u, "%llu", (unsigned long long)left);
		lend_call_cancel(pair.client, &ask.call);
		while (!lend_request_cancelled(last.server, last.held[0]) &&
		       lend_now(pair.client) < end) {
			pair_turns(&pair, 1);
			pair_turns(&last, 1);
		}
		cr_assert(lend_request_cancelled(last.server, last.held[0]),
			  "cancelling travels on");
		cr_assert(m.ask.done);
		cr_assert_eq(m.ask.call.status, LEND_CANCELLED);
		cr_assert(ask.done);
		ask_give(pair.server, &m.ask);
		ask_give(pair.client, &ask);
		cr_assert_eq(lend_reply(pair.server, m.request, LEND_CANCELLED, NULL), -ESTALE);
		cr_assert_eq(lend_reply(last.server, last.held[0], LEND_OK, NULL), -ESTALE);
		pair_close(&pair);
		pair_close(&last);
	}
}
