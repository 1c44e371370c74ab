/* Goal: a refused operation fails at once, with the true cause, takes nothing and never looks like
 * a success. Method: addresses that do not parse, more carriers and sessions than there are, a
 * capture path that cannot be opened, calls that cannot start; after each, what is allowed still
 * works. Covers: src/rpc/carrier.c, src/rpc/session.c, src/rpc/call.c */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"

enum { SESSIONS = 8 };

Test(rpc_refuse, bad_addresses_take_no_carrier)
{
	static const char *const bad[] = {"shm:", "shm:/", "shm:.a", "udp:", "udp:h:99999", "x:y"};
	struct pair pair;
	struct ask ask = {.done = false};

	for (int s = 0; s < SCHEMES; s++) {
		lend_session session;

		pair_open(&pair, pair_schemes[s]);
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			cr_assert_eq(lend_connect(pair.client, bad[i], &session), -EINVAL, "%s: %s",
				     bad[i], lend_why());
		for (int k = 0; k < SCHEMES; k++)
			cr_assert_neq(lend_connect(pair.client,
						   k ? "udp:127.0.0.1:9" : "shm:nobody", &session),
				      -ENOSPC, "%s", lend_why());
		ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 100, 1));
		cr_assert_eq(ask.call.status, LEND_OK);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

Test(rpc_refuse, a_fifth_carrier__names_the_carriers)
{
	struct lend_config config = LEND_CONFIG_INIT;
	lend_session session;
	struct lend_ep *ep;

	config.listen = "udp:127.0.0.1:0,udp:127.0.0.1:0,udp:127.0.0.1:0,udp:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, "shm:nobody", &session), -ENOSPC);
	cr_assert_not_null(strstr(lend_why(), "carriers"), "%s", lend_why());
	lend_close(ep);
}

/* In every second run each session gets a turn to open; in the others all still wait for their
 * address. */
Test(rpc_refuse, one_session_too_many__is_refused_at_once)
{
	for (int s = 0; s < 2 * SCHEMES; s++) {
		struct lend_config serves = LEND_CONFIG_INIT, config = serves;
		lend_session session[SESSIONS];
		struct pair pair;

		config.sessions = SESSIONS;
		pair_open_with(&pair, pair_schemes[s / 2], &serves, &config);
		for (int i = 1; i < SESSIONS; i++) {
			cr_assert_eq(lend_connect(pair.client, pair.address, &session[i]), 0, "%s",
				     lend_why());
			if (s % 2)
				pair_turns(&pair, 1);
		}
		for (int again = 0; again < 2; again++) {
			cr_assert_eq(lend_connect(pair.client, pair.address, &session[0]), -ENOSPC,
				     "%s: session %d", pair_schemes[s / 2], SESSIONS + 1);
			cr_assert_not_null(strstr(lend_why(), "config.sessions"), "%s", lend_why());
			lend_disconnect(pair.client, session[1]);
			pair_turns(&pair, 50);
			cr_assert_eq(lend_connect(pair.client, pair.address, &session[1]), 0, "%s",
				     lend_why());
		}
		pair_close(&pair);
	}
}

Test(rpc_refuse, capture_path__fails_a_client_as_well)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	for (int listens = 0; listens < 2; listens++) {
		config.listen = listens ? "udp:127.0.0.1:0" : NULL;
		config.capture = "/proc/nowhere/a.pcapng";
		cr_assert_eq(lend_open(&config, &ep), -ENOENT);
		cr_assert_not_null(strstr(lend_why(), "give a path"), "%s", lend_why());
		config.capture = "";
		cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
		lend_close(ep);
	}
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Also when another address of the endpoint is refused. */
Test(rpc_refuse, capture_file__is_closed_with_its_endpoint)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char path[64];
	struct lend_ep *ep;
	int before;

	cr_assert_eq(lend_open(&config, &ep), 0);
	lend_close(ep);
	before = open_descriptors();
	(void)snprintf(path, sizeof(path), "/tmp/lend-refuse-%d.pcapng", (int)getpid());
	config.capture = path;
	for (int i = 0; i < 3; i++) {
		config.listen = NULL;
		cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
		lend_close(ep);
		config.listen = "udp:127.0.0.1:0,x:y";
		cr_assert_eq(lend_open(&config, &ep), -EINVAL);
	}
	cr_expect_eq(open_descriptors(), before);
	(void)unlink(path);
}

/* The done function of a call starts another call and waits for it, which is not allowed. */
struct nested {
	struct ask ask; /* must be the first member */
	struct pair *pair;
	struct lend_call inner;
	int rc;
};

static void call_inside(struct lend_call *call)
{
	struct nested *nested = (struct nested *)(void *)call;

	nested->rc = lend_call_sync(nested->pair->client, nested->pair->session, &nested->inner);
	nested->ask.done = true;
}

Test(rpc_refuse, calls_that_do_not_start__never_read_as_ok)
{
	struct nested nested = {.ask.call = {.method = SINK, .done = call_inside}, .pair = NULL};
	struct lend_call call;
	struct pair pair;

	pair_open(&pair, "shm");
	nested.pair = &pair;
	cr_assert_eq(lend_call_start(pair.client, pair.session, &nested.ask.call), 0);
	cr_assert(pair_until(&pair, &nested.ask.done));
	cr_assert_eq(nested.rc, -EDEADLK);
	cr_assert_eq(nested.inner.status, LEND_UNKNOWN);
	ask_give(pair.client, &nested.ask);
	for (int sync = 0; sync < 2; sync++) {
		int (*start)(struct lend_ep *, lend_session, struct lend_call *) =
		    sync ? lend_call_sync : lend_call_start;

		call = (struct lend_call){.method = ECHO};
		cr_assert_eq(start(pair.client, (lend_session){77}, &call), -ESTALE);
		cr_assert_eq(call.status, LEND_UNKNOWN);
		cr_assert_eq(call.ran, LEND_RAN_NO);
		call = (struct lend_call){.method = ECHO, .priority = 9};
		cr_assert_eq(start(pair.client, pair.session, &call), -EINVAL);
		cr_assert_eq(call.status, LEND_UNKNOWN);
		call = (struct lend_call){.method = ECHO, .parent = {99}};
		cr_assert_eq(start(pair.client, pair.session, &call), -ESTALE);
		cr_assert_eq(call.status, LEND_UNKNOWN);
	}
	pair_close(&pair);
}

/* A server that is not polled: its socket accepts, but the address is never resolved. */
Test(rpc_refuse, a_server_that_never_answers__is_given_up_after_config_dead)
{
	struct lend_config serves = LEND_CONFIG_INIT, config = serves;
	struct lend_call call = {.method = ECHO, .timeout = 60000000000};
	struct lend_ep *server, *ep;
	lend_session session;
	char address[64];

	(void)snprintf(address, sizeof(address), "shm:never.%d", (int)getpid());
	serves.listen = address;
	config.dead = 200000000;
	config.probe = 50000000;
	cr_assert_eq(lend_open(&serves, &server), 0, "%s", lend_why());
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
	cr_assert_eq(lend_call_sync(ep, session, &call), 0);
	cr_expect_eq(call.status, LEND_UNAVAILABLE);
	cr_expect_not_null(strstr(lend_why(), "running and polling"), "%s", lend_why());
	lend_close(ep);
	lend_close(server);
}
