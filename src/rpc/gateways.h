/* gateways - the http2: addresses of an endpoint: stock gRPC clients call its named methods.
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
	const struct lend_gateway_ops *ops;
	void (*close)(struct lend_ep *ep);
};

/* Opens the gateways of a list of addresses, or NULL. Returns 0 or -errno, with lend_why_text(). */
int lend_gateways_open(struct lend_ep *ep, const char *listen);

#endif
