/* exchange - one HTTP/2 stream of a stock gRPC client, carried as a call or as a stream.
 *
 *	exchange_messages.c  messages in both directions
 *	exchange_headers.c   headers of requests
 *	exchange_request.c   HTTP/2 to a request: headers, and messages as they arrive
 *	exchange_call.c     a request of one message to a call
 *	exchange_stream.c    a request to a method of streams
 *	exchange_reply.c     headers, messages and trailers to HTTP/2
 *	exchange_limits.c    memory of all, deadlines of requests that do not end, resets
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_EXCHANGE_H
#define LEND_GATEWAY_EXCHANGE_H

#include <errno.h>

#include "gateway/connection.h"
#include "gateway/exchange_headers.h"
#include "gateway/headers.h"
#include "gateway/keepalive.h"
#include "gateway/message.h"

/* A connection with a stock client or server. */
struct h2_peer {
	struct h2_connection connection; /* first: a pointer to it is one to the peer */
	/* The session that carries its exchanges; each client has its own, so its own limits. */
	lend_session to;
	struct exchange *first;  /* open ones */
	struct exchange *recent; /* that exchange_find() returned last; NULL: none */
};

/* A connection of a stock client. */
struct h2_client {
	struct h2_peer peer; /* first */
	struct lend_gateway *gateway;
	struct h2_client *next, *prev;
	uint64_t held;   /* bytes of its exchanges */
	unsigned resets; /* streams without an answer, less one each reset_time */
	lend_ns resets_since;
	struct header_list *headers; /* of its last request with new ones, or NULL */
	struct h2_pings pings;
	bool asked;          /* its first GOAWAY was sent */
	bool leaving;        /* its last GOAWAY was sent */
	lend_ns idle_since;  /* as the sweep saw it */
	int32_t last_stream; /* its last request then */
	lend_ns age_at;      /* end of its age; LEND_NEVER: never, or it has passed */
	lend_ns end_at;      /* end of the grace; LEND_NEVER: none */
	lend_ns pong_by;     /* its answer to the first GOAWAY is due; LEND_NEVER: none is */
};

struct lend_gateway {
	struct lend_ep *ep;
	char address[128]; /* where the server listens */
	struct lend_fd_watch listener;
	struct lend_alarm sweep; /* ends connections that take too long */
	struct h2_client *clients;
	unsigned n_clients, clients_max;
	uint64_t held, held_max; /* bytes of all exchanges */
	lend_ns header_time;     /* for the start of a connection, and for headers */
	struct h2_keepalive keepalive;
	struct h2_lifetime lifetime;
	bool draining, reuse_port;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	SSL_CTX *tls; /* NULL: plaintext */
	struct lend_gateway_counters counters;
	struct h2_headers headers; /* the next ones to submit */
};

struct exchange {
	struct lend_ep *ep;
	struct h2_peer *peer; /* NULL: the HTTP/2 stream is gone, or not begun */
	struct exchange *next, *prev;
	int32_t id; /* number of the HTTP/2 stream */
	/* The request. */
	struct lend_call_head head;
	struct header_list *headers; /* shared or not */
	bool shares;                 /* with the connection's next requests, or from the last one */
	unsigned shared;             /* headers of the shared list that it had so far */
	nghttp2_rcbuf *path, *timeout_text; /* NULL: none yet */
	uint64_t body;                      /* bytes of DATA */
	struct lend_metadata *metadata;     /* of a server's response */
	int64_t timeout;                    /* nanoseconds; 0: none */
	struct lend_alarm late;             /* the deadline of a request that has not ended */
	uint64_t held;                      /* bytes, as counted in the client */
	const char *http;                   /* status other than 200; NULL: 200 */
	enum lend_status status;            /* why the request cannot run; OK: it can */
	const char *why;
	unsigned serves; /* LEND_GATEWAY_*: what the method is */
	uint32_t method; /* its number */
	bool grpc;
	bool gzip_in;      /* messages that arrive may be compressed */
	bool gzip_out;     /* all messages that are sent are compressed */
	bool accepts_gzip; /* the peer does: messages that are sent may be */
	bool ended;        /* the client's direction has */
	bool answered;     /* headers were submitted that end the stream, or lead to its end */
	struct message_in in;
	unsigned messages; /* complete ones */
	/* The call or the stream that carries it, in progress while running. */
	struct lend_call call;
	struct lend_stream stream;
	bool running, streams;
	bool forwards; /* to a server: the end of the stream's messages ends the request */
	bool finished; /* the client's direction of the stream was ended */
	struct lend_buf *unsent; /* a message without credit */
	uint8_t *backlog;        /* bytes received behind it */
	size_t backlog_len, backlog_cap;
	/* The reply. */
	struct message_out out;
	bool last;                        /* no message follows out: then the trailers */
	bool headers_sent;                /* a stream's */
	struct h2_kept_headers *trailers; /* NULL: status OK, nothing else */
};

