/* bulk_pause - pause of long messages while an urgent call waits for its reply.
 *
 * While an endpoint transmits a datagram of 16 to 64 KB, it receives a reply some microseconds
 * later. So after an urgent call was sent, less urgent messages pause for twice the smoothed
 * duration of such calls, or until a reply arrives. There is no pause if it would exceed
 * LEND_BULK_PAUSE_MAX_NS. Pauses take at most a quarter of the time, however many urgent calls
 * there are. Layer: rpc (pure). Lives by value in its owner; initially all zero. */
#ifndef LEND_RPC_BULK_PAUSE_H
#define LEND_RPC_BULK_PAUSE_H

#include "util/bits.h"
#include "util/dgram.h"

enum {
	LEND_BULK_PAUSE_MAX_NS = 50000,
	LEND_BULK_PAUSE_REST = 3,  /* minimum time between pauses, as a multiple of the pause */
	LEND_BULK_PAUSE_LEARN = 8, /* a call's weight in the smoothed duration is 1/8 */
};

struct lend_bulk_pause {
	lend_ns began; /* start of the call that is measured; 0: none */
	lend_ns until;
	lend_ns rest; /* no pause begins before this time */
	lend_ns took; /* smoothed duration of urgent calls */
};

/* Records that an urgent call is sent. Long messages pause until h->until; if that is not later
 * than now, there is no pause. */
static inline void lend_bulk_pause_begin(struct lend_bulk_pause *h, lend_ns now)
{
	lend_ns most = h->took ? 2 * h->took : LEND_BULK_PAUSE_MAX_NS;

	if (h->began == 0)
		h->began = now;
	if (now >= h->rest && most <= LEND_BULK_PAUSE_MAX_NS) {
		h->until = now + most;
		h->rest = h->until + LEND_BULK_PAUSE_REST * most;
	}
}

/* Records that an urgent call was answered, and ends the pause. */
static inline void lend_bulk_pause_end(struct lend_bulk_pause *h, lend_ns now)
{
	lend_ns took = h->began && now > h->began ? now - h->began : 0,
		most = LEND_BULK_PAUSE_MAX_NS;

	if (h->began)
		h->took = lend_min_u64(took, most) / LEND_BULK_PAUSE_LEARN + h->took -
			  h->took / LEND_BULK_PAUSE_LEARN;
	if (now < h->until) {
		h->rest = now + LEND_BULK_PAUSE_REST * (now - h->began);
		h->until = now;
	}
	h->began = 0;
}

#endif
