/* urgent_gap - how long urgent calls are expected after the last one.
 *
 * A long message keeps the datagram length that it begins with, and short datagrams cost rate. So
 * long messages begin in short ones only while the next urgent call is likely: for twice the
 * longest recent gap between two such calls. Gaps are forgotten over about LEND_URGENT_GAP_MAX_NS
 * in which calls come. Layer: rpc (pure). Lives by value in its owner; initially all zero. */
#ifndef LEND_RPC_URGENT_GAP_H
#define LEND_RPC_URGENT_GAP_H

#include "util/bits.h"
#include "util/dgram.h"

enum {
	LEND_URGENT_GAP_MIN_NS = 2000000,  /* at least as long is a call expected */
	LEND_URGENT_GAP_MAX_NS = 10000000, /* at most; also before there are two calls */
};

struct lend_urgent_gap {
	lend_ns last;    /* when an urgent call was last seen */
	lend_ns longest; /* recent gap between two, at most LEND_URGENT_GAP_MAX_NS */
};

/* Records an urgent call. Returns until when the next one is expected. */
static inline lend_ns lend_urgent_gap_add(struct lend_urgent_gap *g, lend_ns now)
{
	lend_ns gap = lend_min_u64(now - g->last, LEND_URGENT_GAP_MAX_NS), expected;

	g->longest -= g->longest * gap / LEND_URGENT_GAP_MAX_NS;
	g->longest = lend_max_u64(g->longest, gap);
	g->last = now;
	expected = lend_max_u64(2 * g->longest, LEND_URGENT_GAP_MIN_NS);
	return now + lend_min_u64(expected, LEND_URGENT_GAP_MAX_NS);
}

#endif
