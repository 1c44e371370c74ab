#include "e2e/rpc_server.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

#include "util/bits.h"

static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;
	struct lend_buf *out = lend_request_take(s->ep, request);

	(void)in;
	lend_reply(s->ep, request, LEND_OK, out);
}

/* Runs in a worker: forwards its bytes in a nested call and waits for it. */
static void serve_nested(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;
	struct lend_ep *own = lend_request_ep(s->ep, request);
	struct lend_call call = {.method = ECHO, .parent = request};
	lend_session session;

	(void)in;
	cr_assert_neq(own, s->ep);
	cr_assert_gt(lend_request_left(own, request), 0);
	cr_assert_eq(lend_request_priority(own, request), lend_request_priority(s->ep, request));
	cr_assert_eq(lend_connect(own, s->onward, &session), 0, "%s", lend_why());
	call.request = lend_request_take(s->ep, request);
	cr_assert_eq(lend_call_sync(own, session, &call), 0, "%s", lend_why());
	lend_buf_give(s->ep, call.request);
	if (call.status == LEND_CANCELLED)
		atomic_fetch_add(&s->cancelled, 1);
	lend_reply(s->ep, request, call.status, call.reply);
	lend_reply(s->ep, request, LEND_ABORTED,
		   lend_buf_take(s->ep, 10)); /* the second one has no effect */
	lend_disconnect(own, session);
}

static void serve_stuck(lend_request request, const struct lend_buf *in, void *arg)
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

void server_never(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)request, (void)in, (void)arg;
}

void server_serve(struct server *s)
{
	cr_assert_eq(lend_serve(s->ep, ECHO, serve_echo, s, 0), 0);
	cr_assert_eq(lend_serve(s->ep, SLOW_ECHO, serve_echo, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, NESTED, serve_nested, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, STUCK, serve_stuck, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->ep, HOLD, server_never, s, 0), 0);
}

static void *run_server(void *arg)
{
	struct server *s = arg;
	struct lend_config config = s->config;
	char address[128];

	pair_address(address, sizeof(address), s->scheme);
	config.listen = address;
	config.workers = 3;
	cr_assert_eq(lend_open(&config, &s->ep), 0, "%s", lend_why());
	lend_address(s->ep, s->address, sizeof(s->address));
	server_serve(s);
	pthread_barrier_wait(&s->ready);
	cr_assert_eq(lend_run(s->ep, LEND_NEVER), 0);
	lend_close(s->ep);
	return NULL;
}

void server_start(struct server *s, const char *scheme)
{
	struct lend_config config = LEND_CONFIG_INIT;

	server_start_with(s, scheme, &config);
}

void server_start_with(struct server *s, const char *scheme, const struct lend_config *config)
{
	memset(s, 0, sizeof(*s));
	s->scheme = scheme;
	s->config = *config;
	pthread_barrier_init(&s->ready, NULL, 2);
	cr_assert_eq(pthread_create(&s->thread, NULL, run_server, s), 0);
	pthread_barrier_wait(&s->ready);
}

void server_stop(struct server *s)
{
	lend_stop(s->ep);
	pthread_join(s->thread, NULL);
	pthread_barrier_destroy(&s->ready);
}

struct lend_ep *client_of(const char *address, lend_session *session)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, session), 0, "%s", lend_why());
	return ep;
}

void sync_echo(struct lend_ep *ep, lend_session session, uint32_t method, uint32_t len)
{
	struct lend_call call = {.method = method, .request = ask_bytes(ep, len, len)};

	cr_assert_eq(lend_call_sync(ep, session, &call), 0, "%s", lend_why());
	cr_assert_eq(call.status, LEND_OK, "method %u, %u bytes: status %d", method, len,
		     call.status);
	cr_assert(ask_same(call.reply, len, len));
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
}

static void echo_round(struct lend_ep *ep, lend_session session, uint32_t calls, uint32_t len)
{
	struct ask ask[16] = {{.done = false}};
	uint32_t i;

	for (i = 0; i < calls; i++) {
		ask[i].call = (struct lend_call){.method = ECHO, .done = ask_done};
		ask[i].call.request = ask_bytes(ep, len, i);
		cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0, "%s", lend_why());
	}
	for (i = 0; i < calls; i++) {
		while (!ask[i].done)
			cr_assert_geq(lend_wait(ep, lend_now(ep) + MS), 0);
		cr_assert_eq(ask[i].call.status, LEND_OK, "call %u of %u bytes: status %d", i, len,
			     ask[i].call.status);
		cr_assert(ask_same(ask[i].call.reply, len, i));
		ask_give(ep, &ask[i]);
	}
}

lend_ns slowest_echo(struct lend_ep *ep, lend_session session, uint32_t rounds, uint32_t calls,
		     uint32_t len)
{
	lend_ns most = 0;

	while (rounds-- > 0) {
		lend_ns began = lend_now(ep);

		echo_round(ep, session, calls, len);
		most = lend_max_u64(most, lend_now(ep) - began);
	}
	return most;
}
