/* lend/stats.h - statistics of an endpoint and of its sessions.
 *
 * Counters start at 0 with lend_open() and only grow, except those that are described as a current
 * number.
 *
 * Threads: the endpoint's. */
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
	uint64_t tx_bytes;      /* bytes sent */
	uint64_t rx_bytes;      /* bytes received */
	uint64_t tx_datagrams;  /* datagrams sent */
	uint64_t rx_datagrams;  /* datagrams received */
	uint64_t calls_started; /* calls made here */
	uint64_t calls_ended;   /* calls made here that have ended */
	uint64_t requests;      /* requests received completely */
	uint64_t replies;       /* requests answered */
	uint64_t sessions;      /* current number of sessions that are up */
	uint64_t sleeps;        /* times that a turn slept */
	/* Current bytes of message buffers taken from the pool, including those that wait for
	 * messages to receive. */
	uint64_t buf_bytes;
};
/* Reads the counters of an endpoint.
 * Ownership: borrows stats. */
void lend_stats_get(struct lend_ep *ep, struct lend_stats *stats);
/* Reads the i-th counter, from 0, of a fixed order that includes the drop counters of core and
 * carriers: its name, its meaning in one line, and its value.
 * Returns: true; false: i is past the last one, and nothing is written.
 * Ownership: borrows the out arguments; the texts are constants, valid for ever. */
bool lend_stats_each(struct lend_ep *ep, unsigned i, const char **name, const char **meaning,
		     uint64_t *value);

/* Statistics of one session. They are collected when they are read, and cost nothing between
 * reads. */
struct lend_session_stats {
	lend_session session; /* handle, valid at the endpoint that was read */
	char peer[104];       /* address of the peer, if the carrier knows it */
	uint64_t tx;          /* datagrams sent */
	uint64_t rx;          /* number of the peer's newest datagram: includes lost ones */
	lend_ns rtt;          /* smoothed RTT; 0: not measured, as on carriers that lose nothing */
	lend_ns rtt_var;      /* RTT variation */
	lend_ns gap;          /* congestion control: minimum time between two datagrams; 0: none */
	uint32_t in_flight;   /* datagrams since the oldest unacknowledged one of a long message */
	uint32_t window;      /* limit of datagrams in flight of long messages */
	uint32_t credit;      /* bytes that may be sent without a grant */
	uint32_t up;          /* 1: up; 0: the session is being established */
	uint64_t granted;     /* bytes granted to the peer that have not arrived */
	uint32_t calls[8];    /* calls in progress, started here, by priority: [0] is 1 */
	uint32_t served[8];   /* calls in progress, made by the peer, until it has the reply */
	uint64_t queued[8];   /* bytes not yet given to the carrier, and lost ones, by priority */
	uint64_t forged;      /* received datagrams whose tag was wrong */
	uint8_t level;        /* datagrams are 0 in clear, 1 authenticated, 2 encrypted */
	uint8_t suite;        /* 0 none, 1 AES-128-GCM, 2 ChaCha20-Poly1305 */
	uint8_t zero[6];      /* 0 */
	lend_ns key_age; /* time since its datagrams are sealed with the present keys; 0: none */
};
/* Reads the next open session, from index i on; 0 begins.
 * Returns: the index to continue from; 0: there is no further session.
 * Ownership: borrows stats. */
unsigned lend_stats_session(struct lend_ep *ep, unsigned i, struct lend_session_stats *stats);

/* Gives the i-th number of an application, from 0: its name of letters, digits and '_', and its
 * value. Runs inside a turn, in the endpoint's thread.
 * Returns: true; false: i is past the last one.
 * Ownership: borrows the out arguments; the name must stay valid until the end of the turn. */
typedef bool lend_numbers_fn(void *arg, unsigned i, const char **name, uint64_t *value);
/* Publishes an application's own numbers, until lend_close() or another call; NULL ends it. Over
 * DPDK, dpdk-telemetry.py shows them as /lend/node, next to /lend/endpoints and /lend/sessions, if
 * EAL was started with --telemetry.
 * Ownership: borrows arg. */
void lend_stats_publish(struct lend_ep *ep, lend_numbers_fn *numbers, void *arg);

/* Method that every endpoint serves, unless lend_serve() installs another handler for it. Request:
 * an index as for lend_stats_session(), 4 bytes; none: 0. Reply: struct lend_stats_head, then n
 * times struct lend_session_stats, in the byte order of the server. Only shm peers that run as the
 * server's user, and peers that proved the server's secret, may call it; others get
 * PERMISSION_DENIED. */
#define LEND_METHOD_STATS 0x4c454e54u
/* Arguments by reference of a process, all its endpoints together. */
struct lend_ref_stats {
	uint64_t in_place; /* read where they are: in their caller's memory, or in a pool's pages */
	/* Fetched, although this host has them: the caller's memory is not mapped, or the pool's
	 * pages cannot be, see struct lend_mem_cache_stat. */
	uint64_t copied;
	uint64_t by_value; /* sent in the message: no node took them, or callees cannot read them */
	uint64_t expired;  /* published loans and results that their ttl ended */
	uint64_t relayed;  /* bytes read for callees that could not reach the lender */
};
/* Head of a reply of LEND_METHOD_STATS. */
struct lend_stats_head {
	uint32_t size;              /* bytes of this struct: later fields are added at its end */
	uint32_t session_size;      /* bytes of struct lend_session_stats, in the same way */
	uint32_t n;                 /* number of sessions in this reply */
	uint32_t next;              /* index to continue from; 0: no more sessions */
	uint64_t pid;               /* process id of the server */
	lend_ns now;                /* lend_now() on the machine that replies */
	struct lend_stats stats;    /* counters of the endpoint */
	struct lend_ref_stats refs; /* counters of its process */
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
