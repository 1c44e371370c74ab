/* Goal: a server is reached over each of an endpoint's carriers, also by the endpoint itself; an
 * address that cannot be opened or reached returns a specific error, in time. Method: one thread;
 * addresses without a process behind them, and with one that never polls. Covers:
 * src/rpc/session.c, src/rpc/carrier.c, src/io/addr.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "e2e/rpc_pair.h"

Test(rpc_address, addresses_and_configs_that_cannot_be)
{
	static const char *const bad[] = {
	    "", "shm", "shm:", "udp:127.0.0.1", "udp:127.0.0.1:99999", "x:y", "udp:300.1.1.1:5"};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep, *second;
	lend_session session;
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
	config.cc = "reno";
	cr_assert_eq(lend_open(&config, &ep), -EINVAL);
	cr_assert_not_null(strstr(lend_why(), "reno"));
	config.cc = "swift";
	config.listen = "udp:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, "udp:[::1]:9", &session), -EAFNOSUPPORT, "%s", lend_why());
	cr_assert_not_null(strstr(lend_why(), "udp:[::]:0"), "%s", lend_why());
	lend_close(ep);
	pair_address(address, sizeof(address), "shm");
	config.listen = address;
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_open(&config, &second), -EADDRINUSE);
	cr_assert_not_null(strstr(lend_why(), address));
	lend_close(ep);
	cr_assert_eq(lend_open(&config, &ep), 0, "the name is free again");
	lend_close(ep);
}

Test(rpc_address, two_carriers)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char listen[256], name[128], both[256], *comma;
	struct pair pair = {.n_held = 0};
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
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(lend_connect(pair.client, i ? comma + 1 : both, &pair.session), 0);
		ask_run(&pair, &ask, 77, NULL);
		cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
		ask_give(pair.client, &ask);
	}
	pair_close(&pair);
}

Test(rpc_address, an_endpoint_calls_itself)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_call call = {.method = ECHO};
		struct pair pair;
		lend_session self;

		pair_open(&pair, pair_schemes[s]);
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

Test(rpc_address, connect__no_server__fails_in_time)
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

static void turn_client(struct pair *pair, struct ask *ask)
{
	lend_ns end = lend_now(pair->client) + UINT64_C(10000000000);

	while (!ask->done && lend_now(pair->client) < end)
		cr_assert_geq(lend_wait(pair->client, lend_now(pair->client) + 10000000), 0);
	cr_assert(ask->done);
}

/* The server exists but never polls: its client's calls wait for the address, until their
 * deadline. */
Test(rpc_address, a_server_that_never_polls)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct ask late, cancelled, cut, first, more, again[2];
		struct pair pair;

		config.calls = 4;
		config.probe = 50000000;
		config.dead = 400000000;
		pair_open_with(&pair, pair_schemes[s], &config, &config);
		ask_start(&pair, &late, ECHO, 30000000);
		ask_start(&pair, &cancelled, ECHO, LEND_NEVER);
		ask_start(&pair, &cut, ECHO, LEND_NEVER);
		ask_start(&pair, &first, ECHO, LEND_NEVER);
		more = (struct ask){.call = {.method = ECHO, .done = ask_done}};
		cr_assert_eq(lend_call_start(pair.client, pair.session, &more.call), -EAGAIN);
		lend_call_cancel(pair.client, &cancelled.call);
		turn_client(&pair, &cancelled);
		cr_assert_eq(cancelled.call.status, LEND_CANCELLED);
		cr_assert_eq(cancelled.call.ran, LEND_RAN_NO);
		turn_client(&pair, &late);
		cr_assert_eq(late.call.status, LEND_DEADLINE_EXCEEDED, "%s: %d", pair_schemes[s],
			     late.call.status);
		cr_assert_eq(late.call.ran, LEND_RAN_NO);
		cr_assert(!cut.done);
		for (int i = 0; i < 2; i++) /* the places of those two */
			ask_start(&pair, &again[i], ECHO, LEND_NEVER);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &more.call), -EAGAIN);
		turn_client(&pair, &cut);
		turn_client(&pair, &first);
		cr_assert_eq(cut.call.status, LEND_UNAVAILABLE);
		cr_assert_eq(cut.call.ran, LEND_RAN_NO);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &more.call), -ESTALE);
		for (int i = 0; i < 2; i++) {
			turn_client(&pair, &again[i]);
			ask_give(pair.client, &again[i]);
		}
		ask_give(pair.client, &late);
		ask_give(pair.client, &cancelled);
		ask_give(pair.client, &cut);
		ask_give(pair.client, &first);
		pair_close(&pair);
	}
}
