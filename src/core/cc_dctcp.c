/* cc_dctcp - DCTCP: the window shrinks in proportion to the fraction of ECN-marked datagrams (RFC
 * 8257); losses are handled as in RFC 5681. Marks are counted per round. A round ends when a
 * datagram sent after its start is reported. The window doubles per round until the first mark or
 * loss. Layer: core (pure). */
#include "core/cc.h"
#include "util/bits.h"

enum { GAIN = 16, ALL = 65536 };

static void cut_window(struct lend_cc_state *s, const struct lend_cc_report *r, uint32_t share)
{
	s->window -= (uint32_t)((uint64_t)s->window * share / (UINT64_C(2) * ALL));
	s->window = lend_max_u32(s->window, LEND_CC_ONE);
	s->cut = r->now;
}

static void end_round(struct lend_cc_state *s, const struct lend_cc_report *r)
{
	uint32_t share = s->seen ? (uint32_t)((uint64_t)s->marked * ALL / s->seen) : 0;

	s->alpha = s->alpha - s->alpha / GAIN + share / GAIN;
	if (s->marked)
		cut_window(s, r, lend_max_u32(s->alpha, 1));
	else if (s->cut)
		s->window += LEND_CC_ONE;
	s->seen = s->marked = 0;
	s->round = r->next;
}

void lend_cc_dctcp(struct lend_cc_state *s, const struct lend_cc_report *r)
{
	s->seen += r->seen;
	s->marked += lend_min_u32(r->marked, r->seen);
	/* The first mark comes at a window size that was not tried before: halve the window, as in
	 * RFC 8257. */
	if (s->marked && !s->cut) {
		s->alpha = ALL;
		cut_window(s, r, ALL);
		s->round = r->next;
		s->seen = s->marked = 0;
	}
	if (r->lost && lend_cc_may_cut(s, r))
		cut_window(s, r, ALL);
	if (!s->cut)
		s->window += r->seen * LEND_CC_ONE;
	if (r->acked >= s->round)
		end_round(s, r);
	s->window = lend_min_u32(s->window, LEND_CC_WINDOW_MAX * LEND_CC_ONE);
}
