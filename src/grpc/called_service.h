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
	struct lend_pb_heap memory; /* decoded replies */
	struct lend_pb_heap tables;
	struct called_service *next;
	struct called_method method[];
};

/* Finds the service for one more client, or makes it. Returns 0; -EINVAL: the descriptor is not of
 * protobuf-c 1; -ENOMEM. */
int lend_pb_called_open(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
			struct called_service **service);
/* Drops a client. Returns whether it was the last one: then free the idle records, and call
 * lend_pb_called_free(). */
bool lend_pb_called_close(struct called_service *service);
void lend_pb_called_free(struct called_service *service);

#endif
