/* remotes - sessions to stock gRPC servers: http2: as the address of lend_connect().
 *
 * Such a session is one of the endpoint with itself, over shm. Its requests do not reach the
 * endpoint's own methods: lend_gateway.so forwards all of them, by name, as HTTP/2 requests. So
 * deadlines, cancellation, queues, limits and counters are those of any session.
 *
 * Layer: rpc. Threads: the endpoint's. Ownership: a route lives until the session that was
 * connected has ended. */
#ifndef LEND_RPC_REMOTES_H
#define LEND_RPC_REMOTES_H

#include "rpc/stream_table.h"

struct lend_route {
	struct lend_route *next;
	struct lend_method any, any_stream; /* serve its requests */
	struct lend_stream_method stream;
	struct lend_remote *remote; /* the gateway's */
	lend_session session;       /* the end that was connected */
	uint8_t incarnation[16];    /* that end, as the other one sees it */
	char address[104];          /* as connected to */
};

/* Lets lend_connect() take such addresses. */
void lend_remotes_allow(struct lend_ep *ep);

#endif
