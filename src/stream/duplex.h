/* duplex - one end of a stream: messages of both directions, in order and once, their credit, and
 * the end of each direction.
 *
 *   lend_duplex_put(message), _finish() --> +--------+ --> lend_duplex_next()   a call to make
 *   lend_duplex_arrived(note) ------------> | duplex | --> lend_duplex_take()   the next message
 *   lend_duplex_call_ended(result) -------> +--------+ --> lend_duplex_wake()   when to call next()
 *
 * A message is a call to the other end, with a note before its bytes. The reply is the number of
 * messages that the reader has taken: the credit. At most LEND_STREAM_WINDOW messages are sent and
 * not taken, and none begins while these have LEND_STREAM_BYTES. A reader that stops costs no call:
 * when it goes on after half a window, it calls the sender with the number. A call that the other
 * end had no room for, or that overtook the opening of the stream, is made again. The number of a
 * message in its direction shows copies and gaps.
 *
 * The opening call of the stream, its status and its deadline are the caller's. Layer: stream
 * (pure). Plain data, one thread. */
#ifndef LEND_STREAM_DUPLEX_H
#define LEND_STREAM_DUPLEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/dgram.h"

enum {
	LEND_STREAM_WINDOW = 16,        /* messages that are sent and not taken */
	LEND_STREAM_BYTES = 256 * 1024, /* bytes of them from which on none begins */
	/* Calls of one end at once: a message each, then the two others. */
	LEND_STREAM_LAST = LEND_STREAM_WINDOW,
	LEND_STREAM_CREDIT,
	LEND_STREAM_CALLS,
};

enum lend_note_kind {
	LEND_NOTE_MESSAGE, /* at: its number, from 0 on; its bytes follow */
	LEND_NOTE_LAST,    /* half-close; at: number of messages of this direction */
	LEND_NOTE_CREDIT,  /* at: number of messages of the other direction that were taken */
	LEND_NOTE_OPEN,    /* marks the call that opens the stream; at: 0 */
	LEND_NOTE_KINDS,
};

/* The method of all calls of a stream but the one that opens it. */
#define LEND_METHOD_STREAM 0x4c454e53u

/* The first bytes of a call of a stream. */
struct lend_note {
	uint64_t stream; /* number that its opener gave it, unique among those of one session */
	uint64_t at;
	uint8_t kind;      /* enum lend_note_kind */
	uint8_t to_opener; /* 1: the receiver opened the stream; 0: the sender did */
	uint8_t zero[6];
};
_Static_assert(sizeof(struct lend_note) == 24, "wire");
/* Returns whether the note's fields are in range. */
bool lend_note_valid(const struct lend_note *note);

/* A message that is sent and not taken, or one that arrived and was not taken. */
struct lend_duplex_message {
	uint64_t tag; /* the caller's */
	uint32_t len;
	uint32_t present; /* 1: it has arrived */
};

struct lend_duplex {
	/* Outgoing. Of message i, entry and call are i % LEND_STREAM_WINDOW. */
	uint64_t sent;      /* messages put */
	uint64_t taken;     /* those of them that the reader took, as far as reported */
	uint64_t out_bytes; /* bytes of the messages [taken, sent) */
	uint32_t ready, flying, waiting; /* calls by bit: to make; made; to make again at due[] */
	uint8_t finished;                /* no message follows the last one that was put */
	uint8_t blocked; /* put() found no credit since the last lend_duplex_unblock() */
	uint8_t broken;  /* a call failed for good */
	uint8_t closed;  /* no call is made any more */
	uint8_t deaf;    /* nothing is taken or kept any more */
	uint8_t tries[LEND_STREAM_CALLS];
	lend_ns due[LEND_STREAM_CALLS];
	struct lend_duplex_message out[LEND_STREAM_WINDOW];
	/* Incoming. */
	uint64_t next;        /* number of the next message to take */
	uint64_t top;         /* one above the largest number that arrived */
	uint64_t end;         /* number of messages in all; UINT64_MAX: not known yet */
	uint64_t reported;    /* value of next in the last report */
	uint64_t in_bytes;    /* bytes that have arrived and were not taken */
	uint64_t taken_bytes; /* bytes that were taken since the last report */
	struct lend_duplex_message in[LEND_STREAM_WINDOW];
};

