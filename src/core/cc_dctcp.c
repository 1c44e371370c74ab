/* cc_dctcp - DCTCP: the window shrinks in proportion to the fraction of ECN-marked datagrams (RFC
 * 8257); losses are handled as in RFC 5681. Marks are counted per round. A round ends when a
 * datagram sent after its start is reported. The window doubles per round until the first mark or
 * loss.
 *
 * Under the receiver's grants (`credit`), losses are judged per 64 datagrams: up to one of 32 lost
 * is random and cuts nothing, more cuts by the share that was lost. After a cut, the window grows
 * by a quarter per round without marks. Layer: core (pure). */
#include "core/cc.h"
#include "util/bits.h"

enum { GAIN = 16, ALL = 65536, SAMPLE = 64, TOLERATED = 32 };

static void cut_window(struct lend_cc_state *s, const struct lend_cc_report *r, uint32_t share)
{
	s->window -= (uint32_t)((uint64_t)s->window * share / (UINT64_C(2) * ALL));
	s->window = lend_max_u32(s->window, LEND_CC_ONE);
	s->cut = r->now;
}

static void end_round(struct lend_cc_state *s, const struct lend_cc_report *r, bool granted)
{
	uint32_t share = s->seen ? (uint32_t)((uint64_t)s->marked * ALL / s->seen) : 0;

	s->alpha = s->alpha - s->alpha / GAIN + share / GAIN;
	if (s->marked)
		cut_window(s, r, lend_max_u32(s->alpha, 1));
	else if (s->cut)
		s->window += LEND_CC_ONE + (granted ? s->window / 4 : 0);
	s->seen = s->marked = 0;
	s->round = r->next;
}

/* Cuts the window if too many of the newest datagrams were lost. */
static void judge_losses(struct lend_cc_state *s, const struct lend_cc_report *r)
{
	uint32_t all;

	s->lost = (uint16_t)lend_min_u32(s->lost + r->lost, UINT16_MAX);
	s->came = (uint16_t)lend_min_u32(s->came + r->seen, UINT16_MAX);
	all = (uint32_t)s->lost + s->came;
	if (all < SAMPLE)
		return;
	if (s->lost * (uint32_t)TOLERATED > all && lend_cc_may_cut(s, r))
		cut_window(s, r, lend_min_u32(ALL, (uint32_t)(UINT64_C(2) * ALL * s->lost / all)));
	s->lost = s->came = 0;
}

void lend_cc_dctcp(struct lend_cc_state *s, const struct lend_cc_report *r, bool granted)
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
	if (granted)
		judge_losses(s, r);
	else if (r->lost && lend_cc_may_cut(s, r))
		cut_window(s, r, ALL);
	if (!s->cut)
		s->window += r->seen * LEND_CC_ONE;
	if (r->acked >= s->round)
		end_round(s, r, granted);
	s->window = lend_min_u32(s->window, LEND_CC_WINDOW_MAX * LEND_CC_ONE);
}
