/* lend/stream.h - streams of messages between endpoints.
 *
 * A stream is opened by a call to a method of the peer, by number or by name with metadata, and
 * ends with the status of that call, a text and metadata.
 * Until then both ends send messages. They arrive in order, each once; all of the server's arrive
 * before the status. Unary, client streaming, server streaming and bidirectional methods of gRPC
 * are streams on which each end sends one message, or any number.
 *
 * Each message is a call of its own, on the session of the stream. A stream takes one of the
 * opener's calls (config.calls) while it is open. When nothing is sent, a thousand streams of a
 * session cost two datagrams per second in each direction.
 *
 * Backpressure: an end sends at most 16 messages that its peer has not read, and none once these
 * have 256 KiB. lend_stream_write() then returns -EAGAIN, and writable() runs later. Nothing is
 * queued. So a peer that never reads costs its sender nothing, and one that sends too much is
 * refused.
 *
 * A stream is a struct in the caller's memory. Its functions run inside turns, may start and end
 * anything, and may be NULL. ended() runs exactly once, as the last one.
 *
 * Threads: the endpoint's. */
#ifndef LEND_STREAM_H
#define LEND_STREAM_H

#include <lend/metadata.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* lend_stream(3) - open, serve, write, read and end streams.
 *
 * Threads: the endpoint's. */

/* One end of a stream. Set unused fields to zero. */
struct lend_stream {
	/* Runs when a message, or the end of the peer's messages, can be read. Read until
	 * -EAGAIN: it runs again only after something has arrived. */
	void (*readable)(struct lend_stream *stream);
	/* Runs when a write that returned -EAGAIN would succeed. */
	void (*writable)(struct lend_stream *stream);
	/* Runs when the stream is over and all its messages were read: status is valid, and the
	 * struct is the caller's again. */
	void (*ended)(struct lend_stream *stream);
	lend_ns timeout;     /* opener: until the deadline; 0: none */
	lend_request parent; /* opener: as of a call */
	uint32_t method;     /* opener: number given to lend_serve_stream() at the peer */
	/* Opener: the method's name, which counts instead of the number, and initial metadata;
	 * NULL: none. Borrowed until lend_stream_open() returns. */
	const struct lend_call_head *head;
	uint8_t priority; /* opener: as of a call; the peer's messages have the same */
	bool compress;    /* messages from now on go to a stock peer with gzip, if it takes that */
	bool compressed;  /* LEND_TEXT_COMPRESSED of the message that was read last */
	enum lend_status status; /* LEND_UNKNOWN until the stream is over */
	enum lend_ran ran;       /* opener: in ended(): whether the handler ran */
	/* Opener: text with which the server explained the status, "" if it gave none: UTF-8 of at
	 * most 200 bytes, valid in ended(). */
	const char *why;
	void *state;                                  /* the runtime's */
	const uint8_t *head_of_reply, *head_of_first; /* the runtime's */
};
/* Opens a stream, which may be written to at once.
 * Returns: 0; -EAGAIN: the session has as many streams as config.calls of both ends permit: all but
 * 16 calls, or all but an eighth; -EALREADY: this stream is open; or an error of lend_call_start().
 * Ownership: borrows stream until ended(). */
int lend_stream_open(struct lend_ep *ep, lend_session session, struct lend_stream *stream);
/* Handles a stream that was opened: calls lend_stream_accept() or lend_refuse() before it returns.
 * The functions of lend_request(3) work until the stream is over.
 * Ownership: arg is the application's. */
typedef void lend_stream_handler_fn(lend_request request, void *arg);
/* Serves streams of a method from now on, instead of calls, which end UNIMPLEMENTED, not run, as
 * streams of a method for calls do. handler NULL: neither.
 * Returns: as lend_serve().
 * Ownership: borrows arg until the handler is replaced or lend_close(). */
int lend_serve_stream(struct lend_ep *ep, uint32_t method, lend_stream_handler_fn *handler,
		      void *arg);
/* Serves streams of a method with a name, as lend_serve_name(). lend_request_text() and
 * lend_request_metadata() have what the opener sent, until the stream is over. flags: 0 or
 * LEND_ANY_ENCODING, of the messages.
 * Returns: as lend_serve_name().
 * Ownership: borrows name until it returns, arg until the handler is replaced or lend_close(). */
