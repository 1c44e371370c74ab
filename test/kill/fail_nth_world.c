#include "kill/fail_nth_world.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kill/fail_nth_node.h"
#include "lend/mem.h"
#include "sys/last_error.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { ECHO = 1, SLOW = 2, LONG = 200000 };

struct part {
	struct nth_world *world;
	struct lend_ep *server, *client;
	struct nth_node *node;
	struct lend_mem *mem;
	lend_session session;
	char address[128];
	bool done, stuck;   /* stuck: an operation did not end; no further one is started */
	atomic_bool leaves; /* the server's thread */
};

/* A timeout: short where a call fails permanently, long where a delay can only mean a slow
 * machine. */
static lend_ns patience(const struct part *p, lend_ns ms)
{
	return p->world->strict ? 10 * SECOND : ms * MS;
}

void nth_wrong(struct nth_world *w, const char *format, ...)
{
	va_list args;

	if (w->why[0])
		return;
	va_start(args, format);
	(void)vsnprintf(w->why, sizeof(w->why), format, args);
	va_end(args);
}

/* True: rc is 0. A failure must have an error text with its cause and remedy. */
static bool went(struct part *p, const char *what, int rc)
{
	const char *why = lend_why();

	if (rc >= 0)
		return true;
	if (p->world->strict)
		nth_wrong(p->world, "%s: %d, %s", what, rc, why);
	else if (rc < -4095 || !why[0] || (!strchr(why, ':') && !strchr(why, ';')))
		nth_wrong(p->world, "%s: %d without an error text with a remedy: \"%s\"", what, rc,
			  why);
	return false;
}

static bool status_is_fair(struct part *p, const char *what, enum lend_status status)
{
	if (status == LEND_OK)
		return true;
	if (p->world->strict || (status != LEND_UNAVAILABLE && status != LEND_RESOURCE_EXHAUSTED &&
				 status != LEND_DEADLINE_EXCEEDED && status != LEND_ABORTED))
		nth_wrong(p->world, "%s ended with status %d", what, status);
	return false;
}

static bool turns(struct part *p, const char *what)
{
	lend_ns until = lend_now(p->client) + patience(p, 4000);

	while (!p->done && lend_now(p->client) < until && lend_wait(p->client, until) >= 0)
		continue;
	p->stuck = !p->done;
	if (p->stuck)
		nth_wrong(p->world, "%s did not end", what);
	return p->done;
}

static struct part *waiting;
static void call_done(struct lend_call *call)
{
	(void)call;
	waiting->done = true;
}

static void op_done(struct lend_op *op)
{
	(void)op;
	waiting->done = true;
}

