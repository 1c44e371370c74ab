/* inproc_server - see inproc_server.h. */
#include "preload/inproc_server.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/channel.h"
#include "preload/queue.h"

struct server_queue {
	struct server_queue *next;
	grpc_completion_queue *queue;
};

static struct table servers = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local grpc_server_credentials *insecure;

/* Finds a server; makes its record at the first use. */
static struct server *server_of(grpc_server *server)
{
	struct server *s = table_find(&servers, server);

	if (s || !real_grpc()->active)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->server = server;
	table_put(&servers, server, &s->node);
	return s;
}

REPLACES grpc_server_credentials *grpc_insecure_server_credentials_create(void)
{
	insecure = real_grpc()->grpc_insecure_server_credentials_create();
	return insecure;
}

REPLACES void grpc_server_credentials_release(grpc_server_credentials *creds)
{
	if (creds == insecure)
		insecure = NULL;
	real_grpc()->grpc_server_credentials_release(creds);
}

REPLACES int grpc_server_add_http2_port(grpc_server *server, const char *address,
					grpc_server_credentials *creds)
{
	bool plain = creds && creds == insecure;
	int port = real_grpc()->grpc_server_add_http2_port(server, address, creds);
	struct server *s = port > 0 && plain ? server_of(server) : NULL;
	char host[256];
	unsigned asked;
	size_t len;

	if (!s)
		return port;
	if (!strncmp(address, "[::]:", 5) || !channel_split(address, host, sizeof(host), &asked))
		strcpy(host, "0.0.0.0");
	len = strlen(s->listen);
	(void)snprintf(s->listen + len, sizeof(s->listen) - len, "%sshm:grpc-%d,udp:%s:%d",
		       len ? "," : "", port, host, port);
	return port;
}

REPLACES void grpc_server_register_completion_queue(grpc_server *server,
						    grpc_completion_queue *queue, void *reserved)
{
	struct server *s = server_of(server);
	struct server_queue *q = s ? malloc(sizeof(*q)) : NULL;

	if (q) {
		*q = (struct server_queue){.next = s->queues, .queue = queue};
		s->queues = q;
	}
	real_grpc()->grpc_server_register_completion_queue(server, queue, reserved);
}

/* The threads that wait in the server's queues run the endpoint's turns. */
static void set_serving(struct server *s, struct engine *engine)
{
	pthread_mutex_lock(&engine_lock);
	for (struct server_queue *at = s->queues; at; at = at->next) {
		struct queue *q = queue_find(at->queue);

		if (q && q->kind == GRPC_CQ_NEXT)
			q->serves = engine;
	}
	pthread_mutex_unlock(&engine_lock);
}

static void ignore_shutdown(grpc_completion_queue_functor *functor, int ok)
{
	(void)functor;
	(void)ok;
}

static grpc_completion_queue_functor on_shutdown = {.functor_run = ignore_shutdown};

/* Returns a channel to a server of this process; NULL: this gRPC has none. */
static grpc_channel *connect_inside(grpc_server *server)
{
	/* The client limits replies. */
	static char limit[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
	grpc_arg any = {.type = GRPC_ARG_INTEGER, .key = limit, .value.integer = -1};
	const grpc_channel_args args = {.num_args = 1, .args = &any};
	grpc_channel *(*create)(grpc_server *, const grpc_channel_args *, void *);
	void *at = dlsym(RTLD_DEFAULT, REAL_INPROC_CREATE);

	memcpy(&create, &at, sizeof(at));
	return create ? create(server, &args, NULL) : NULL;
}

/* Opens the endpoint; without a port of its own it still serves processes of this host. */
static int open_endpoint(struct server *s)
{
	char *udp = strstr(s->listen, ",udp:");
	int rc = engine_open(&s->engine, s->listen);

	if (rc < 0 && udp) {
		*udp = 0;
		rc = engine_open(&s->engine, s->listen);
	}
	return rc;
}

static void open_server(struct server *s)
{
	struct lend_ep *ep;

	s->channel = connect_inside(s->server);
	if (!s->channel)
		return;
	if (open_endpoint(s) < 0) {
		fprintf(stderr, "lend grpc-run: %s: calls use HTTP/2\n", lend_why());
		real_grpc()->grpc_channel_destroy(s->channel);
		return;
	}
	ep = s->engine.ep;
	s->queue = real_grpc()->grpc_completion_queue_create_for_callback(&on_shutdown, NULL);
	engine_enter(&s->engine);
	if (lend_serve_any(ep, relay_call, s, LEND_CHAIN) == 0 &&
	    lend_serve_stream_any(ep, relay_stream, s, 0) == 0)
		s->open = true;
	engine_leave(&s->engine);
	set_serving(s, &s->engine);
}

REPLACES void grpc_server_start(grpc_server *server)
{
	struct server *s = server_of(server);

	real_grpc()->grpc_server_start(server);
	if (s && s->listen[0])
		open_server(s);
}

/* gRPC ends a shutdown when its calls have ended; those of relays are about to be. */
static void close_server(struct server *s)
{
	if (!s->open)
		return;
	set_serving(s, NULL);
	engine_enter(&s->engine);
	while (s->engine.owed)
		engine_sleep(&s->engine, LEND_NEVER);
	engine_leave(&s->engine);
	engine_close(&s->engine);
	real_grpc()->grpc_channel_destroy(s->channel);
	real_grpc()->grpc_completion_queue_destroy(s->queue);
}

REPLACES void grpc_server_shutdown_and_notify(grpc_server *server, grpc_completion_queue *queue,
					      void *tag)
{
	struct server *s = table_find(&servers, server);

	if (s)
		__atomic_store_n(&s->closing, true, __ATOMIC_RELAXED);
	real_grpc()->grpc_server_shutdown_and_notify(server, queue, tag);
}

REPLACES void grpc_server_destroy(grpc_server *server)
{
	struct server *s = table_remove(&servers, server);
	struct server_queue *next;

	if (s)
		close_server(s);
	for (struct server_queue *q = s ? s->queues : NULL; q; q = next) {
		next = q->next;
		free(q);
	}
	free(s);
	real_grpc()->grpc_server_destroy(server);
}