/* Returns the status of a request that could not be started. */
static inline enum lend_status exchange_status(int error)
{
	return error == -ESTALE   ? LEND_UNAVAILABLE
	       : error == -EINVAL ? LEND_INVALID_ARGUMENT
				  : LEND_RESOURCE_EXHAUSTED;
}

static inline struct lend_gateway *exchange_gateway(const struct exchange *x)
{
	return ((struct h2_client *)x->peer)->gateway;
}

/* Returns whether the session had ended, and there is another one now. */
static inline bool exchange_reconnect(struct exchange *x, int error)
{
	return error == -ESTALE &&
	       host->connect(x->ep, exchange_gateway(x)->address, &x->peer->to) == 0;
}

/* exchange_request.c: returns the exchange of a stream of HTTP/2; NULL: there is none. */
struct exchange *exchange_find(struct h2_peer *peer, int32_t id);

/* exchange_messages.c: adds an exchange to those of a connection, or removes it. */
void exchange_join(struct exchange *x, struct h2_peer *peer);
void exchange_leave(struct exchange *x);
/* Notes that the exchange cannot run, or go on: the first reason counts. */
void exchange_fail(struct exchange *x, enum lend_status status, const char *why);
/* Handles bytes of messages from HTTP/2. Returns how many; it keeps those that have no credit. */
size_t exchange_receive(struct exchange *x, const uint8_t *bytes, size_t len);
/* Goes on with what was kept, after the stream got credit. */
void exchange_resume(struct exchange *x);
/* Reads the next message of the stream into out, if there is one. */
void exchange_read(struct exchange *x);
/* Begins to send a message, which it takes; gzip: compressed, if that makes it shorter. */
void exchange_send_message(struct exchange *x, struct lend_buf *message, uint64_t len, bool gzip);
/* Copies bytes of messages for HTTP/2. Returns how many; fewer than cap: there are no more yet. */
size_t exchange_send(struct exchange *x, uint8_t *out, size_t cap);

/* exchange_request.c: installs the callbacks that make exchanges. */
void exchange_callbacks(nghttp2_session_callbacks *callbacks);
/* The HTTP/2 stream is gone: cancels what carries the request. Frees the exchange now or then. */
void exchange_drop(struct exchange *x);
/* Frees an exchange that nothing carries any more. */
void exchange_free(struct exchange *x);
/* The client has ended its direction. A stream that waits for credit calls this again. */
void exchange_end_request(struct exchange *x);

/* gateway.c: handles a client's answer to a PING. */
void exchange_pong(struct h2_client *client, const nghttp2_ping *ping);

/* exchange_limits.c: counts the bytes that an exchange holds. */
void exchange_count_bytes(struct exchange *x);
/* Counts none. */
void exchange_count_nothing(struct exchange *x);
/* Resets the longest exchanges of the clients that hold most, until all hold no more than they may.
 * May free exchanges, and clients other than the one whose input is handled. */
void exchange_relieve(struct lend_gateway *g);
/* Answers at the deadline unless the request has ended before. */
void exchange_start_deadline(struct exchange *x);
/* Returns the time that is left, and stops the alarm. */
lend_ns exchange_time_left(struct exchange *x);
/* Counts a stream that ended without an answer: too many end the connection. */
void exchange_count_reset(struct h2_client *client);

/* exchange_call.c: starts the call of a request that has arrived. */
void exchange_start_call(struct exchange *x);
/* exchange_stream.c: opens the stream. */
void exchange_open_stream(struct exchange *x);
/* Ends the client's direction of the stream, once. */
void exchange_stream_finish(struct exchange *x);

/* exchange_reply.c: answers with headers and no message. */
void exchange_answer_status(struct exchange *x, enum lend_status status, const char *message);
/* Answers a request that is not gRPC's. */
void exchange_answer_http(struct exchange *x);
/* Answers with the reply and status of the call, which has ended. */
void exchange_answer_call(struct exchange *x);
/* Sends the headers of a stream, before its first message. */
void exchange_answer_stream(struct exchange *x);
/* Answers with the status of the stream, which has ended. */
void exchange_end_stream(struct exchange *x);

#endif
