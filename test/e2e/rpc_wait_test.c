/* Goal: an endpoint sleeps when there is nothing to do and wakes when there is, slow handlers do
 * not hold others up, and the death of a process is noticed. Method: a server in a thread or
 * process of its own, a client here; every wait is bounded by a call's timeout. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"

static const char *const schemes[] = {"shm", "udp"};
enum { SCHEMES = 2, MS = 1000000 };

struct server {
	pthread_t thread;
	struct lend_ep *ep;
	char address[128];
	const char *scheme;
	char onward[128]; /* NESTED calls there */
	pthread_barrier_t ready;
	atomic_int in_slow, cancelled;
	atomic_bool let_go;
	struct lend_stats stats;
};
enum { NESTED = 20, STUCK = 21, LATE = 22 };

static void echo(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;
	struct lend_buf *out = lend_request_take(s->ep, request);

	(void)in;
	lend_reply(s->ep, request, LEND_OK, out);
}

/* Runs in a worker: waits for a call of its own, forwarding the bytes. */
static void nest(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;
	struct lend_ep *own = lend_request_ep(s->ep, request);
	struct lend_call call = {.method = ECHO, .parent = request};
	lend_session session;

	(void)in;
	cr_assert_neq(own, s->ep);
	cr_assert_eq(lend_connect(own, s->onward, &session), 0, "%s", lend_why());
	call.request = lend_request_take(s->ep, request);
	cr_assert_eq(lend_call_sync(own, session, &call), 0, "%s", lend_why());
	lend_buf_give(s->ep, call.request);
	if (call.status == LEND_CANCELLED)
		atomic_fetch_add(&s->cancelled, 1);
	lend_reply(s->ep, request, call.status, call.reply);
	lend_reply(s->ep, request, LEND_ABORTED,
		   lend_buf_take(s->ep, 10)); /* the second does no harm */
	lend_disconnect(own, session);
}

static void stuck(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;
	struct lend_buf *out = lend_buf_take(s->ep, in->len);

	atomic_fetch_add(&s->in_slow, 1);
	while (!atomic_load(&s->let_go) && !lend_request_cancelled(s->ep, request))
		sched_yield();
	if (lend_request_cancelled(s->ep, request))
		atomic_fetch_add(&s->cancelled, 1);
	memcpy(out->data, in->data, in->len);
	out->len = in->len;
	lend_reply(s->ep, request, LEND_OK, out);
}

static void never(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)request;
	(void)in;
	(void)arg;
}

static void serve_all(struct server *s)
{
	cr_assert_eq(lend_serve(s->ep, ECHO, echo, s, 0), 0);
	cr_assert_eq(lend_serve(s->ep, SLOW_ECHO, echo, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, NESTED, nest, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, STUCK, stuck, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, HOLD, never, s, 0), 0);
}

static void *serve(void *arg)
{
	struct server *s = arg;
	struct lend_config config = LEND_CONFIG_INIT;
	char address[128];

	pair_address(address, sizeof(address), s->scheme);
	config.listen = address;
	config.workers = 3;
	cr_assert_eq(lend_open(&config, &s->ep), 0, "%s", lend_why());
	lend_address(s->ep, s->address, sizeof(s->address));
	serve_all(s);
	pthread_barrier_wait(&s->ready);
	cr_assert_eq(lend_run(s->ep, LEND_NEVER), 0);
	lend_stats(s->ep, &s->stats);
	lend_close(s->ep);
	return NULL;
}

static void server_start(struct server *s, const char *scheme)
{
	memset(s, 0, sizeof(*s));
	s->scheme = scheme;
	pthread_barrier_init(&s->ready, NULL, 2);
	cr_assert_eq(pthread_create(&s->thread, NULL, serve, s), 0);
	pthread_barrier_wait(&s->ready);
}

static void server_stop(struct server *s)
{
	lend_stop(s->ep);
	pthread_join(s->thread, NULL);
	pthread_barrier_destroy(&s->ready);
}

static struct lend_ep *client_of(const char *address, lend_session *session)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, session), 0, "%s", lend_why());
	return ep;
}

static void sync_echo(struct lend_ep *ep, lend_session session, uint32_t method, uint32_t len)
{
	struct lend_call call = {.method = method, .request = ask_bytes(ep, len, len)};

	cr_assert_eq(lend_call_sync(ep, session, &call), 0, "%s", lend_why());
	cr_assert_eq(call.status, LEND_OK, "method %u, %u bytes: status %d", method, len,
		     call.status);
	cr_assert(ask_same(call.reply, len, len));
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
}

Test(rpc_wait, threads_sleep_and_wake)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct server server;
		struct lend_stats before, after;
		lend_session session;
		struct lend_ep *ep;

		server_start(&server, schemes[s]);
		ep = client_of(server.address, &session);
		for (uint32_t i = 0; i < 200; i++)
			sync_echo(ep, session, ECHO, i * 97);
		sync_echo(ep, session, ECHO, 3 << 20);
		lend_stats(ep, &before);
		cr_assert_eq(lend_run(ep, lend_now(ep) + 500 * MS),
			     0); /* idle, with a session up */
		lend_stats(ep, &after);
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
	lend_stats(ep, &stats);
	cr_assert_leq(stats.sleeps, 2);
	lend_close(ep);
}

