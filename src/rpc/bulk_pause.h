/* bulk_pause - for how long long messages keep silent while an urgent call is answered.
 *
 * Who sends a datagram of 16 to 64 KB sees a reply that comes meanwhile some microseconds later. So
 * after an urgent call went out nothing less urgent does for twice as long as such calls took of
 * late, or until it is answered; but not for calls that take longer than is worth it, and never for
 * more than a quarter of the time, however many of them there are.
 * Layer: rpc (pure). Lives by value in its owner; all zero to begin with. */
#ifndef LEND_RPC_BULK_PAUSE_H
#define LEND_RPC_BULK_PAUSE_H

#include "util/bits.h"
#include "util/dgram.h"

enum {
	LEND_HUSH_MAX_NS = 50000,
	LEND_HUSH_REST = 3,  /* times as long nobody keeps silent afterwards */
	LEND_HUSH_LEARN = 8, /* part of the way that one call moves what is expected */
};

struct lend_hush {
	lend_ns began; /* of the call that is measured; 0: none is */
	lend_ns until;
	lend_ns rest; /* no silence begins before this time */
	lend_ns took; /* smoothed */
};

/* An urgent call goes out. Silence is kept until h->until; not later than now: none. */
static inline void lend_hush_begin(struct lend_hush *h, lend_ns now)
{
	lend_ns most = h->took ? 2 * h->took : LEND_HUSH_MAX_NS;

	if (h->began == 0)
		h->began = now;
	if (now >= h->rest && most <= LEND_HUSH_MAX_NS) {
		h->until = now + most;
		h->rest = h->until + LEND_HUSH_REST * most;
	}
}

/* One of them was answered: the silence is over. */
static inline void lend_hush_end(struct lend_hush *h, lend_ns now)
{
	lend_ns took = h->began && now > h->began ? now - h->began : 0, most = LEND_HUSH_MAX_NS;

	if (h->began)
		h->took = lend_min_u64(took, most) / LEND_HUSH_LEARN + h->took -
			  h->took / LEND_HUSH_LEARN;
	if (now < h->until) {
		h->rest = now + LEND_HUSH_REST * (now - h->began);
		h->until = now;
	}
	h->began = 0;
}

#endif
