/* Goal: a session's record comes back however the session ends and whatever is started meanwhile.
 * Method: few sessions, and more deaths than there are; done functions that connect at once. */
#include <criterion/criterion.h>
#include <string.h>

#include "e2e/rpc_pair.h"

enum { SESSIONS = 4, DEATHS = 5 * SESSIONS };

struct again {
	struct lend_call call; /* first */
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
static void note(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)request, (void)bytes, (void)arg;
	asked = true; /* never answered */
}

static struct lend_ep *serve(const struct lend_config *config, const char *scheme, char *address)
{
	struct lend_config listen = *config;
	struct lend_ep *ep;

	pair_address(address, 128, scheme);
	listen.listen = address;
	cr_assert_eq(lend_open(&listen, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, 128), 0);
	cr_assert_eq(lend_serve(ep, HOLD, note, NULL, 0), 0);
	return ep;
}

/* The record in the core is free by then and is taken at once, but that the old session ended has
 * yet to be told. */
static void dies_again_and_again(const char *scheme)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct again again = {.call = {.method = HOLD, .done = connect_again}};
	struct lend_ep *server, *next;
	struct lend_stats stats;

	config.sessions = SESSIONS;
	server = serve(&config, scheme, again.next);
	cr_assert_eq(lend_open(&config, &again.ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(again.ep, again.next, &again.session), 0, "%s", lend_why());
	for (int i = 0; i < DEATHS; i++) {
		next = serve(&config, scheme, again.next);
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
		lend_stats(again.ep, &stats);
	} while (stats.sessions != 1);
	lend_close(again.ep);
	lend_close(server);
}

Test(rpc_session, dies_again_and_again_shm)
{
	dies_again_and_again("shm");
}

Test(rpc_session, dies_again_and_again_udp)
{
	dies_again_and_again("udp");
}