Test(rpc_wait, slow_handlers)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask[2];
		struct server server;
		lend_session session;
		struct lend_ep *ep;

		server_start(&server, schemes[s]);
		strcpy(server.onward, server.address);
		ep = client_of(server.address, &session);
		for (int i = 0; i < 2; i++) {
			ask[i] = (struct ask){.call = {.method = STUCK, .done = ask_done}};
			ask[i].call.request = ask_bytes(ep, 1000, (uint32_t)i);
			cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0);
		}
		while (atomic_load(&server.in_slow) < 2)
			cr_assert_geq(lend_poll(ep), 0);
		sync_echo(ep, session, ECHO, 5000); /* fast ones pass by */
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
			cr_assert_geq(lend_turn(ep, lend_now(ep) + 100 * MS), 0);
		cr_assert_eq(ask[1].call.status, LEND_OK);
		cr_assert(ask_same(ask[1].call.reply, 1000, 1));
		for (int i = 0; i < 2; i++)
			ask_give(ep, &ask[i]);
		lend_close(ep);
		server_stop(&server);
	}
}

/* The client cancels; the worker that waits for a call of its own hears of it. */
Test(rpc_wait, cancel_reaches_a_waiting_worker)
{
	struct server server, deaf;
	struct ask ask = {.call = {.method = NESTED, .done = ask_done}};
	lend_session session;
	struct lend_ep *ep;
	lend_ns end;

	server_start(&deaf, "shm");
	lend_stop(deaf.ep);
	pthread_join(deaf.thread,
		     NULL); /* its name is gone: another takes its part, and never answers */
	server_start(&server, "shm");
	{
		struct pair quiet;

		pair_open(&quiet, "shm");
		lend_serve(quiet.server, ECHO, never, NULL, 0);
		strcpy(server.onward, quiet.address);
		ep = client_of(server.address, &session);
		cr_assert_eq(lend_call_start(ep, session, &ask.call), 0);
		end = lend_now(ep) + 300 * MS;
		while (lend_now(ep) < end) {
			lend_poll(ep);
			pair_turns(&quiet, 1);
		}
		lend_call_cancel(ep, &ask.call);
		end = lend_now(ep) + 3000ull * MS;
		while ((!ask.done || !atomic_load(&server.cancelled)) && lend_now(ep) < end) {
			lend_poll(ep);
			pair_turns(&quiet, 1);
		}
		cr_assert_eq(atomic_load(&server.cancelled), 1);
		ask_give(ep, &ask);
		lend_close(ep);
		server_stop(&server);
		pair_close(&quiet);
	}
	pthread_barrier_destroy(&deaf.ready);
}

Test(rpc_wait, two_endpoints_in_one_thread)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair one, two;
		struct ask a = {.done = false}, b = {.done = false};

		pair_open(&one, schemes[s]);
		pair_open(&two, schemes[s]);
		for (int i = 0; i < 50; i++) {
			a.call = (struct lend_call){.method = ECHO, .done = ask_done};
			a.call.request = ask_bytes(one.client, 9000, 5);
			cr_assert_eq(lend_call_start(one.client, one.session, &a.call), 0);
			/* a buffer of one endpoint travels through another and comes home */
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

		if (lend_arm(ep))
			cr_assert_geq(poll(&fd, 1, 5000), 0);
		cr_assert_geq(lend_poll(ep), 0);
		cr_assert_lt(++polls, 10000);
	}
	cr_assert_eq(ask.call.status, LEND_OK);
	ask_give(ep, &ask);
	lend_close(ep);
	server_stop(&server);
}

/* A server in a process of its own; the pipe carries its address. */
static pid_t server_process(const char *scheme, char *address, size_t cap)
{
	int ends[2];
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct server s = {.scheme = scheme};

		pair_address(address, cap, scheme);
		config.listen = address;
		if (lend_open(&config, &s.ep) < 0 || lend_address(s.ep, address, cap) < 0)
			_exit(1);
		serve_all(&s);
		(void)!write(ends[1], address, cap);
		lend_run(s.ep, LEND_NEVER);
		_exit(0);
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], address, cap), (ssize_t)cap);
	close(ends[0]);
	return pid;
}

Test(rpc_wait, killed_server)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_config config = LEND_CONFIG_INIT;
		char address[128];
		pid_t pid = server_process(schemes[s], address, sizeof(address));
		struct ask ask = {
		    .call = {.method = HOLD, .timeout = 20000ull * MS, .done = ask_done}};
		lend_session session;
		struct lend_ep *ep;
		lend_ns killed;

		config.probe = 50 * MS;
		config.dead = 400 * MS;
		cr_assert_eq(lend_open(&config, &ep), 0);
		cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
		sync_echo(ep, session, ECHO, 10000);
		cr_assert_eq(lend_call_start(ep, session, &ask.call), 0);
		sync_echo(ep, session, ECHO, 10);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		killed = lend_now(ep);
		while (!ask.done && lend_now(ep) < killed + 10000ull * MS)
			cr_assert_geq(lend_turn(ep, lend_now(ep) + 100 * MS), 0);
		cr_assert(ask.done);
		cr_assert_eq(ask.call.status, LEND_UNAVAILABLE);
		cr_assert_eq(ask.call.ran, LEND_RAN_MAYBE);
		cr_assert_lt(lend_now(ep) - killed, 2000ull * MS);
		ask_give(ep, &ask);
		ask.call.method = ECHO;
		cr_assert_eq(lend_call_start(ep, session, &ask.call), -ESTALE);
		lend_close(ep);
	}
}

Test(rpc_wait, a_forks_child_leaves_the_endpoint_alone)
{
	struct server server;
	lend_session session;
	struct lend_ep *ep;
	int status;
	pid_t pid;

	server_start(&server, "shm");
	ep = client_of(server.address, &session);
	sync_echo(ep, session, ECHO, 100);
	pid = fork();
	if (pid == 0) {
		struct lend_call call = {.method = ECHO};
		bool right =
		    lend_poll(ep) == -EPERM && lend_call_sync(ep, session, &call) == -EPERM;

		lend_close(ep);
		_exit(right ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	sync_echo(ep, session, ECHO, 100);
	lend_close(ep);
	server_stop(&server);
}
