/* gateway - stock gRPC clients and servers over HTTP/2, in lend_gateway.so: so only endpoints with
 * an http2: address load the HTTP/2 library.
 *
 * Each call of a client becomes a call of the method's name to a Lend server, with metadata,
 * deadline and cancellation. Calls and streams for a stock server become its requests.
 *
 * Layer: gateway. The module exports lend_gateway_ops, and nothing else of it is called. It calls
 * liblend by the pointers that it is given, so that programs may link it statically. Threads: the
 * endpoint's. */
#ifndef LEND_GATEWAY_GATEWAY_H
#define LEND_GATEWAY_GATEWAY_H

#include <lend/alloc.h>
#include <lend/stream.h>

struct lend_gateway;
struct lend_remote;
/* Counters of a gateway. */
struct lend_gateway_counters {
	uint64_t connections; /* accepted */
	uint64_t refused;     /* closed: beyond the limit, or too slow */
	uint64_t calls;       /* ended, with any status */
	uint64_t errors;      /* calls with another status than OK */
};

/* Counters of a connection to a stock server. */
struct lend_remote_counters {
	uint64_t connections; /* accepted by the server */
	uint64_t failed;      /* attempts that failed */
	uint64_t calls;       /* ended, with any status */
	uint64_t errors;      /* calls with another status than OK */
};

enum { LEND_GATEWAY_CALL = 1, LEND_GATEWAY_STREAM = 2 };
/* Functions of liblend. */
struct lend_gateway_host {
	__typeof__(lend_alarm_set) *alarm_set;
	__typeof__(lend_buf_give) *buf_give;
	__typeof__(lend_buf_take) *buf_take;
	__typeof__(lend_call_cancel) *call_cancel;
	__typeof__(lend_call_metadata) *call_metadata;
	__typeof__(lend_call_start) *call_start;
	__typeof__(lend_call_text) *call_text;
	__typeof__(lend_call_why) *call_why;
	__typeof__(lend_connect) *connect;
	__typeof__(lend_disconnect) *disconnect;
	__typeof__(lend_free) *free;
	__typeof__(lend_malloc) *malloc;
	__typeof__(lend_metadata_add) *metadata_add;
	__typeof__(lend_metadata_free) *metadata_free;
	__typeof__(lend_metadata_new) *metadata_new;
	__typeof__(lend_now) *now;
	__typeof__(lend_reply_with) *reply_with;
	/* Answers a request that no handler ran for, or maybe. */
	int (*reply_without)(struct lend_ep *ep, lend_request request, enum lend_status status,
			     bool maybe, const struct lend_reply_head *head);
	__typeof__(lend_request_left) *request_left;
	__typeof__(lend_request_metadata) *request_metadata;
	__typeof__(lend_request_session) *request_session;
	__typeof__(lend_request_take) *request_take;
	__typeof__(lend_request_text) *request_text;
	__typeof__(lend_session_message_max) *session_message_max;
	__typeof__(lend_stream_accept) *stream_accept;
	__typeof__(lend_stream_begin) *stream_begin;
	__typeof__(lend_stream_cancel) *stream_cancel;
	__typeof__(lend_stream_end_with) *stream_end_with;
	__typeof__(lend_stream_finish) *stream_finish;
	__typeof__(lend_stream_metadata) *stream_metadata;
	__typeof__(lend_stream_open) *stream_open;
	__typeof__(lend_stream_read) *stream_read;
	/* Notes that no handler ran for a stream, or maybe: before stream_end_with. */
	void (*stream_unrun)(struct lend_stream *stream, bool maybe);
	__typeof__(lend_stream_write) *stream_write;
	__typeof__(lend_usable) *usable;
	__typeof__(lend_watch_fd) *watch_fd;
	__typeof__(lend_why) *why;
	/* Sets what runs when a request is cancelled; NULL: nothing. */
	void (*forward)(struct lend_ep *ep, lend_request request, void (*on_cancel)(void *),
			void *arg);
	/* Returns what serves a name: LEND_GATEWAY_*; 0: nothing does. *method: its number. */
	unsigned (*serves)(struct lend_ep *ep, const char *name, uint32_t *method);
	/* Reads the limits of an endpoint: its configuration's memory_max and sessions. */
	void (*limits)(const struct lend_ep *ep, uint64_t *memory_max, uint32_t *sessions);
};

struct lend_gateway_ops {
	uint64_t sizes; /* LEND_GATEWAY_SIZES of its release */
	/* Once, before all others. */
	void (*start)(const struct lend_gateway_host *host);
	/* Listens on TCP "HOST:PORT" or "[IPv6]:PORT"; port 0 picks one. to: address of the server;
	 * its session is opened again when it has ended. Returns 0; -EINVAL: listen; or another
	 * -errno. */
	int (*open)(struct lend_ep *ep, const char *listen, const char *to,
		    struct lend_gateway **gateway);
	/* Stops listening, and asks clients to go on elsewhere: GOAWAY, and a second one after
	 * their answer to a PING. Requests in progress go on. */
	void (*drain)(struct lend_gateway *gateway);
	/* Returns whether all clients have gone. */
	bool (*drained)(const struct lend_gateway *gateway);
	/* Outside of turns: ends connections, and cancels their calls. */
	void (*close)(struct lend_gateway *gateway);
	/* Writes "HOST:PORT". Returns 0, -ERANGE or another -errno. */
	int (*address)(const struct lend_gateway *gateway, char *text, size_t cap);
	const struct lend_gateway_counters *(*counters)(const struct lend_gateway *gateway);

	/* Begins to connect to a stock gRPC server: "HOST:PORT[?PARAMETERS]". Returns 0; -EINVAL:
	 * server; -ENOKEY: no such file of certificates; or another -errno.
	 */
	int (*dial)(struct lend_ep *ep, const char *server, struct lend_remote **remote);
	/* Ends the connections, and what they carry. Adds its counters to those of sum. */
	void (*hang_up)(struct lend_remote *remote, struct lend_remote_counters *sum);
	/* Handlers, of any name, that forward calls and streams to the server; arg: the remote. */
	lend_handler_fn *call;
	lend_stream_handler_fn *stream;
	const struct lend_remote_counters *(*remote_counters)(const struct lend_remote *remote);
};

#define LEND_GATEWAY_SIZES                                                                         \
	(sizeof(struct lend_gateway_ops) << 32 | sizeof(struct lend_gateway_host))

#endif
