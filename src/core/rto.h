/* rto - timeouts of a session. The first one of a call is short and causes one probe per session:
 * most often a burst has lost its last datagram, which no later one shows (RFC 8985, 7.2). The
 * following ones are the retransmission timeout, doubled each time (RFC 6298).
 *
 * A probe that finds its call running was needless. It doubles the least first timeout, so slow
 * handlers are not probed. That decays with RTT samples. Layer: core (pure). */
#ifndef LEND_CORE_RTO_H
#define LEND_CORE_RTO_H

#include "core/state.h"

#define LEND_PTO_MIN (22 * LEND_US) /* longer than LEND_REPORT */

/* Returns the retransmission timeout after this many expiries without progress. */
static inline lend_ns lend_loss_rto(const struct lend_sess *s, unsigned tries)
{
	lend_ns base = s->srtt ? s->srtt + UINT64_C(4) * s->rttvar : LEND_RTO_FIRST;

	base = lend_max_u64(base, s->lossless ? LEND_RTO_LOSSLESS : LEND_RTO_MIN);
	return lend_min_u64(base << lend_min_u32(tries, 12), LEND_RTO_MAX);
}

/* Sets the first timeout from SRTT and RTTVAR. */
static inline void lend_loss_set_pto(struct lend_sess *s)
{
	lend_ns least = lend_max_u64(s->pto_min, LEND_PTO_MIN), rto = lend_loss_rto(s, 0),
		pto = lend_max_u64(UINT64_C(2) * s->srtt + UINT64_C(4) * s->rttvar, least);

	s->pto = (uint32_t)(s->lossless || !s->srtt ? rto : lend_min_u64(pto, rto));
}
_Static_assert(LEND_RTO_MAX <= UINT32_MAX, "lend_sess.pto");

/* Returns the timeout of a call after this many of its timers have expired. */
static inline lend_ns lend_call_timeout(const struct lend_sess *s, unsigned tries)
{
	return tries ? lend_loss_rto(s, tries - 1) : s->pto;
}

/* Returns whether a probe of the session was sent less than a first timeout ago. */
static inline bool lend_loss_probed(const struct lend_sess *s, lend_ns now)
{
	return s->probed && (uint32_t)(now / LEND_SENT_UNIT) - s->probed < s->pto / LEND_SENT_UNIT;
}

/* Notes a probe that found its call running. */
static inline void lend_loss_probe_needless(struct lend_sess *s)
{
	s->pto_min = (uint32_t)lend_min_u64(
	    LEND_RTO_MIN, lend_max_u64(UINT64_C(2) * s->pto_min, 2 * LEND_PTO_MIN));
	lend_loss_set_pto(s);
}

#endif
