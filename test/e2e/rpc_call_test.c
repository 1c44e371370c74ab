/* Goal: every call ends exactly once with the right status and an honest "ran", whatever happens to
 * it. Method: two endpoints of one thread, turned by turns; each rule over shm and udp. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"

static const char *const schemes[] = {"shm", "udp"};
enum { SCHEMES = 2 };

static void start(struct pair *pair, struct ask *ask, uint32_t method, lend_ns timeout)
{
	*ask = (struct ask){.call = {.method = method, .timeout = timeout, .done = ask_done}};
	ask->call.request = ask_bytes(pair->client, 100, 1);
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0, "%s", lend_why());
}

static void until_held(struct pair *pair, uint32_t n)
{
	lend_ns end = lend_now(pair->client) + UINT64_C(10000000000);

	while (pair->n_held < n && lend_now(pair->client) < end)
		pair_turns(pair, 1);
	cr_assert_eq(pair->n_held, n);
}

Test(rpc_call, unknown_method)
{
	static const uint32_t lens[] = {10, 100000};

	for (int s = 0; s < SCHEMES; s++)
		for (int i = 0; i < 2; i++) {
			struct ask ask = {.done = false};
			struct pair pair;

			pair_open(&pair, schemes[s]);
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

		pair_open(&pair, schemes[s]);
		start(&pair, &ask, HOLD, 0);
		lend_call_cancel(pair.client, &ask.call); /* before a byte went out */
		cr_assert(!ask.done, "done runs inside a turn only");
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_CANCELLED);
		cr_assert_eq(ask.call.ran, LEND_RAN_NO);
		ask_give(pair.client, &ask);

		start(&pair, &ask, HOLD, 0);
		until_held(&pair, 1);
		cr_assert(!lend_request_cancelled(pair.server, pair.held[0]));
		lend_call_cancel(pair.client, &ask.call);
		lend_call_cancel(pair.client, &ask.call);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_CANCELLED);
		cr_assert_eq(ask.call.ran, LEND_RAN_MAYBE);
		cr_assert_eq(ask.times, 1);
		lend_call_cancel(pair.client, &ask.call); /* ended: nothing */
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

		pair_open(&pair, schemes[s]);
		start(&pair, &ask, ECHO, 0);
		cr_assert(pair_until(&pair, &ask.done));
		ask_give(pair.client, &ask);
		begun = lend_now(pair.client);
		start(&pair, &ask, HOLD, 50000000);
		until_held(&pair, 1);
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
		start(&pair, &ask, HOLD, LEND_NEVER);
		until_held(&pair, 2);
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

		pair_open(&pair, schemes[s]);
		start(&pair, &ask, HOLD, 0);
		until_held(&pair, 1);
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
	start(&pair, &one, ECHO, 0);
	two.call.request = one.call.request;
	int rc = lend_call_start(pair.client, pair.session, &two.call);
	cr_assert_eq(rc, -EINVAL, "%d %s", rc, lend_why());
	cr_assert_eq(lend_call_start(pair.client, pair.session, &one.call), -EALREADY);
	cr_assert(pair_until(&pair, &one.done));
	cr_assert_eq(one.call.status, LEND_OK);
	ask_give(pair.client, &one);
	pair_close(&pair);
}

struct middle {
	struct pair *pair;
	struct ask ask;
	lend_session onward;
	lend_request request;
};

static void forward(lend_request request, const struct lend_buf *in, void *arg)
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

/* client -> pair.server -> the same endpoint again through another session: the grandchild
 * inherits. */
Test(rpc_call, parent)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask;
		struct pair pair;
		struct middle m = {.pair = &pair};
		struct lend_ep *third;
		struct lend_config config = LEND_CONFIG_INIT;
		struct pair last = {.n_held = 0};
		char address[128];
		lend_ns left, end;

		pair_open(&pair, schemes[s]);
		pair_open(&last, schemes[s]);
		(void)third;
		(void)config;
		(void)address;
		cr_assert_eq(lend_serve(pair.server, FORWARD, forward, &m, 0), 0);
		cr_assert_eq(lend_connect(pair.server, last.address, &m.onward), 0);
		start(&pair, &ask, FORWARD, 3000000000u);
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

static int ups, downs;
static uint8_t seen[16];

static void watch(lend_session session, const uint8_t who[16], bool up, void *arg)
{
	(void)session;
	(void)arg;
	*(up ? &ups : &downs) += 1;
	memcpy(seen, who, 16);
}

