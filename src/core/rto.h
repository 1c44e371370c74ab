/* rto - the retransmission timeout of a session. Layer: core (pure). */
#ifndef LEND_CORE_RTO_H
#define LEND_CORE_RTO_H

#include "core/state.h"

/* Sets the timeout from SRTT and RTTVAR. */
static inline void lend_loss_set_rto(struct lend_sess *s)
{
	lend_ns base = s->srtt ? s->srtt + UINT64_C(4) * s->rttvar : LEND_RTO_FIRST;

	base = lend_max_u64(base, s->lossless ? LEND_RTO_LOSSLESS : LEND_RTO_MIN);
	s->rto = (uint32_t)lend_min_u64(base, LEND_RTO_MAX);
}
_Static_assert(LEND_RTO_MAX <= UINT32_MAX, "lend_sess.rto");

/* Returns the timeout after this many expiries without progress (RFC 6298). */
static inline lend_ns lend_loss_rto(const struct lend_sess *s, unsigned tries)
{
	return lend_min_u64((lend_ns)s->rto << lend_min_u32(tries, 12), LEND_RTO_MAX);
}

#endif
