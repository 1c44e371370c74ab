/* rto - the retransmission timeout of a session. Layer: core (pure). */
#ifndef LEND_CORE_RTO_H
#define LEND_CORE_RTO_H

#include "core/state.h"

/* Returns the timeout after this many expiries without progress (RFC 6298). */
static inline lend_ns lend_loss_rto(const struct lend_sess *s, unsigned tries)
{
	lend_ns base = s->srtt ? s->srtt + 4 * s->rttvar : LEND_RTO_FIRST;

	base = lend_max_u64(base, s->lossless ? LEND_RTO_LOSSLESS : LEND_RTO_MIN);
	return lend_min_u64(base << lend_min_u32(tries, 12), LEND_RTO_MAX);
}

#endif