Test(rpc_call, sessions_come_and_go)
{
	static const uint8_t nobody[16];

	for (int s = 0; s < SCHEMES; s++) {
		struct lend_peer peer;
		struct ask ask, open;
		struct pair pair;
		lend_session there;
		lend_ns end;
		int mark;

		ups = downs = 0;
		pair_open(&pair, schemes[s]);
		lend_watch_sessions(pair.server, watch, NULL);
		start(&pair, &open, HOLD, 0);
		until_held(&pair, 1);
		cr_assert_eq(ups, 1);
		cr_assert_neq(memcmp(seen, nobody, 16), 0);
		there = lend_request_session(pair.server, pair.held[0]);
		lend_session_set(pair.server, there, &mark);
		cr_assert_eq(lend_session_get(pair.server, there), &mark);
		cr_assert_eq(lend_session_peer(pair.server, there, &peer), 0);
		cr_assert_eq(memcmp(peer.incarnation, seen, 16), 0);
		if (s == 0)
			cr_assert_eq(peer.uid, (int64_t)getuid());
		/* either end may call */
		ask = (struct ask){.call = {.method = ECHO, .done = ask_done}};
		cr_assert_eq(lend_call_start(pair.server, there, &ask.call), 0);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
		lend_disconnect(pair.client, pair.session);
		cr_assert(pair_until(&pair, &open.done));
		cr_assert_eq(open.call.status, LEND_CANCELLED);
		ask_give(pair.client, &open);
		end = lend_now(pair.client) + UINT64_C(5000000000);
		while (!downs && lend_now(pair.client) < end)
			pair_turns(&pair, 1);
		cr_assert_eq(downs, 1);
		cr_assert_eq(lend_session_get(pair.server, there), NULL);
		cr_assert(lend_request_cancelled(pair.server, pair.held[0]));
		cr_assert_eq(lend_reply(pair.server, pair.held[0], LEND_OK, NULL), -ESTALE);
		pair_close(&pair);
	}
}

Test(rpc_call, close_in_flight)
{
	for (int s = 0; s < SCHEMES; s++)
		for (int who = 0; who < 2; who++) {
			struct ask ask[20];
			struct pair pair;

			pair_open(&pair, schemes[s]);
			for (int i = 0; i < 20; i++)
				start(&pair, &ask[i], HOLD, 0);
			until_held(&pair, 20);
			lend_close(who ? pair.client : pair.server);
			*(who ? &pair.client : &pair.server) = NULL;
			for (int i = 0; i < 20; i++) {
				cr_assert(who || pair_until(&pair, &ask[i].done));
				cr_assert_eq(ask[i].times, 1);
				cr_assert_eq(ask[i].call.status,
					     who ? LEND_CANCELLED : LEND_UNAVAILABLE);
				if (!who)
					ask_give(pair.client, &ask[i]);
			}
			pair_close(&pair);
		}
}

static int nested_rc[3];

static void nested(lend_request request, const struct lend_buf *in, void *arg)
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
	lend_serve(pair.server, 9, nested, &pair, 0);
	ask_run(&pair, &ask, 9, NULL);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(nested_rc[i], -EDEADLK);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

Test(rpc_call, nobody_there)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_call call = {.method = ECHO, .timeout = 300000000};
	struct lend_ep *ep;
	lend_session session;
	lend_ns begun;

	config.dead = 200000000;
	config.probe = 50000000;
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_lt(lend_connect(ep, "shm:nobody-is-here", &session), 0);
	cr_assert_not_null(strstr(lend_why(), "shm:nobody-is-here"), "%s", lend_why());
	cr_assert_lt(lend_connect(ep, "nonsense", &session), 0);
	cr_assert_lt(lend_connect(ep, "carrier:pigeon", &session), 0);
	begun = lend_now(ep);
	cr_assert_eq(lend_connect(ep, "udp:127.0.0.1:1", &session), 0, "%s", lend_why());
	cr_assert_eq(lend_call_sync(ep, session, &call), 0);
	cr_assert(call.status == LEND_UNAVAILABLE || call.status == LEND_DEADLINE_EXCEEDED, "%d",
		  call.status);
	cr_assert_lt(lend_now(ep) - begun, 2000000000u);
	lend_close(ep);
}

