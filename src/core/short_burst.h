/* short_burst - runs of calls, or of replies, that share a datagram.
 *
 * A caller that starts several calls in one event-loop iteration, or a server that answers several,
 * needs the session's limits, its open datagram and its timer once for all of them. So the first
 * message opens a burst: it checks what is the same for the next ones, and how many of them the
 * limits permit. A further message of the same session and class is only compared with the burst,
 * and writes its slot and its frame. The sums are added to the session, to its peer and to the core
 * at the end of the burst. Until then those of calls are too low, and those of replies too high, so
 * each function of core.h that decides by them ends the burst first.
 *
 * Layer: core (pure). In the part of the arena that is not hashed: between two functions of core.h
 * that do not begin a message, no burst is open. */
#ifndef LEND_CORE_SHORT_BURST_H
#define LEND_CORE_SHORT_BURST_H

#include "core/arena.h"

/* Returns the client slots that short calls may use, of the first 64. */
LEND_HOT uint64_t lend_burst_slots(const struct lend_sess *s)
{
	uint32_t n = lend_min_u32(s->limit, s->cslots);

	return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

void lend_burst_settle(struct lend_core *c);

/* Ends the burst that is open, if any. */
static inline void lend_burst_end(struct lend_core *c)
{
	if (LEND_RARE(c->in_burst))
		lend_burst_settle(c);
}

#endif
