/* endpoint_services - what an endpoint reports about its .proto services to gRPC clients: their
 * health and their descriptors.
 *
 *   endpoint_services.c  which services there are, and grpc.health.v1
 *   reflection.c         grpc.reflection.v1 and v1alpha
 *
 * Layer: grpc. Threads: the endpoint's; lookup by the endpoint: any. */
#ifndef LEND_GRPC_ENDPOINT_SERVICES_H
#define LEND_GRPC_ENDPOINT_SERVICES_H

#include "grpc/message_buffers.h"
#include "health.pb-c.h"
#include "reflection.pb-c.h"

/* A service that has a health. */
struct offered_service {
	const ProtobufCServiceDescriptor *descriptor; /* NULL: not served by this library */
	uint8_t *kinds;                               /* of its methods: enum lend_pb_kind */
	bool serving;
	struct offered_service *next;
	char name[]; /* "": the server */
};

struct endpoint_services {
	struct lend_ep *ep;
	struct offered_service *first; /* in the order in which they were added */
	struct health_watch *watches;
	Grpc__Health__V1__Health_Service health;
	Grpc__Reflection__V1__ServerReflection_Service reflection, reflection_alpha;
	ProtobufCServiceDescriptor alpha; /* v1's methods by v1alpha's name */
	struct endpoint_services *next;
};

/* Adds a service that is being served, with the kinds of its methods, NULL: unary, if the endpoint
 * listens on an http2: address. Serves health and reflection with the first one. Returns 0, or an
 * error of lend_pb_serve(). */
int lend_pb_offer(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
		  const enum lend_pb_kind *kinds);
/* Frees what an endpoint has, after its lend_close(). */
void lend_pb_offer_end(struct lend_ep *ep);

/* Sets the services of both versions of reflection. */
void lend_pb_reflection_init(struct endpoint_services *s);

#endif
