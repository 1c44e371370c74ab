/* pools - state that sessions share: the window of grant.h, the scans of table_share.h, and a
 * peer's window of short requests. Layer: core (pure), part of state.h. */
#ifndef LEND_CORE_POOLS_H
#define LEND_CORE_POOLS_H

#include <stdint.h>

#include "util/dgram.h"
#include "util/list.h"

/* State of the receiver's grants, see grant.h. A round is one measurement of the throughput. */
struct lend_grants {
	uint64_t used;   /* bytes granted and not yet here */
	uint64_t ahead;  /* granted bytes of messages without a reassembly: their data may take long
			    to arrive */
	uint64_t window; /* bytes that may be granted and not yet here */
	uint64_t least;  /* lower limit of window */
	uint64_t granted; /* bytes granted since the start */
	uint64_t before;  /* the previous window, while another one is being tried; 0: none is */
	uint64_t rate;    /* bytes per us that arrived with the previous window */
	uint64_t came;    /* bytes that arrived since `epoch` */
	lend_ns epoch;
	lend_ns loop;     /* time from a grant to the arrival of its first byte, smoothed */
	uint64_t rest;    /* rounds until a wider window is tried */
	uint64_t scarce;  /* 1: in this round the window was too narrow for a message */
	uint64_t down;    /* 1: the next window that is tried is a narrower one */
	lend_ns loop_min; /* smallest loop; 0: none was measured */
	uint64_t datagrams,
	    marked;        /* datagrams that arrived in this round, and those with an ECN mark */
	uint64_t ecn;      /* 1: a mark has arrived: switches of this network set them */
	int64_t missing;   /* lost datagrams of this round: see reorder.h */
	uint64_t alpha;    /* share of marked datagrams, smoothed, of 65536 */
	lend_ns look;      /* next check for unused grants; LEND_NEVER: no message waits */
	uint64_t waiting;  /* messages in the heap */
	uint64_t yielding; /* messages in the heap that are of the peer with most of the window */
	uint64_t entered;  /* messages that were ever put into the heap */
	uint64_t senders;  /* sessions with partly received messages */
	/* How late a datagram is behind later ones, in the calmest round of such datagrams; 0: no
	 * round has ended. In this round: the largest, and how many. */
	lend_ns skew;
	uint32_t skew_most, skew_n;
	uint64_t clock; /* LEND_ORDER_FAIR: virtual time of the newest grant, in bytes */
};

/* State of a peer, for all of its sessions: see peer_window.h. A short call touches the first three
 * fields only. */
struct lend_peer {
	uint32_t used;  /* bytes of requests of one datagram in flight */
	uint32_t limit; /* window for calls of the common path; 0 while others wait for it */
	struct lend_list waiting; /* sessions with calls that wait for the window */
	uint32_t window;       /* bytes of such requests that may be in flight; 0: not known yet */
	uint32_t alpha;        /* share of marked datagrams, smoothed, of 65536 */
	uint32_t marked, came; /* datagrams reported in this round: with an ECN mark, all */
	uint16_t intact;       /* datagrams reported since the last loss */
	uint16_t reorder;      /* reordering window of its last session, LEND_REORDER_UNIT ns */
	uint32_t next;         /* in the hash chain */
	uint32_t sessions;
	lend_ns round; /* when it ends */
	lend_ns cut;   /* time of the last reduction; 0: none in the last second */
	lend_ns sent;  /* when a request that waited for the window, or a lone one, was sent */
	lend_ns hold;  /* a request longer than the window is not sent before this time */
	lend_ns slow;  /* until then its requests go one class lower */
	uint32_t number;
	struct lend_link idle; /* in lend_core.idle_peers */
	lend_ns closed;        /* end of its last session */
	uint64_t served;       /* LEND_ORDER_FAIR: virtual time of its next grant, in bytes */
	uint32_t rate, trip;   /* as in struct lend_flight, of its last session */
};
_Static_assert(sizeof(struct lend_peer) == 128, "two lines");

/* The tables and budgets that are shared among peers. */
enum lend_fair_kind {
	LEND_FAIR_RECORDS,
	LEND_FAIR_FRAGS,
	LEND_FAIR_BUDGET,
	LEND_FAIR_CREDIT,
	LEND_FAIR_MEMORY,
	LEND_FAIR_SESSIONS,
	LEND_FAIR_KINDS,
};

/* State of the last scan of one of these tables, see table_share.h. */
enum { LEND_FAIR_PEERS = 16 };
struct lend_fair {
	uint32_t due;   /* requests until the next scan; budget: bytes granted */
	uint32_t freed; /* entries released since the last scan */
	uint32_t peers; /* valid entries of the arrays below */
	bool alone;     /* only one peer has sessions */
	bool tried;     /* entries were released for a peer within its share, or none could be */
	lend_ns until;  /* credit: earliest time of the next scan; budget: latest */
	uint64_t n[LEND_FAIR_PEERS];
	uint32_t peer[LEND_FAIR_PEERS];
};

#endif
