/* remote - a stock gRPC server, and the connections to it.
 *
 *	remote.c           connects, again with backoff, and gives calls a connection
 *	forward.c          a call or a stream of Lend to an HTTP/2 request
 *	forward_reply.c    the HTTP/2 response to its reply
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_REMOTE_H
#define LEND_GATEWAY_REMOTE_H

#include "gateway/address.h"
#include "gateway/exchange.h"
#include "gateway/name_lookup.h"

/* A connection to a server. CONNECTING (no settings of it yet) -> ready -> leaving: it gets no new
 * requests, and ends after the last one. */
struct remote_link {
	struct h2_peer peer; /* first */
	struct lend_remote *remote;
	struct remote_link *next;
	struct lend_alarm keep; /* the next PING */
	bool ready, leaving;
};

/* A call or a stream that a server is to get. WAITING for a connection -> in one -> ended. A stream
 * may outlive its HTTP/2 stream, until its end has arrived at the opener. */
struct forward {
	struct exchange x; /* first. metadata: the initial ones of the response */
	struct lend_remote *remote;
	lend_request request;
	bool waits;          /* for a connection, by next */
	bool sent;           /* the server may have seen it */
	bool over;           /* it was answered */
	bool responded;      /* the headers of the response are complete */
	bool cut;            /* the HTTP/2 stream ended without the end of the response */
	uint32_t code;       /* error code of the server's RST_STREAM */
	int http_status;     /* 0: none arrived */
	int64_t grpc_status; /* -1: none arrived */
	char *message;       /* NULL: none */
	struct lend_metadata *trailing;
	struct forward *next;
};

struct lend_remote {
	struct lend_ep *ep;
	char server[H2_HOST_MAX + 16];   /* "HOST:PORT" */
	char name[H2_HOST_MAX];          /* name in its certificate */
	SSL_CTX *tls;                    /* NULL: plaintext */
	bool named;                      /* each attempt to connect begins with a lookup */
	struct lookup *lookup;           /* NULL: there is none */
	struct lend_fd_watch looking;    /* for its result */
	struct addrinfo *addresses;      /* NULL: the name was not found yet */
	const struct addrinfo *trying;   /* NULL: no address is being tried */
	struct lend_fd_watch connecting; /* fd -1: a link, or nothing, is connecting */
	struct lend_alarm give_up;       /* the attempt */
	lend_ns backoff, not_before;     /* delay after a failed attempt, and its end */
	char why[160];                   /* why the last one failed */
	struct remote_link *links;
	struct remote_link *current;  /* gets new requests; NULL: none */
	struct forward *first, *last; /* requests without a connection */
	struct h2_keepalive keepalive;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct lend_remote_counters counters;
	struct h2_headers headers; /* the next ones to submit */
};

/* Functions of the module: see gateway.h. */
int remote_dial(struct lend_ep *ep, const char *server, struct lend_remote **remote);
void remote_hang_up(struct lend_remote *r, struct lend_remote_counters *sum);
const struct lend_remote_counters *remote_counters(const struct lend_remote *r);
void forward_call(lend_request request, const struct lend_buf *bytes, void *remote);
void forward_stream(lend_request request, void *remote);

/* remote.c: sends a request in a connection, now or as soon as there is one. May end it at once. */
void remote_launch(struct lend_remote *r, struct forward *f);
/* Takes a request out of those that wait. */
void remote_forget(struct lend_remote *r, struct forward *f);
/* The server accepted the connection. */
void remote_ready(struct remote_link *link);
/* The connection takes no more requests: those that the server has not got go to another one. */
void remote_leave(struct remote_link *link);
/* The server permits fewer PINGs. */
void remote_calm(struct lend_remote *r);

/* forward.c: submits the request to a connection. */
void forward_submit(struct forward *f, struct remote_link *link);
/* Ends a request that is in no connection. maybe: its handler may have run. */
void forward_fail(struct forward *f, enum lend_status status, const char *why, bool maybe);
/* Ends a request: with an OK status its message, and in any case what is known of the response. */
void forward_end(struct forward *f, enum lend_status status, const char *why);
/* Takes a request out of its connection. reset: with this error code; NGHTTP2_NO_ERROR: none. */
void forward_leave(struct forward *f, uint32_t reset);
/* Frees a request that was answered, and is in no connection. */
void forward_free(struct forward *f);

/* forward_reply.c: installs the callbacks of a client's sessions. */
void forward_callbacks(nghttp2_session_callbacks *callbacks);
/* Ends the request if its response is complete, and its messages have credit. */
void forward_conclude(struct forward *f);

#endif
