/* gateway - stock gRPC clients over HTTP/2, in lend_gateway.so: so only endpoints that listen on
 * http2: load the HTTP/2 library.
 *
 * Each of their calls becomes a call of the method's name to a Lend server, with metadata, deadline
 * and cancellation.
 *
 * Layer: gateway. The module exports lend_gateway_ops, and nothing else of it is called. It calls
 * liblend by the pointers that it is given, so that programs may link it statically. Threads: the
 * endpoint's. */
#ifndef LEND_GATEWAY_GATEWAY_H
#define LEND_GATEWAY_GATEWAY_H

#include <lend/stream.h>

struct lend_gateway;
/* Counters of a gateway. */
struct lend_gateway_counters {
	uint64_t connections; /* accepted */
	uint64_t refused;     /* closed: beyond the limit, or too slow */
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
	__typeof__(lend_metadata_add) *metadata_add;
	__typeof__(lend_metadata_free) *metadata_free;
	__typeof__(lend_metadata_new) *metadata_new;
	__typeof__(lend_now) *now;
	__typeof__(lend_session_message_max) *session_message_max;
	__typeof__(lend_stream_cancel) *stream_cancel;
	__typeof__(lend_stream_finish) *stream_finish;
	__typeof__(lend_stream_metadata) *stream_metadata;
	__typeof__(lend_stream_open) *stream_open;
	__typeof__(lend_stream_read) *stream_read;
	__typeof__(lend_stream_write) *stream_write;
	__typeof__(lend_watch_fd) *watch_fd;
	__typeof__(lend_why) *why;
	/* Returns what serves a name: LEND_GATEWAY_*; 0: nothing does. */
	unsigned (*serves)(struct lend_ep *ep, const char *name);
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
	/* Outside of turns: ends connections, and cancels their calls. */
	void (*close)(struct lend_gateway *gateway);
	/* Writes "HOST:PORT". Returns 0, -ERANGE or another -errno. */
	int (*address)(const struct lend_gateway *gateway, char *text, size_t cap);
	const struct lend_gateway_counters *(*counters)(const struct lend_gateway *gateway);
};

#define LEND_GATEWAY_SIZES                                                                         \
	(sizeof(struct lend_gateway_ops) << 32 | sizeof(struct lend_gateway_host))

#endif
