/* connection - HTTP/2 over a socket, in an endpoint's turns.
 *
 * What is to be sent is collected, and sent once: at the end of what was received, or, while
 * several exchanges are open, in the next turn.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_CONNECTION_H
#define LEND_GATEWAY_CONNECTION_H

#include <nghttp2/nghttp2.h>

#include "gateway/gateway.h"

extern const struct lend_gateway_host *host; /* liblend */

struct h2_connection {
	struct lend_ep *ep;
	struct lend_fd_watch watch;
	struct lend_alarm flush;
	nghttp2_session *session;
	/* Runs once, when the connection has ended: frees the exchanges and the struct. */
	void (*ended)(struct h2_connection *connection);
	uint8_t *out;           /* bytes that the socket has not taken */
	size_t out_len, out_at; /* in it, and how many of these it has taken */
	unsigned open;          /* exchanges that have not ended */
	bool busy;              /* in a function of the session: flush afterwards */
	bool over;
};

/* Starts with a connected, non-blocking socket, which it owns from now on in any case, and a
 * session whose settings are submitted. Returns 0 or -errno. */
int h2_connection_start(struct h2_connection *c, int fd);
/* Something was submitted to the session. May end the connection. */
void h2_connection_send(struct h2_connection *c);
/* Ends the connection at once. */
void h2_connection_end(struct h2_connection *c);

#endif
