/* inproc_server - servers of the program, which an endpoint of Lend serves, too.
 *
 * The endpoint listens on shm:grpc-P and udp:HOST:P for each plain port P, takes calls and streams
 * of any name, and enters the server by gRPC's in-process transport. inproc_relay.c has the calls.
 * Layer: preload. Threads: any. */
#ifndef LEND_PRELOAD_INPROC_SERVER_H
#define LEND_PRELOAD_INPROC_SERVER_H

#include "lend/stream.h"
#include "preload/slices.h"
#include "preload/engine.h"
#include "preload/real.h"
#include "preload/records.h"

enum { SERVER_LISTEN_MAX = 1024 };

struct server {
	struct table_node node;
	struct engine engine;
	bool open, closing;      /* the endpoint is open; the program shuts the server down */
	struct relay *calls;     /* calls that are not answered */
	struct lend_alarm alarm; /* looks for calls that were cancelled */
	bool alarmed;
	grpc_server *server;
	grpc_channel *channel;        /* in this process */
	grpc_completion_queue *queue; /* callbacks of its calls */
	struct server_queue *queues;
	char listen[SERVER_LISTEN_MAX];
};

/* Inside engine_enter() or a turn: looks at the calls in a while. */
static inline void server_look_later(struct server *s, void (*look)(struct lend_alarm *))
{
	if (s->alarmed)
		return;
	s->alarmed = true;
	s->alarm.ring = look;
	lend_alarm_set(s->engine.ep, &s->alarm, lend_now(s->engine.ep) + 10000000);
}

/* inproc_relay.c: a call, or a stream, of any name. */
void relay_call(lend_request request, const struct lend_buf *bytes, void *server);
void relay_stream(lend_request request, void *server);

#endif
