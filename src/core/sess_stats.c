/* sess_stats - statistics of a session. Each query computes them from existing state, so they cost
 * nothing between queries. Layer: core (pure). */
#include "core/core.h"
#include "core/call_record.h"
#include "core/sess.h"
#include "core/short_burst.h"

static uint64_t unsent_bytes(const struct lend_sess *s, const struct lend_tx *t)
{
	uint32_t unit = lend_tx_unit(s, t);
	uint64_t sent = t->win == LEND_NONE && t->next ? t->len : (uint64_t)t->next * unit;

	return (sent < t->len ? t->len - sent : 0) + (uint64_t)t->resend * unit;
}

int lend_core_sess_stats(const struct lend_core *core, uint64_t session,
			 struct lend_core_sess_stats *look)
{
	struct lend_core *c = (struct lend_core *)(uintptr_t)core;
	struct lend_sess *s = lend_sess_find(c, session);
	struct lend_call_rec *k, show;
	uint32_t at = 0;

	if (!s)
		return E_STALE;
	lend_burst_end(c);
	*look = (struct lend_core_sess_stats){.sent = s->number - 1,
					      .seen = s->seen,
					      .rtt = s->srtt,
					      .rtt_var = s->rttvar,
					      .gap = s->cc.gap,
					      .in_flight = (uint32_t)(s->number - s->oldest),
					      .window = lend_cc_window(&s->cc),
					      .credit = s->unscheduled - s->unscheduled_used};
	while ((k = lend_sess_next_call(c, s, &at, &show))) {
		look->calls[k->server][k->class]++;
		look->granted += k->rx.charged;
		if (k->tx.ready.in)
			look->queued[k->class] += unsent_bytes(s, &k->tx);
	}
	return 0;
}