int lend_serve_stream_name(struct lend_ep *ep, const char *name, lend_stream_handler_fn *handler,
			   void *arg, unsigned flags);
/* Serves streams of every name that has no handler, next to lend_serve_any() for calls. handler
 * NULL ends it.
 * Returns: as lend_serve_any().
 * Ownership: borrows arg until the handler is replaced or lend_close(). */
int lend_serve_stream_any(struct lend_ep *ep, lend_stream_handler_fn *handler, void *arg,
			  unsigned flags);
/* Accepts the stream that the handler runs for.
 * Returns: 0; -ESTALE: not inside its handler, or answered; -EEXIST: the peer has given another
 * stream the same number; -EALREADY: this stream is open; -ENOMEM: no memory.
 * Ownership: borrows stream until ended(). */
int lend_stream_accept(struct lend_ep *ep, lend_request request, struct lend_stream *stream);
/* Sets the initial metadata that a server sends with its first message, or with the end if there is
 * none. A peer of a release without names gets none, and no messages then.
 * Returns: 0; -EPIPE: the stream is over, or ends; -EALREADY: a message was sent, or they are set;
 * -EINVAL: at the opener; -ENOMEM: no memory.
 * Ownership: borrows initial until it returns. */
int lend_stream_begin(struct lend_ep *ep, struct lend_stream *stream,
		      const struct lend_metadata *initial);
/* Returns whether there is credit for a message.
 * Returns: 0; -EAGAIN: the peer must read first, writable() follows; -EPIPE: as below.
 * Ownership: borrows stream. */
int lend_stream_check(struct lend_ep *ep, struct lend_stream *stream);
/* Sends a message.
 * Returns: 0; -EAGAIN: the peer must read first, writable() follows; -EPIPE: after
 * lend_stream_finish() or the end; -EMSGSIZE: longer than the peer takes; -ENOMEM: no buffer.
 * Ownership: takes message, on success only; it returns to its pool when it has arrived. */
int lend_stream_write(struct lend_ep *ep, struct lend_stream *stream, struct lend_buf *message);
/* Ends the opener's direction after the last message. The peer reads the end, and may go on.
 * Returns: 0; -EPIPE: the stream is over; -EINVAL: at the server, which ends the stream instead.
 * Ownership: borrows stream. */
int lend_stream_finish(struct lend_ep *ep, struct lend_stream *stream);
/* Reads the next message.
 * Returns: 0; -EAGAIN: it has not arrived, readable() follows; -ENODATA: there are no more. At the
 * opener the status is known then.
 * Ownership: *message is the caller's, to be given back; borrows the pointer. */
int lend_stream_read(struct lend_ep *ep, struct lend_stream *stream, struct lend_buf **message);
/* Ends the stream with a status at the server, after the last message. Messages that were not read
 * are dropped. ended() follows. why: as lend_reply_why(), or NULL.
 * Returns: 0; -EPIPE: it is over, or ends; -EINVAL: at the opener.
 * Ownership: borrows why. */
int lend_stream_end(struct lend_ep *ep, struct lend_stream *stream, enum lend_status status,
		    const char *why);
/* Ends the stream as lend_stream_end(), with metadata. The initial ones arrive with the others.
 * Returns: as lend_stream_end(); -E2BIG, -EINVAL, -ENOMEM: as lend_reply_with(), but the stream has
 * not ended.
 * Ownership: borrows head. */
int lend_stream_end_with(struct lend_ep *ep, struct lend_stream *stream, enum lend_status status,
			 const struct lend_reply_head *head);
/* Iterates over the server's metadata, at the opener: the initial ones of lend_stream_begin() from
 * the first message on, all in ended(). *at is 0 before the first call.
 * Returns: true: *pair is the next pair, of the trailing metadata or of the initial ones; false:
 * there are no more.
 * Ownership: borrows stream; the pair is the stream's until ended() returns. */
bool lend_stream_metadata(const struct lend_stream *stream, bool trailing, uint32_t *at,
			  struct lend_pair *pair);
/* Ends the stream at once, at either end: CANCELLED. Messages that are under way may be lost.
 * ended() follows. A stream that is over is unchanged.
 * Ownership: borrows stream until ended(). */
void lend_stream_cancel(struct lend_ep *ep, struct lend_stream *stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
