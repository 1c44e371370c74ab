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
#include "gateway/tls.h"

extern const struct lend_gateway_host *host; /* liblend */

enum {
	H2_STREAM_WINDOW = 1 << 20, /* bytes of a stream before the peer has to wait */
	H2_WINDOW = 16 << 20        /* those of a whole connection */
};

struct h2_connection {
	struct lend_ep *ep;
	struct lend_fd_watch watch;
	struct lend_alarm flush, again; /* to send; to go on receiving */
	nghttp2_session *session;
	SSL *tls;        /* NULL: plaintext */
	const char *why; /* at its end, why TLS failed; NULL: other reasons */
	/* Runs once, when the connection has ended: frees the exchanges and the struct. */
	void (*ended)(struct h2_connection *connection);
	uint8_t *out;           /* bytes that the socket has not taken */
	size_t out_len, out_at; /* in it, and how many of these it has taken */
	unsigned open;          /* exchanges that have not ended */
	bool busy;              /* in a function of the session: flush afterwards */
	bool over;
	bool wants_write; /* what is left of out waits for the socket to be writable */
	bool draining;    /* both sides are done: the client closes, so that it reads everything */
	bool failed;      /* it ends with GOAWAY: what the peer still sends is dropped */
	bool waits;       /* the owner ends it some time after since, unless waits becomes false */
	lend_ns since;    /* the last input, while it does not wait */
	lend_ns pinged;   /* the last PING to the peer */
};

/* The memory of sessions and of exchanges: Lend's heap. */
nghttp2_mem *h2_memory(void);
/* Returns zeroed memory, or NULL. */
void *h2_allocate(size_t len);
/* Submits the settings of a new session, and the window of the connection. Deletes the session if
 * that fails. Returns 0 or -ENOMEM. */
int h2_connection_settings(struct h2_connection *c, const nghttp2_settings_entry *settings,
			   size_t n);
/* Starts with a connected, non-blocking socket, which it owns in any case, and a session that has
 * submitted its settings. tls: NULL: plaintext. server: as of tls_begin(). Returns 0 or -errno. */
int h2_connection_start(struct h2_connection *c, int fd, SSL_CTX *tls, const char *server);
/* Something was submitted to the session. May end the connection. */
void h2_connection_send(struct h2_connection *c);
/* Begins to end the connection with GOAWAY: its input is dropped. Within a callback of the session.
 */
void h2_connection_goaway(struct h2_connection *c, uint32_t code, const char *debug);
/* Ends the connection with GOAWAY and NO_ERROR, without waiting for the peer. */
void h2_connection_close(struct h2_connection *c);
/* Sends what the socket takes now, and ends the connection. */
void h2_connection_last(struct h2_connection *c);
/* Ends the connection at once. */
void h2_connection_end(struct h2_connection *c);

#endif
