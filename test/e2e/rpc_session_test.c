/* Goal: both ends are notified of a session, its peer, its beginning and its end; its record is
 * freed however it ends and whatever is started meanwhile. Method: two endpoints of one thread; few
 * sessions, and more deaths than sessions; done functions that connect at once. Covers:
 * src/rpc/session.c */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"
#include "one_line_test.h"

#define LIMIT UINT64_C(10000000000)

static int ups, downs;
static uint8_t seen[16];

static void watch_session(lend_session session, const uint8_t peer[16], bool up, void *arg)
{
	(void)session;
	(void)arg;
	*(up ? &ups : &downs) += 1;
	memcpy(seen, peer, 16);
}

/* A close ends all sessions first: only a new one can still bring a request. */
Test(rpc_session, a_request_at_a_closing_endpoint_ends_unavailable)
{
	struct pair pair;
	struct ask first = {.call.zero_rtt = 1}, late = {.call.zero_rtt = 1};

	pair_open(&pair, "udp");
	ask_run(&pair, &first, ECHO, ask_bytes(pair.client, 100, 1));
	ask_give(pair.client, &first);
	lend_disconnect(pair.client, pair.session);
	pair_turns(&pair, 50);
	cr_assert_eq(lend_connect(pair.client, pair.address, &pair.session), 0, "%s", lend_why());
	late.call.method = ECHO;
	late.call.done = ask_done;
	late.call.request = ask_bytes(pair.client, 100, 1);
	cr_assert_eq(lend_call_start(pair.client, pair.session, &late.call), 0, "%s", lend_why());
	for (int i = 0; i < 10; i++)
		cr_assert_geq(lend_poll(pair.client), 0);
	lend_close(pair.server);
	pair.server = NULL;
	for (lend_ns end = lend_now(pair.client) + LIMIT;
	     !late.done && lend_now(pair.client) < end;)
		cr_assert_geq(lend_poll(pair.client), 0);
	cr_assert(late.done);
	cr_assert_eq(late.call.status, LEND_UNAVAILABLE, "%d", (int)late.call.status);
	cr_assert_eq(late.call.ran, LEND_RAN_NO, "refused, and not only lost");
	ask_give(pair.client, &late);
	pair_close(&pair);
}

Test(rpc_session, sessions_come_and_go)
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
		pair_open(&pair, pair_schemes[s]);
		lend_watch_sessions(pair.server, watch_session, NULL);
		ask_start(&pair, &open, HOLD, 0);
		pair_until_held(&pair, 1);
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

enum { SESSIONS = 4, DEATHS = 5 * SESSIONS };

struct again {
	struct lend_call call; /* must be the first member */
	struct lend_ep *ep;
	char next[128];
	lend_session session;
	int rc;
	bool done;
};

static void connect_again(struct lend_call *call)
{
	struct again *again = (struct again *)(void *)call;

	lend_disconnect(again->ep, again->session);
	again->rc = lend_connect(again->ep, again->next, &again->session);
	again->done = true;
}

static bool asked;
static void serve_note(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)request, (void)bytes, (void)arg;
	asked = true; /* never answered */
}

static struct lend_ep *run_server(const struct lend_config *config, const char *scheme,
				  char *address)
{
	struct lend_config listen = *config;
	struct lend_ep *ep;

	pair_address(address, 128, scheme);
	listen.listen = address;
	cr_assert_eq(lend_open(&listen, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, 128), 0);
	cr_assert_eq(lend_serve(ep, HOLD, serve_note, NULL, 0), 0);
	return ep;
}

/* The record in the core is free by then and reused at once, while the event of the old session's
 * end is still pending. */
static void dies_again_and_again(const char *scheme)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct again again = {.call = {.method = HOLD, .done = connect_again}};
	struct lend_ep *server, *next;
	struct lend_stats stats;

	config.sessions = SESSIONS;
	server = run_server(&config, scheme, again.next);
	cr_assert_eq(lend_open(&config, &again.ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(again.ep, again.next, &again.session), 0, "%s", lend_why());
	for (int i = 0; i < DEATHS; i++) {
		next = run_server(&config, scheme, again.next);
		again.done = asked = false;
		cr_assert_eq(lend_call_start(again.ep, again.session, &again.call), 0);
		while (!asked)
			cr_assert(lend_poll(again.ep) >= 0 && lend_poll(server) >= 0);
		lend_close(server);
		server = next;
		while (!again.done)
			cr_assert_geq(lend_poll(again.ep), 0);
		cr_assert_eq(again.call.status, LEND_UNAVAILABLE);
		cr_assert_eq(again.rc, 0, "after %d deaths: %s", i + 1, lend_why());
	}
	do {
		cr_assert(lend_poll(again.ep) >= 0 && lend_poll(server) >= 0);
		lend_stats_get(again.ep, &stats);
	} while (stats.sessions != 1);
	lend_close(again.ep);
	lend_close(server);
}

TestRuns(rpc_session, dies_again_and_again_shm, dies_again_and_again("shm"));
TestRuns(rpc_session, dies_again_and_again_udp, dies_again_and_again("udp"));
