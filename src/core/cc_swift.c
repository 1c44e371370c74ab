/* cc_swift - the window follows a target for the delay: Swift (Kumar and others, SIGCOMM 2020).
 *
 * The target is what the way takes when it is empty, which stands for the number of hops (nobody
 * tells us of them), plus a share for queues, plus more the smaller the window: many small senders
 * need a longer queue to be told apart. Below one datagram in flight the gap is what counts.
 * Layer: core (pure). */
#include "core/cc.h"
#include "util/bits.h"

enum {
	QUEUE = 15000,    /* ns of queue that is no congestion; or a quarter of the empty way */
	SCALE = 13000,    /* ns over the root of the window ... */
	SCALE_OFF = 1300, /* less this: nothing is left of it at 100 datagrams */
	SCALE_MAX = 40000,
	MIN = LEND_CC_ONE / 64,
	CUT = 512,  /* of 1024: never more than half at once */
	BETA = 819, /* of 1024: 0.8 of the excess */
};

static uint32_t root(uint64_t n)
{
	uint64_t r = 0;

	for (uint64_t bit = UINT64_C(1) << 24; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= n)
			r += bit;
	return (uint32_t)r;
}

static uint32_t target(const struct lend_cc_state *s)
{
	/* The root of a window in 1/1024 is 32 times the root of one in datagrams. */
	uint32_t more = SCALE * 32 / lend_max_u32(root(s->window), 1);

	more = more > SCALE_OFF ? lend_min_u32(more - SCALE_OFF, SCALE_MAX) : 0;
	return s->rtt_min + lend_max_u32(QUEUE, s->rtt_min / 4) + more;
}

static void cut(struct lend_cc_state *s, const struct lend_cc_report *r, uint32_t of_1024)
{
	if (!lend_cc_may_cut(s, r))
		return;
	s->window -= (uint32_t)((uint64_t)s->window * lend_min_u32(of_1024, CUT) / 1024);
	s->cut = r->now;
}

/* One datagram more per round trip, whatever the window. */
static void grow(struct lend_cc_state *s, uint32_t seen)
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
	uint32_t want = target(s);

	if (r->lost)
		cut(s, r, CUT);
	else if (r->rtt > 0 && s->rtt > want)
		cut(s, r, (uint32_t)((uint64_t)BETA * (s->rtt - want) / s->rtt));
	else
		grow(s, lend_min_u32(r->seen, LEND_CC_WINDOW_MAX));
	s->window = lend_min_u32(lend_max_u32(s->window, MIN), LEND_CC_WINDOW_MAX * LEND_CC_ONE);
	s->gap = 0;
	if (s->window < LEND_CC_ONE)
		s->gap = (uint32_t)lend_min_u64((uint64_t)s->rtt * LEND_CC_ONE / s->window,
						LEND_CC_GAP_MAX);
}
