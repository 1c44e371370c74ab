/* stream_table - the streams of an endpoint, by session and number.
 *
 * lend/stream.h has the functions for applications, stream/duplex.h the messages of one stream.
 *
 *   stream.c        open, write, read, end      stream_table.c  numbers, alarms, ends
 *   stream_calls.c  the calls of a stream       stream_serve.c  those of its peer
 *
 * Layer: rpc. Threads: the endpoint's. */
#ifndef LEND_RPC_STREAM_TABLE_H
#define LEND_RPC_STREAM_TABLE_H

#include "lend/stream.h"
#include "rpc/endpoint.h"
#include "stream/duplex.h"
#include "wire/head.h"

enum { LEND_STREAM_BUCKETS = 256 };

/* One of the calls of a stream: of a message, or of another note. */
struct lend_stream_call {
	struct lend_call call;
	struct lend_stream_rec *stream;
};

/* A stream. A client's is over when its opening call has ended, a server's when it has answered.
 * Then it ends, once no call uses it and the application has read what is there. */
struct lend_stream_rec {
	struct lend_stream *user;
	struct lend_ep *ep;
	lend_session session;
	uint64_t number;
	lend_request request; /* server: the opening call */
	bool opener;
	bool ending; /* server: lend_stream_end() was called; answers after the last message */
	bool over;   /* the status is known */
	bool cancelled;
	bool pinned;                    /* a function of it runs: the record must stay */
	enum lend_status status;        /* server: to answer with */
	unsigned unrun;                 /* server: LEND_REPLY_NOT_RUN, LEND_REPLY_MAYBE or 0 */
	char why[LEND_HEAD_REASON + 1]; /* text of the status, UTF-8 */
	struct lend_buf *answer;        /* server: head to answer with; NULL: why */
	uint8_t *head;                  /* opener: of the answer; NULL: none */
	uint8_t *first_head;            /* opener: of the first message; NULL: none */
	struct lend_metadata *initial;  /* server: for the first message; NULL: none */
	struct lend_call opening;       /* opener */
	struct lend_stream_call call[LEND_STREAM_CALLS];
	struct lend_duplex duplex;
	/* Messages by bit, as in duplex.out and duplex.in: to be compressed; LEND_HEAD_COMPRESSED.
	 */
	uint16_t compress, compressed;
	struct lend_stream_rec *next; /* in its bucket */
};

/* A method whose calls open streams. */
struct lend_stream_method {
	struct lend_ep *ep;
	uint32_t method;
	lend_stream_handler_fn *handler;
	void *arg;
	struct lend_stream_method *next;
};

struct lend_streams {
	struct lend_ep *ep;
	struct lend_stream_rec *bucket[LEND_STREAM_BUCKETS];
	uint64_t opened;                         /* number of the newest stream opened here */
	struct lend_alarm alarm;                 /* calls to make again, and ends */
	struct lend_stream_method *methods, any; /* any: names without a handler */
	lend_request opening; /* while a handler runs: its request, and the stream's number */
	uint64_t opening_number;
};

/* stream_table.c */
/* Returns the streams of an endpoint, which serves their notes from now on; NULL: no memory. */
struct lend_streams *lend_streams_of(struct lend_ep *ep);
struct lend_stream_rec *lend_streams_find(struct lend_ep *ep, lend_session session, uint64_t number,
					  bool opener);
/* Makes a stream and adds it. NULL: no memory. */
struct lend_stream_rec *lend_streams_add(struct lend_streams *all, lend_session session,
					 uint64_t number, struct lend_stream *user, bool opener);
/* Removes a stream that did not begin, and frees it. */
void lend_streams_remove(struct lend_stream_rec *s);
/* Looks at the streams at a time, or in the next turn. */
void lend_streams_wake(struct lend_streams *all, lend_ns at);
/* Ends the stream if nothing more can happen. Then s is gone. */
void lend_stream_settle(struct lend_stream_rec *s);

/* stream_calls.c */
/* Starts the calls that are due, answers the opening call after the last message, and tells the
 * application about room. s may be gone afterwards. */
void lend_stream_advance(struct lend_stream_rec *s);
/* The same, but leaves the application's functions and the end to the next turn. */
void lend_stream_push(struct lend_stream_rec *s);
/* Ends both directions at once, and all calls. */
void lend_stream_abort(struct lend_stream_rec *s, enum lend_status status);
/* Sets the text of the status: its first LEND_HEAD_REASON bytes, without a part of a character. */
void lend_stream_explain(struct lend_stream_rec *s, const char *text);
/* Gives back the messages that nothing will read. */
void lend_stream_drop(struct lend_stream_rec *s);
/* done of the opening call. */
void lend_stream_opening_ended(struct lend_call *call);

/* stream_serve.c */
/* Handles the calls of peers' streams: notes and messages. arg: the endpoint's streams. */
void lend_stream_note(lend_request request, const struct lend_buf *bytes, void *arg);
/* Handles the calls that open streams. arg: their struct lend_stream_method. */
void lend_stream_opens(lend_request request, const struct lend_buf *bytes, void *arg);
/* Notes that a server's stream ran nowhere, or maybe. Before lend_stream_end_with(). */
void lend_stream_unrun(struct lend_stream *stream, bool maybe);
/* Marks the requests that opened streams: their handler. */
void lend_stream_marker(lend_request request, const struct lend_buf *bytes, void *arg);

static inline struct lend_stream_rec *lend_stream_rec(const struct lend_stream *stream)
{
	return stream->state;
}

#endif
