/* lend/stats.h - what an endpoint counts. Monotonic since lend_open(); read from the endpoint's
 * thread. */
#ifndef LEND_STATS_H
#define LEND_STATS_H

#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Bytes and datagrams are those handed to, or received from, the carriers: heads and trailers
 * included. */
struct lend_stats {
	uint64_t tx_bytes, rx_bytes, tx_datagrams, rx_datagrams;
	uint64_t calls_started, calls_ended, requests, replies;
	uint64_t sessions; /* up now */
	uint64_t sleeps;   /* times that a turn slept */
	/* Of message buffers out of the pool, those that wait to receive included. */
	uint64_t buf_bytes;
};
void lend_stats(struct lend_ep *ep, struct lend_stats *stats);

/* Every counter by name, drop counters of core and carriers included, in a fixed order: the i-th
 * one's name, one-line meaning and value; false past the last. */
bool lend_stats_each(struct lend_ep *ep, unsigned i, const char **name, const char **meaning,
		     uint64_t *value);

/* One session, added up when it is asked for: between calls of this function it costs nothing. */
struct lend_session_stats {
	lend_session session;
	char peer[104];  /* its address, as far as the carrier knows it */
	uint64_t tx, rx; /* datagrams since it began; rx by the peer's count, lost ones included */
	lend_ns rtt;     /* smoothed; 0: not measured, as where nothing can be lost */
	lend_ns rtt_var; /* and how far it varies */
	lend_ns gap;     /* congestion control: from one datagram to the next at least; 0: none */
	uint32_t in_flight; /* datagrams since the oldest of a long message not acknowledged */
	uint32_t window;    /* at most so many of long messages */
	uint32_t credit;    /* bytes that may be sent without a grant */
	uint32_t up;        /* 0: it is being opened */
	uint64_t granted;   /* bytes that the peer may send and has not yet */
	uint32_t calls[8];  /* under way, made here; by priority, 1 first */
	uint32_t served[8]; /* and made by the peer, until it knows its answer */
	uint64_t queued[8]; /* bytes that wait to be sent */
};
/* The next open session from the i-th place on; where to go on, or 0: there is none from there. */
unsigned lend_stats_session(struct lend_ep *ep, unsigned i, struct lend_session_stats *stats);

/* Every endpoint answers this method, unless lend_serve() puts another handler in its place.
 * Request: a place, 4 bytes; reply: this head, n times struct lend_session_stats, all as this
 * machine writes them. PERMISSION_DENIED but for peers over shm with this process's user, and for
 * those that were given the same secret. `lend top` asks it. */
#define LEND_METHOD_STATS 0x4c454e54u
struct lend_stats_head {
	uint32_t size, session_size; /* of the two structs: later fields come at their ends */
	uint32_t n, next;            /* sessions in here, place of the next; 0: all were told */
	uint64_t pid;
	lend_ns now; /* of that machine */
	struct lend_stats stats;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