Test(rpc_call, addresses_and_configs_that_cannot_be)
{
	static const char *const bad[] = {
	    "", "shm", "shm:", "udp:127.0.0.1", "udp:127.0.0.1:99999", "x:y", "udp:300.1.1.1:5"};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep, *second;
	char address[128];

	for (size_t i = 1; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config.listen = bad[i];
		cr_assert_lt(lend_open(&config, &ep), 0, "%s", bad[i]);
		cr_assert_gt(strlen(lend_why()), 0);
	}
	config.listen = NULL;
	config.size = 3;
	cr_assert_eq(lend_open(&config, &ep), -EINVAL);
	config = (struct lend_config)LEND_CONFIG_INIT;
	config.calls = 5000;
	cr_assert_eq(lend_open(&config, &ep), -EINVAL);
	config.calls = 0;
	pair_address(address, sizeof(address), "shm");
	config.listen = address;
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_open(&config, &second), -EADDRINUSE);
	cr_assert_not_null(strstr(lend_why(), address));
	lend_close(ep);
	cr_assert_eq(lend_open(&config, &ep), 0, "the name is free again");
	lend_close(ep);
}

Test(rpc_call, two_carriers)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_call call = {.method = 77};
	char listen[256], name[128], both[256], *comma;
	struct pair pair = {.n_held = 0};
	lend_session session;
	struct ask ask = {.done = false};

	pair_address(name, sizeof(name), "shm");
	snprintf(listen, sizeof(listen), "%s,udp:127.0.0.1:0", name);
	config.listen = listen;
	cr_assert_eq(lend_open(&config, &pair.server), 0, "%s", lend_why());
	config.listen = NULL;
	cr_assert_eq(lend_open(&config, &pair.client), 0);
	cr_assert_eq(lend_address(pair.server, both, sizeof(both)), 0);
	cr_assert_eq(lend_address(pair.server, both, 5), -ERANGE);
	cr_assert_eq(lend_address(pair.server, both, sizeof(both)), 0);
	comma = strchr(both, ',');
	cr_assert_not_null(comma);
	*comma = 0;
	(void)call;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(lend_connect(pair.client, i ? comma + 1 : both, &session), 0);
		pair.session = session;
		ask_run(&pair, &ask, 77, NULL);
		cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
		ask_give(pair.client, &ask);
	}
	pair_close(&pair);
}

static void turn_client(struct pair *pair, struct ask *ask)
{
	lend_ns end = lend_now(pair->client) + UINT64_C(10000000000);

	while (!ask->done && lend_now(pair->client) < end)
		cr_assert_geq(lend_turn(pair->client, lend_now(pair->client) + 10000000), 0);
	cr_assert(ask->done);
}

/* The server is there but never turns: its client's calls wait for the address, and do not wait for
 * ever. */
Test(rpc_call, a_server_that_never_polls)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct ask late, cancelled, cut, first, more;
		struct pair pair;

		config.calls = 4;
		config.probe = 50000000;
		config.dead = 400000000;
		pair_open_with(&pair, schemes[s], &config, &config);
		start(&pair, &late, ECHO, 30000000);
		start(&pair, &cancelled, ECHO, LEND_NEVER);
		start(&pair, &cut, ECHO, LEND_NEVER);
		start(&pair, &first, ECHO, LEND_NEVER);
		more = (struct ask){.call = {.method = ECHO, .done = ask_done}};
		cr_assert_eq(lend_call_start(pair.client, pair.session, &more.call), -EAGAIN);
		lend_call_cancel(pair.client, &cancelled.call);
		turn_client(&pair, &cancelled);
		cr_assert_eq(cancelled.call.status, LEND_CANCELLED);
		cr_assert_eq(cancelled.call.ran, LEND_RAN_NO);
		turn_client(&pair, &late);
		cr_assert_eq(late.call.status, LEND_DEADLINE_EXCEEDED, "%s: %d", schemes[s],
			     late.call.status);
		cr_assert_eq(late.call.ran, LEND_RAN_NO);
		cr_assert(!cut.done);
		turn_client(&pair, &cut);
		turn_client(&pair, &first);
		cr_assert_eq(cut.call.status, LEND_UNAVAILABLE);
		cr_assert_eq(cut.call.ran, LEND_RAN_NO);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &more.call), -ESTALE);
		ask_give(pair.client, &late);
		ask_give(pair.client, &cancelled);
		ask_give(pair.client, &cut);
		ask_give(pair.client, &first);
		pair_close(&pair);
	}
}

Test(rpc_call, an_endpoint_calls_itself)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_call call = {.method = ECHO};
		struct pair pair;
		lend_session self;

		pair_open(&pair, schemes[s]);
		cr_assert_eq(lend_connect(pair.server, pair.address, &self), 0, "%s", lend_why());
		call.request = ask_bytes(pair.server, 200000, 4);
		cr_assert_eq(lend_call_sync(pair.server, self, &call), 0);
		cr_assert_eq(call.status, LEND_OK);
		cr_assert(ask_same(call.reply, 200000, 4));
		lend_buf_give(pair.server, call.request);
		lend_buf_give(pair.server, call.reply);
		pair_close(&pair);
	}
}
