/* gateways - lend_gateway.so, and the http2: addresses that an endpoint listens on: stock gRPC
 * clients call its named methods.
 *
 * A gateway calls over a session of the endpoint with itself, over shm.
 *
 * Layer: rpc. Threads: the endpoint's. */
#ifndef LEND_RPC_GATEWAYS_H
#define LEND_RPC_GATEWAYS_H

#include "gateway/gateway.h"

struct lend_ep;

#define LEND_HTTP2 "http2:"
enum { LEND_GATEWAYS_MAX = 4 };
struct lend_gateways {
	uint32_t n;
	char address[LEND_GATEWAYS_MAX][80]; /* "http2:HOST:PORT" */
	struct lend_gateway *gateway[LEND_GATEWAYS_MAX];
	const struct lend_gateway_ops *ops; /* NULL: not loaded */
	unsigned dialled;                   /* servers that it connected to */
	struct lend_remote_counters ended;  /* of those that it is not connected to any more */
	void (*close)(struct lend_ep *ep);
	/* Functions of remotes.c. */
	int (*connect)(struct lend_ep *ep, const char *address, lend_session *session);
	struct lend_route *(*find)(struct lend_ep *ep, const uint8_t incarnation[16]);
	void (*end)(struct lend_ep *ep, struct lend_route *route);
};

/* Loads the module. Returns 0 or -errno, with lend_why_text(). */
int lend_gateways_load(struct lend_ep *ep);
/* Opens the gateways of a list of addresses, or NULL. Returns 0 or -errno, with lend_why_text(). */
int lend_gateways_open(struct lend_ep *ep, const char *listen);

#endif
