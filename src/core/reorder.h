/* reorder - how long a datagram may arrive after others that were sent later.
 *
 * A datagram counts as lost when one that was sent later has arrived and when more time has passed
 * than a round trip and the reordering window (RACK, RFC 8985). The window begins at a quarter of
 * SRTT. Each datagram that is reported after a later one shows how long such a datagram takes: the
 * window is the largest such time and a quarter of it, and decays while none occurs. Unlike RFC
 * 8985, it is not limited to SRTT: the round trip is measured on the fastest path, and 15 us of
 * skew are several round trips of such a path. A session begins with the window of the last one of
 * its peer.
 *
 * A number that was declared lost and is reported later shows that its retransmission was needless.
 * When all losses of an episode were so, the congestion window from before it returns (Eifel,
 * RFC 4015). Retransmissions have numbers of their own, so that is exact.
 *
 * The receiver counts a number as missing when it has not arrived before LEND_REORDER_SETTLED
 * larger ones, and takes that back when it arrives: this is how grant.h learns of losses.
 *
 * The report has a map of 64 numbers only. The receiver keeps numbers that arrived later than that
 * in a second map, which goes into the next report.
 *
 * Layer: core (pure). Part of struct lend_few. */
#ifndef LEND_CORE_REORDER_H
#define LEND_CORE_REORDER_H

#include "core/peer_window.h"

enum { LEND_REORDER_SETTLED = 48, LEND_REORDER_UNIT = 512 };

/* Prepares what lend_few has for long messages, at the first one of a session. */
static inline struct lend_reorder *lend_reorder_of(struct lend_core *c, struct lend_sess *s)
{
	struct lend_reorder *r = &lend_few_of(c, s)->reorder;

	if (!s->has_reorder) {
		*r = (struct lend_reorder){.window = (uint32_t)lend_peer_of(c, s)->reorder *
						     LEND_REORDER_UNIT,
					   .at = c->now};
		s->has_reorder = 1;
	}
	return r;
}

/* Returns how long after its transmission a datagram is lost that others have passed. */
lend_ns lend_reorder_limit(const struct lend_sess *s, const struct lend_reorder *r);
/* Notes that a datagram was reported after a later one, `flew` after its transmission. in_time: it
 * had not been declared lost. */
void lend_reorder_note(struct lend_core *c, struct lend_sess *s, lend_ns flew, bool in_time);
/* Notes that n datagrams were declared lost, before congestion control learns of it. */
void lend_reorder_lost(struct lend_core *c, struct lend_sess *s, uint32_t n);
/* Keeps the window of a session that ends, for the next one of its peer. */
void lend_reorder_keep(struct lend_core *c, const struct lend_sess *s);
/* Lets the window decay. */
void lend_reorder_decay(const struct lend_core *c, struct lend_reorder *r);

/* Notes the arrival of a number that is too far below the largest for the map of a report. */
void lend_reorder_late(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Reverts that. */
void lend_reorder_forget(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Notes the arrival of a number that may count as missing. */
void lend_reorder_found(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Notes the arrival of a datagram of a granted message: see lend_reorder.came. */
static inline void lend_reorder_came(struct lend_reorder *r)
{
	r->came = lend_min_u32(r->came + 1, 256);
}

/* Puts the map of late numbers into a report instead of the usual one, if there are any. */
void lend_reorder_report(struct lend_core *c, struct lend_sess *s, struct lend_pkt_seen *seen);

#endif
