/* lend/stats.h - statistics of an endpoint. Counters grow monotonically from lend_open(); read them
 * from the endpoint's thread. */
#ifndef LEND_STATS_H
#define LEND_STATS_H

#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Counters of an endpoint. Bytes and datagrams are those passed to, or received from, the carriers,
 * including headers and trailers. */
struct lend_stats {
	uint64_t tx_bytes, rx_bytes, tx_datagrams, rx_datagrams;
	uint64_t calls_started, calls_ended, requests, replies;
	uint64_t sessions; /* up now */
	uint64_t sleeps;   /* turns that slept */
	/* Bytes of message buffers taken from the pool, including those that wait for messages to
	 * receive. */
	uint64_t buf_bytes;
};
void lend_stats(struct lend_ep *ep, struct lend_stats *stats);

/* Reads the i-th counter of a fixed order, which includes the drop counters of core and carriers:
 * its name, one-line meaning and value. Returns false past the last one. */
bool lend_stats_each(struct lend_ep *ep, unsigned i, const char **name, const char **meaning,
		     uint64_t *value);

/* Statistics of one session. They are collected when this is called, and cost nothing between
 * calls. */
struct lend_session_stats {
	lend_session session;
	char peer[104];     /* its address, if the carrier knows it */
	uint64_t tx, rx;    /* datagrams; rx as the peer counts them, lost ones included */
	lend_ns rtt;        /* smoothed RTT; 0: not measured, as on carriers that lose nothing */
	lend_ns rtt_var;    /* RTT variation */
	lend_ns gap;        /* congestion control: minimum time between two datagrams; 0: none */
	uint32_t in_flight; /* datagrams since the oldest unacknowledged one of a long message */
	uint32_t window;    /* limit of datagrams in flight of long messages */
	uint32_t credit;    /* bytes that may be sent without a grant */
	uint32_t up;        /* 0: the session is being established */
	uint64_t granted;   /* bytes granted to the peer that it has not sent yet */
	uint32_t calls[8];  /* calls in progress, started here; by priority, 1 first */
	uint32_t served[8]; /* in progress, made by the peer: until it has the reply */
	uint64_t queued[8]; /* bytes that wait to be sent */
};
/* Finds the next open session, from index i on. Returns the index to continue from, or 0 when there
 * is no further session. */
unsigned lend_stats_session(struct lend_ep *ep, unsigned i, struct lend_session_stats *stats);

/* Method that every endpoint serves, unless lend_serve() installs another handler for it. Request:
 * an index as for lend_stats_session(), 4 bytes. Reply: this header, then n times struct
 * lend_session_stats, in the byte order of this machine. Only shm peers that run as this process's
 * user, and peers that were given the same secret, may call it; others get PERMISSION_DENIED. `lend
 * top` uses it. */
#define LEND_METHOD_STATS 0x4c454e54u
struct lend_stats_head {
	uint32_t size,
	    session_size; /* sizeof the two structs: later fields are added at their ends */
	uint32_t n, next; /* sessions in this reply, index to continue from; 0: no more sessions */
	uint64_t pid;
	lend_ns now; /* lend_now() on the machine that replies */
	struct lend_stats stats;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
