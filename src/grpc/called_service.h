/* called_service - what the clients of one service on one endpoint have in common: tables, memory
 * for decoded replies, and idle records of calls.
 *
 * Owned by its clients: the last one frees it. Layer: grpc. Threads: the endpoint's; clients of
 * different endpoints may be made and destroyed at once. */
#ifndef LEND_GRPC_CALLED_SERVICE_H
#define LEND_GRPC_CALLED_SERVICE_H

#include "grpc/message_buffers.h"

struct called_method {
	uint32_t number, args_number; /* [args_]: of the method with requests of arguments */
	char *name, *args_name;       /* "/package.Service/Method" */
	uint32_t packed;              /* see lend_pb_sending */
	const struct lend_pb_table *input, *output;
};

struct called_service {
	struct lend_ep *ep;
	const ProtobufCServiceDescriptor *descriptor;
	unsigned clients;
	struct unary_call *idle;
	struct unary_call *ending;  /* runs its closure now; NULL: none that was started */
	struct lend_pb_heap memory; /* decoded replies */
	struct lend_pb_heap tables;
	struct called_service *next;
	struct called_method method[];
};

/* A client: what lend_pb_client() makes. The fields that each call touches come first: with many
 * sessions, each client is a cache miss. */
struct client {
	ProtobufCService base;
	struct called_service *service;
	lend_session session;
	struct lend_mem *mem;               /* for values by reference; NULL: in the message */
	const struct lend_pb_table **input; /* with its by_ref marks; NULL: those of the service */
	const enum lend_pb_kind *kinds;     /* kinds by method; NULL: unary */
	unsigned calls; /* and streams: not ended, or with a closure that runs */
	enum lend_status status;
	lend_ns timeout; /* common to its calls, as priority, zero_rtt, parent and head are */
	lend_request parent;
	uint8_t priority, zero_rtt;
	bool destroyed;                  /* the end of its last call frees it */
	struct lend_call_head head;      /* without the name */
	const struct lend_stream *ended; /* the stream that runs its last closure now; or NULL */
	struct lend_pb_stream *opened;   /* by the last call of a function; NULL: none */
	struct lend_pb_heap tables;      /* for input */
};
/* unary_client.c: a call or stream of the client has ended. Frees a client that was destroyed. */
void lend_pb_client_drop(struct client *c);

/* stream_client.c: calls a streaming method. */
void lend_pb_open_stream(struct client *c, unsigned index, const ProtobufCMessage *input,
			 ProtobufCClosure closure, void *closure_data);
/* unary_client.c: returns the status of a call that could not be started: -errno. */
enum lend_status lend_pb_status_of(int err);

/* Finds the service for one more client, or makes it. Returns 0; -EINVAL: the descriptor is not of
 * protobuf-c 1; -ENOMEM. */
int lend_pb_called_open(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
			struct called_service **service);
/* Drops a client. Returns whether it was the last one: then free the idle records, and call
 * lend_pb_called_free(). */
bool lend_pb_called_close(struct called_service *service);
void lend_pb_called_free(struct called_service *service);

#endif
