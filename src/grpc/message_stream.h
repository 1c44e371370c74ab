/* message_stream - one end of a stream of messages of a .proto service.
 *
 * A server's is the closure_data of its functions. Layer: grpc. Threads: the endpoint's. */
#ifndef LEND_GRPC_MESSAGE_STREAM_H
#define LEND_GRPC_MESSAGE_STREAM_H

#include <lend/stream.h>

#include "grpc/served_method.h"

struct lend_pb_stream {
	struct lend_pb_answer base; /* first; request and head: a server's */
	struct lend_stream stream;
	lend_session session;
	enum lend_pb_kind kind;
	const struct lend_pb_table *reads, *writes; /* tables for each direction */
	uint32_t *packed;                           /* for those written: see lend_pb_sending */
	struct lend_pb_heap *memory;                /* for those read */
	/* Takes a message that was read, or NULL at the end of the peer's direction. */
	void (*take)(struct lend_pb_stream *s, struct lend_buf *bytes);
	void (*handle)(struct lend_pb_stream *s, const ProtobufCMessage *message);
	struct lend_pb_events events;
	unsigned count; /* messages that were read */
	bool paused, reading, eof;
	/* Server. */
	struct served_method *method;
	struct lend_pb_stream *next, **link; /* streams with its method */
	unsigned holds;                      /* functions that use it now */
	bool answered, over, told;           /* events.ended has run */
	/* Client. */
	struct client *client;
	ProtobufCClosure closure;
	void *closure_data;
	enum lend_status failed; /* not OK: instead of the stream's status */
	struct lend_buf *reply;  /* the only one, until the status is known */
};

/* Reads what has arrived, unless the stream is paused. */
void lend_pb_stream_read(struct lend_pb_stream *s);
/* readable() and writable() of every stream. */
void lend_pb_stream_readable(struct lend_stream *stream);
void lend_pb_stream_writable(struct lend_stream *stream);
/* Decodes a message and hands it to handle(). Returns the status of decoding. */
enum lend_status lend_pb_stream_hand(struct lend_pb_stream *s, const struct lend_buf *bytes);

static inline struct lend_pb_stream *lend_pb_stream_of(struct lend_stream *stream)
{
	return (struct lend_pb_stream *)((char *)stream - offsetof(struct lend_pb_stream, stream));
}

#endif
