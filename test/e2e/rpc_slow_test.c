/* Goal: slow handlers do not delay other requests, may make nested calls, and are notified of a
 * cancel. Method: a server in a thread with three workers; handlers that block until they are
 * released. Covers: src/rpc/worker.c, src/rpc/nested_calls.c, src/rpc/server.c */
#include <criterion/criterion.h>
#include <string.h>

#include "e2e/rpc_server.h"

enum { WORKERS = 3 }; /* of the server */

Test(rpc_slow, slow_handlers)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask[2];
		struct server server;
		lend_session session;
		struct lend_ep *ep;

		server_start(&server, pair_schemes[s]);
		strcpy(server.onward, server.address);
		ep = client_of(server.address, &session);
		for (int i = 0; i < 2; i++) {
			ask[i] = (struct ask){.call = {.method = STUCK, .done = ask_done}};
			ask[i].call.request = ask_bytes(ep, 1000, (uint32_t)i);
			cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0);
		}
		while (atomic_load(&server.in_slow) < 2)
			cr_assert_geq(lend_poll(ep), 0);
		sync_echo(ep, session, ECHO, 5000); /* fast ones are not blocked */
		sync_echo(ep, session, SLOW_ECHO, 5000);
		sync_echo(ep, session, SLOW_ECHO, 500000);
		sync_echo(ep, session, NESTED, 500);
		sync_echo(ep, session, NESTED, 200000);
		lend_call_cancel(ep, &ask[0].call);
		while (!ask[0].done || atomic_load(&server.cancelled) == 0)
			cr_assert_geq(lend_poll(ep), 0);
		cr_assert_eq(ask[0].call.status, LEND_CANCELLED);
		atomic_store(&server.let_go, true);
		while (!ask[1].done)
			cr_assert_geq(lend_wait(ep, lend_now(ep) + 100 * MS), 0);
		cr_assert_eq(ask[1].call.status, LEND_OK);
		cr_assert(ask_same(ask[1].call.reply, 1000, 1));
		for (int i = 0; i < 2; i++)
			ask_give(ep, &ask[i]);
		lend_close(ep);
		server_stop(&server);
	}
}

/* All workers are busy when the last call's deadline passes: its handler does not run any more. The
 * echo behind it shows that a worker has come by. */
Test(rpc_slow, a_call_that_expires_before_a_worker_is_free_does_not_run)
{
	struct ask ask[WORKERS + 1];
	struct server server;
	lend_session session;
	struct lend_ep *ep;

	server_start(&server, "shm");
	ep = client_of(server.address, &session);
	for (int i = 0; i <= WORKERS; i++) {
		ask[i] = (struct ask){.call = {.method = STUCK, .done = ask_done}};
		ask[i].call.timeout = i < WORKERS ? LEND_NEVER : 20 * MS;
		ask[i].call.request = ask_bytes(ep, 1000, (uint32_t)i);
		cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0);
		while (i < WORKERS && atomic_load(&server.in_slow) <= i)
			cr_assert_geq(lend_poll(ep), 0);
	}
	while (!ask[WORKERS].done)
		cr_assert_geq(lend_wait(ep, lend_now(ep) + 100 * MS), 0);
	cr_assert_eq(ask[WORKERS].call.status, LEND_DEADLINE_EXCEEDED);
	sync_echo(ep, session, ECHO, 64); /* the server has the CANCEL before it */
	atomic_store(&server.let_go, true);
	sync_echo(ep, session, SLOW_ECHO, 5000);
	cr_assert_eq(atomic_load(&server.in_slow), WORKERS);
	for (int i = 0; i <= WORKERS; i++) {
		while (!ask[i].done)
			cr_assert_geq(lend_wait(ep, lend_now(ep) + 100 * MS), 0);
		ask_give(ep, &ask[i]);
	}
	lend_close(ep);
	server_stop(&server);
}

static void count_request(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)request, (void)in;
	++*(int *)arg;
}

/* The client cancels all its calls; each worker that waits for a nested call is notified. */
Test(rpc_slow, cancel_reaches_all_waiting_workers)
{
	struct server server;
	struct ask ask[WORKERS];
	struct pair quiet;
	lend_session session;
	struct lend_ep *ep;
	int asked = 0;
	lend_ns end;

	server_start(&server, "shm");
	pair_open(&quiet, "shm");
	lend_serve(quiet.server, ECHO, count_request, &asked, 0);
	strcpy(server.onward, quiet.address);
	ep = client_of(server.address, &session);
	for (int i = 0; i < WORKERS; i++) {
		ask[i] = (struct ask){.call = {.method = NESTED, .done = ask_done}};
		cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0);
	}
	/* Wait, or a call would be cancelled before its handler ran. */
	while (asked < WORKERS && !ask[0].done) {
		lend_poll(ep);
		pair_turns(&quiet, 1);
	}
	for (int i = 0; i < WORKERS; i++)
		lend_call_cancel(ep, &ask[i].call);
	end = lend_now(ep) + 3000ull * MS;
	while (atomic_load(&server.cancelled) < WORKERS && lend_now(ep) < end) {
		lend_poll(ep);
		pair_turns(&quiet, 1);
	}
	cr_assert_eq(atomic_load(&server.cancelled), WORKERS);
	for (int i = 0; i < WORKERS; i++)
		ask_give(ep, &ask[i]);
	lend_close(ep);
	server_stop(&server);
	pair_close(&quiet);
}
