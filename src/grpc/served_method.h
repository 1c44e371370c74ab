/* served_method - a method of a .proto service that an endpoint serves, and what answers it.
 *
 *   unary_server.c   services, and their unary methods    stream_server.c  streaming methods
 *
 * Layer: grpc. Threads: the endpoint's, unless a function states otherwise. */
#ifndef LEND_GRPC_SERVED_METHOD_H
#define LEND_GRPC_SERVED_METHOD_H

#include "grpc/message_buffers.h"

/* The first bytes of every closure_data. */
struct lend_pb_answer {
	struct lend_ep *ep;
	lend_request request;
	const struct lend_reply_head *head; /* goes before the reply; NULL: none */
	bool streams;                       /* it is a struct lend_pb_stream */
};

struct served_method {
	struct lend_ep *ep;
	ProtobufCService *service;
	struct lend_mem *mem; /* for requests of arguments; NULL: of one message */
	bool slow;            /* its function runs in worker threads */
	enum lend_pb_kind kind;
	unsigned index;
	uint32_t number;
	const struct lend_pb_table *input, *output;
	uint32_t packed;            /* see lend_pb_sending */
	struct lend_pb_heap memory; /* decoded requests */
	struct lend_pb_heap tables;
	struct pending *idle;
	struct lend_pb_stream *streams; /* open, or not answered */
	struct served_method *next;     /* next method of any endpoint */
	char path[LEND_PB_PATH_MAX];
};

/* Serves all methods of a service; with a client of memory nodes, those with requests of arguments.
 * kinds NULL: all are unary. Returns 0, or an error of lend_pb_serve(). */
int lend_pb_serve_methods(struct lend_ep *ep, ProtobufCService *service, struct lend_mem *mem,
			  const enum lend_pb_kind *kinds);
/* Handles a stream that a client opened. method: a struct served_method. */
void lend_pb_accept(lend_request request, void *method);
/* Sends a message, and ends a stream of one reply. It runs release(arg) in any case. */
void lend_pb_stream_reply(void *stream, const ProtobufCMessage *reply, void (*release)(void *arg),
			  void *arg);
/* Ends a stream. The second time does nothing. */
void lend_pb_stream_end(void *stream, enum lend_status status, const char *why);
/* Frees the streams of a method whose endpoint was closed. */
void lend_pb_streams_free(struct served_method *method);

enum { LEND_PB_WHY_MAX = 200 }; /* bytes of a text that count, as of lend_reply_why() */
/* Returns the head of an answer with a text, which is copied; one that is not UTF-8 is left out.
 * Threads: any. */
struct lend_reply_head lend_pb_head_of(const struct lend_pb_answer *answer, const char *why,
				       char text[LEND_PB_WHY_MAX + 1]);

#endif