void lend_duplex_init(struct lend_duplex *d);

/* Returns whether there is credit for a message now. */
bool lend_duplex_may_put(const struct lend_duplex *d);
enum lend_put { LEND_PUT_TAKEN, LEND_PUT_FULL, LEND_PUT_CLOSED };
/* Returns what put() would return. FULL: notes that the caller waits for credit. */
enum lend_put lend_duplex_check(struct lend_duplex *d);
/* Adds a message of len bytes. TAKEN: next() returns its call, *call. FULL: no credit. */
enum lend_put lend_duplex_put(struct lend_duplex *d, uint32_t len, uint32_t *call);
/* Ends the outgoing direction after the last message that was put. by_note: with a call. */
void lend_duplex_finish(struct lend_duplex *d, bool by_note);
/* Returns whether put() was refused before and has credit now, and forgets the refusal. */
bool lend_duplex_unblock(struct lend_duplex *d);

/* Returns the number of a call to make now, and fills in its note but for stream and to_opener.
 * LEND_STREAM_CALLS: there is none. */
uint32_t lend_duplex_next(struct lend_duplex *d, lend_ns now, struct lend_note *note);
/* Returns the time from which on next() has a call; LEND_NEVER: none is known. */
lend_ns lend_duplex_wake(const struct lend_duplex *d);
enum lend_call_result {
	LEND_CALL_OK,    /* taken: its reply is the number of messages taken */
	LEND_CALL_AGAIN, /* the other end had no room, or does not know the stream yet */
	LEND_CALL_LOST,  /* the other end is gone, or refuses the call */
};
/* Notes the end of a call that next() returned. taken: the number in the reply. */
void lend_duplex_call_ended(struct lend_duplex *d, lend_ns now, uint32_t call,
			    enum lend_call_result result, uint64_t taken);
/* Returns whether every message has arrived at the other end and no call is to be made. */
bool lend_duplex_all_sent(const struct lend_duplex *d);

enum lend_arrival {
	LEND_ARRIVAL_KEEP,   /* the caller keeps the message: see *entry */
	LEND_ARRIVAL_KNOWN,  /* nothing to keep: a copy, or no message; answer it like KEEP */
	LEND_ARRIVAL_FORGED, /* it contradicts the stream: nothing has changed */
};
/* Notes a call of the other end, with a message of len bytes. KEEP: the caller sets the tag of
 * in[*entry]. */
enum lend_arrival lend_duplex_arrived(struct lend_duplex *d, const struct lend_note *note,
				      uint32_t len, uint32_t *entry);
/* Returns the number for the reply to a call of the other end, and notes that it was reported. */
uint64_t lend_duplex_report(struct lend_duplex *d);
enum lend_taking { LEND_TAKING_MESSAGE, LEND_TAKING_NONE, LEND_TAKING_END };
/* Takes the next message. NONE: it has not arrived yet. END: there are no more. */
enum lend_taking lend_duplex_take(struct lend_duplex *d, uint64_t *tag);
/* Returns what take() would return. */
enum lend_taking lend_duplex_peek(const struct lend_duplex *d);
/* The stream has ended at the other end: no call is made any more, and the incoming direction ends
 * with the messages that are here without a gap. */
void lend_duplex_end(struct lend_duplex *d);
/* Ends the incoming direction: nothing is taken or kept any more. Returns true with an arrived
 * message that the caller drops before it calls this again; false: there is none. */
bool lend_duplex_drop(struct lend_duplex *d, uint64_t *tag);
/* Ends the outgoing direction at once: no call is made any more. */
static inline void lend_duplex_close(struct lend_duplex *d)
{
	d->closed = 1;
	d->ready = d->waiting = 0;
}

/* Returns whether a call that next() returned has not ended. */
static inline bool lend_duplex_is_busy(const struct lend_duplex *d)
{
	return d->flying != 0;
}

#endif
