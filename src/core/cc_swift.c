/* cc_swift - the window follows a target delay: Swift (Kumar and others, SIGCOMM 2020).
 *
 * The target is the minimum RTT, plus an allowance for queues, plus a term that grows as the window
 * shrinks: many small senders need a longer queue to be distinguished. The minimum RTT stands for
 * the number of hops, which is not known here. Below one datagram in flight, the gap between
 * datagrams sets the rate. Layer: core (pure). */
#include "core/cc.h"
#include "util/bits.h"

enum {
	QUEUE = 15000, /* ns of queueing delay without congestion; at least rtt_min / 4 */
	SCALE =
	    13000, /* ns; the target's term for small windows is SCALE / sqrt(window) - SCALE_OFF */
	SCALE_OFF = 1300, /* ns; so that the term is 0 from 100 datagrams on */
	SCALE_MAX = 40000,
	MIN = LEND_CC_ONE / 64,
	CUT = 512,  /* in 1/1024: one cut is at most half of the window */
	BETA = 819, /* in 1/1024: 0.8 of the excess */
};

static uint32_t square_root(uint64_t n)
{
	uint64_t r = 0;

	for (uint64_t bit = UINT64_C(1) << 24; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= n)
			r += bit;
	return (uint32_t)r;
}

static uint32_t target_delay(const struct lend_cc_state *s)
{
	/* The square root of a window in 1/1024 is 32 times that of the window in datagrams. */
	uint32_t more = SCALE * 32 / lend_max_u32(square_root(s->window), 1);

	more = more > SCALE_OFF ? lend_min_u32(more - SCALE_OFF, SCALE_MAX) : 0;
	return s->rtt_min + lend_max_u32(QUEUE, s->rtt_min / 4) + more;
}

static void cut_window(struct lend_cc_state *s, const struct lend_cc_report *r, uint32_t of_1024)
{
	if (!lend_cc_may_cut(s, r))
		return;
	s->window -= (uint32_t)((uint64_t)s->window * lend_min_u32(of_1024, CUT) / 1024);
	s->cut = r->now;
}

/* Adds one datagram per round trip; below one datagram in flight, an eighth of the window for each
 * datagram reported. */
static void grow_window(struct lend_cc_state *s, uint32_t seen)
{
	uint64_t more;

	if (s->window < LEND_CC_ONE) {
		s->window += seen * (s->window / 8 + 1);
		return;
	}
	more = (uint64_t)seen * LEND_CC_ONE * LEND_CC_ONE + s->grown;
	s->window += (uint32_t)(more / s->window);
	s->grown = (uint32_t)(more % s->window);
}

void lend_cc_swift(struct lend_cc_state *s, const struct lend_cc_report *r)
{
	uint32_t target = target_delay(s);

	if (r->lost)
		cut_window(s, r, CUT);
	else if (r->rtt > 0 && s->rtt > target)
		cut_window(s, r, (uint32_t)((uint64_t)BETA * (s->rtt - target) / s->rtt));
	else
		grow_window(s, lend_min_u32(r->seen, LEND_CC_WINDOW_MAX));
	s->window = lend_min_u32(lend_max_u32(s->window, MIN), LEND_CC_WINDOW_MAX * LEND_CC_ONE);
	s->gap = 0;
	if (s->window < LEND_CC_ONE)
		s->gap = (uint32_t)lend_min_u64((uint64_t)s->rtt * LEND_CC_ONE / s->window,
						LEND_CC_GAP_MAX);
}