static void echo(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct part *p = arg;
	struct lend_buf *out = lend_request_take(p->server, request);

	(void)bytes;
	(void)lend_reply(p->server, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

/* Answers from a worker. A cancelled request is no longer waited for. */
static void answer(struct part *p, lend_request request, enum lend_status status)
{
	int rc = lend_reply(p->server, request, status, lend_request_take(p->server, request));

	if (rc == -ENOMEM)
		rc = lend_reply(p->server, request, LEND_RESOURCE_EXHAUSTED, NULL);
	if (rc == -ESTALE && !lend_request_cancelled(p->server, request))
		nth_wrong(p->world, "a reply was lost");
}

/* In a worker: forwards its request to its own server, through the worker's endpoint. */
static void slow(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct part *p = arg;
	struct lend_ep *own = lend_request_ep(p->server, request);
	struct lend_call call = {.method = ECHO, .parent = request};
	enum lend_status status = LEND_RESOURCE_EXHAUSTED;
	lend_session session;

	(void)bytes;
	if (own && lend_connect(own, p->address, &session) == 0) {
		call.reply = lend_buf_take(own, 100);
		if (lend_call_sync(own, session, &call) == 0)
			status = call.status;
		lend_buf_give(own, call.reply);
		lend_disconnect(own, session);
	}
	answer(p, request, status);
}

static void call(struct part *p, uint32_t method, uint32_t len)
{
	static struct lend_call call;
	int rc;

	call = (struct lend_call){.method = method, .timeout = patience(p, 300), .done = call_done};
	(void)lend_fail(1, "%s", "");
	call.request = lend_buf_take(p->client, len);
	if (!call.request) {
		(void)went(p, "lend_buf_take", -ENOMEM);
		return;
	}
	call.request->len = len;
	memset(call.request->data, 0x5a, len);
	p->done = false;
	rc = lend_call_start(p->client, p->session, &call);
	if (went(p, "lend_call_start", rc) && turns(p, "call") &&
	    status_is_fair(p, "call", call.status) && call.reply_len != len)
		nth_wrong(p->world, "a reply of %llu bytes", (unsigned long long)call.reply_len);
	if (p->stuck)
		return;
	lend_buf_give(p->client, call.request);
	lend_buf_give(p->client, call.reply);
}

static bool op(struct part *p, const char *what, struct lend_op *o, int rc)
{
	return went(p, what, rc) && turns(p, what) && status_is_fair(p, what, o->status);
}

/* Called before the operation begins, because it may end at once. */
static void fresh(struct part *p, struct lend_op *o)
{
	*o = (struct lend_op){.timeout = patience(p, 400), .done = op_done};
	p->done = false;
	(void)lend_fail(1, "%s", "");
}
#define OP(p, what, o, start) (fresh(p, o), op(p, what, o, start))

/* Parts of one history; each ends it when it cannot continue. */
static void change(struct part *p, const struct lend_ref *ref, uint32_t len)
{
	static uint8_t bytes[9000];
	static struct lend_op o;
	struct iovec iov = {bytes, sizeof(bytes) < len ? sizeof(bytes) : len};
	lend_space space;

	if (!OP(p, "map", &o, lend_space_map(p->mem, ref, &space, &o)))
		return;
	(void)OP(p, "write", &o, lend_space_write(p->mem, space, 0, &iov, 1, &o));
	if (!p->stuck && OP(p, "seal", &o, lend_space_seal(p->mem, space, 0, len, NULL, &o))) {
		static struct lend_ref both[2];

		both[0] = o.ref;
		both[1] = *ref;
		(void)OP(p, "release", &o, lend_release(p->mem, both, 2, &o));
	}
	if (!p->stuck)
		(void)OP(p, "free", &o, lend_space_free(p->mem, space, &o));
}

static void memory(struct part *p, uint32_t len)
{
	static uint8_t bytes[LONG], back[LONG];
	static struct lend_op o;
	static struct iovec iov, into;
	struct lend_ref ref;

	iov = (struct iovec){bytes, len};
	into = (struct iovec){back, len};
	memset(bytes, 0x33, len);
	if (!OP(p, "put", &o, lend_put(p->mem, &iov, 1, NULL, &o)))
		return;
	ref = o.ref;
	memset(back, 0, len);
	if (OP(p, "get", &o, lend_get(p->mem, &ref, 0, &into, 1, &o)) && memcmp(bytes, back, len))
		nth_wrong(p->world, "get: wrong bytes");
	if (!p->stuck)
		change(p, &ref, len);
}

/* Copied, wrapped and lent arguments; the reply is the request itself. */
static void arguments(struct part *p)
{
	static uint8_t bytes[LONG];
	static const struct iovec arg[] = {{bytes, 100}, {bytes, 20000}, {bytes, LONG}};
	static struct lend_call call;
	uint32_t cursor = 0;
	struct lend_arg a;
	int rc, n = 0;

	call = (struct lend_call){.method = ECHO, .timeout = patience(p, 400), .done = call_done};
	lend_args_threshold_set(p->mem, 30000);
	(void)lend_fail(1, "%s", "");
	p->done = false;
	rc = lend_call_start_args(p->mem, p->session, &call, arg, 3);
	if (!went(p, "lend_call_start_args", rc) || !turns(p, "call with arguments"))
		return;
	while (lend_arg_next(call.reply, &cursor, &a) > 0)
		n += a.len == arg[n].iov_len;
	if (status_is_fair(p, "call with arguments", call.status) && n != 3)
		nth_wrong(p->world, "%d of 3 arguments came back", n);
	lend_buf_give(p->client, call.request);
	lend_buf_give(p->client, call.reply);
}

static void live(struct part *p)
{
	(void)lend_fail(1, "%s", "");
	if (!went(p, "lend_connect", lend_connect(p->client, p->address, &p->session)))
		return;
	call(p, ECHO, 100);
	if (!p->stuck)
		call(p, SLOW, 100);
	if (!p->stuck)
		call(p, ECHO, LONG);
	(void)lend_fail(1, "%s", "");
	if (p->stuck || !went(p, "lend_mem_open", lend_mem_open(p->client, p->address, &p->mem)))
		return;
	memory(p, 5000);
	if (!p->stuck)
		memory(p, LONG);
	if (!p->stuck)
		arguments(p);
}

static bool start(struct part *p)
{
	struct lend_config config = LEND_CONFIG_INIT, listen = config;
	static unsigned count;
	int rc;

	if (!strcmp(p->world->scheme, "shm"))
		(void)snprintf(p->address, sizeof(p->address), "shm:nth%d-%u", (int)getpid(),
			       count++);
	else
		(void)snprintf(p->address, sizeof(p->address), "udp:127.0.0.1:0");
	config.sessions = listen.sessions = 8;
	config.probe = listen.probe = 50 * MS;
	config.dead = listen.dead = patience(p, 300);
	listen.listen = p->address;
	(void)lend_fail(1, "%s", "");
	rc = lend_open(&listen, &p->server);
	if (rc == 0)
		rc = lend_address(p->server, p->address, sizeof(p->address));
	if (rc == 0)
		rc = lend_serve(p->server, ECHO, echo, p, 0);
	if (rc == 0)
		rc = lend_serve(p->server, SLOW, slow, p, LEND_SLOW);
	if (rc == 0)
		rc = nth_node_open(p->server, &p->node);
	if (rc == 0)
		rc = lend_open(&config, &p->client);
	return went(p, "start", rc);
}

static void *serve(void *arg)
{
	struct part *p = arg;

	while (!atomic_load(&p->leaves) && nth_node_turn(p->node, p->server) >= 0)
		continue;
	return NULL;
}

/* This thread belongs to the test: its creation must not fail. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

/* The client is gone: what the server keeps for it goes with its sessions. */
static void settle(struct part *p)
{
	lend_ns until = lend_now(p->server) + 3 * SECOND;

	while (!nth_node_idle(p->node) && lend_now(p->server) < until)
		(void)lend_wait(p->server, lend_now(p->server) + MS);
	if (!nth_node_idle(p->node))
		nth_wrong(p->world, "the node keeps pages for finished messages");
}

static void with_server(struct part *p)
{
	pthread_t thread;

	if (__real_pthread_create(&thread, NULL, serve, p)) {
		nth_wrong(p->world, "no thread for the server");
		return;
	}
	live(p);
	lend_mem_close(p->mem);
	lend_close(p->client);
	atomic_store(&p->leaves, true);
	lend_stop(p->server);
	(void)pthread_join(thread, NULL);
	p->client = NULL;
	settle(p);
}

static void finish(struct part *p)
{
	const char *bad;

	lend_close(p->client);
	lend_close(p->server);
	bad = nth_node_close(p->node, p->world->strict);
	if (bad)
		nth_wrong(p->world, "%s", bad);
}

void nth_world_run(struct nth_world *world)
{
	struct part part = {.world = world};

	waiting = &part;
	if (start(&part))
		with_server(&part);
	finish(&part);
}
