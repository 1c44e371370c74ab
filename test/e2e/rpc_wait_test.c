/* Goal: an endpoint sleeps when there is nothing to do and wakes when there is, in a thread of its
 * own, with another one, in another event loop. Method: a server in a thread, a client here; every
 * wait is bounded by a call's timeout. Covers: src/rpc/sleep.c, src/rpc/loop.c,
 * src/rpc/adaptive_spin.h */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#include "e2e/rpc_server.h"

Test(rpc_wait, threads_sleep_and_wake)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct server server;
		struct lend_stats before, after;
		lend_session session;
		struct lend_ep *ep;

		server_start(&server, pair_schemes[s]);
		ep = client_of(server.address, &session);
		for (uint32_t i = 0; i < 200; i++)
			sync_echo(ep, session, ECHO, i * 97);
		sync_echo(ep, session, ECHO, 3 << 20);
		lend_stats_get(ep, &before);
		cr_assert_eq(lend_run(ep, lend_now(ep) + 500 * MS),
			     0); /* idle, with a session up */
		lend_stats_get(ep, &after);
		cr_assert_gt(after.sleeps, before.sleeps);
		cr_assert_leq(after.sleeps - before.sleeps, 10, "%llu wakes in half a second",
			      (unsigned long long)(after.sleeps - before.sleeps));
		sync_echo(ep, session, ECHO, 64); /* the server sleeps by now: it wakes */
		lend_close(ep);
		server_stop(&server);
	}
}

Test(rpc_wait, idle_without_sessions_never_wakes)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_stats stats;
	struct lend_ep *ep;
	char address[128];

	pair_address(address, sizeof(address), "shm");
	config.listen = address;
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_run(ep, lend_now(ep) + 300 * MS), 0);
	lend_stats_get(ep, &stats);
	cr_assert_leq(stats.sleeps, 2);
	lend_close(ep);
}

Test(rpc_wait, two_endpoints_in_one_thread)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair one, two;
		struct ask a = {.done = false}, b = {.done = false};

		pair_open(&one, pair_schemes[s]);
		pair_open(&two, pair_schemes[s]);
		for (int i = 0; i < 50; i++) {
			a.call = (struct lend_call){.method = ECHO, .done = ask_done};
			a.call.request = ask_bytes(one.client, 9000, 5);
			cr_assert_eq(lend_call_start(one.client, one.session, &a.call), 0);
			/* a buffer of one endpoint goes through another and back to its pool */
			b.call = (struct lend_call){.method = ECHO, .done = ask_done};
			b.call.request = ask_bytes(one.client, 70000, 6);
			cr_assert_eq(lend_call_start(two.client, two.session, &b.call), 0);
			while (!a.done || !b.done) {
				pair_turns(&one, 1);
				pair_turns(&two, 1);
			}
			cr_assert(ask_same(a.call.reply, 9000, 5) &&
				  ask_same(b.call.reply, 70000, 6));
			ask_give(one.client, &a);
			ask_give(two.client, &b);
		}
		pair_close(&one);
		pair_close(&two);
	}
}

static struct lend_ep *stopping;

static void on_alarm(int sig)
{
	(void)sig;
	lend_stop(stopping);
}

Test(rpc_wait, stop_in_a_signal_handler)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};

	cr_assert_eq(lend_open(&config, &stopping), 0);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	cr_assert_eq(lend_run(stopping, LEND_NEVER), 0);
	lend_stop(stopping);
	cr_assert_eq(lend_run(stopping, LEND_NEVER), 0, "a stop before the run counts");
	lend_close(stopping);
}

/* Runs turns until a time; returns the number of waits. */
static int waits_until(struct lend_ep *ep, lend_ns until)
{
	int n = 0;

	for (; lend_now(ep) < until; n++)
		cr_assert_eq(lend_wait(ep, until), 0);
	return n;
}

Test(rpc_wait, a_stop_ends_one_turn_and_one_run)
{
	struct lend_ep *ep;

	cr_assert_eq(lend_open(NULL, &ep), 0);
	lend_stop(ep);
	cr_assert_eq(lend_wait(ep, LEND_NEVER), 0, "a stop before the turn counts");
	cr_assert_leq(waits_until(ep, lend_now(ep) + 20 * MS), 2, "once");
	cr_assert_eq(lend_run(ep, LEND_NEVER), 0, "and for the run that comes");
	cr_assert_leq(waits_until(ep, lend_now(ep) + 20 * MS), 2, "once");
	lend_stop(ep);
	cr_assert_eq(lend_run(ep, LEND_NEVER), 0);
	cr_assert_leq(waits_until(ep, lend_now(ep) + 20 * MS), 2);
	lend_close(ep);
}

Test(rpc_wait, a_stop_is_one_reason_not_to_sleep_elsewhere)
{
	struct lend_ep *ep;

	cr_assert_eq(lend_open(NULL, &ep), 0);
	lend_stop(ep);
	cr_assert_not(lend_prepare_sleep(ep));
	cr_assert_geq(lend_poll(ep), 0);
	cr_assert(lend_prepare_sleep(ep));
	cr_assert_geq(lend_poll(ep), 0);
	lend_close(ep);
}

Test(rpc_wait, own_event_loop)
{
	struct server server;
	struct ask ask = {.call = {.method = ECHO, .done = ask_done}};
	lend_session session;
	struct lend_ep *ep;
	int polls = 0;

	server_start(&server, "shm");
	ep = client_of(server.address, &session);
	cr_assert_eq(lend_call_start(ep, session, &ask.call), 0);
	while (!ask.done) {
		struct pollfd fd = {.fd = lend_fd(ep), .events = POLLIN};

		if (lend_prepare_sleep(ep))
			cr_assert_geq(poll(&fd, 1, 5000), 0);
		cr_assert_geq(lend_poll(ep), 0);
		cr_assert_lt(++polls, 10000);
	}
	cr_assert_eq(ask.call.status, LEND_OK);
	ask_give(ep, &ask);
	lend_close(ep);
	server_stop(&server);
}
