/* cc_timely - the rate follows the RTT gradient: Timely (Mittal and others, SIGCOMM 2015) with the
 * constants and the patched gradient of eRPC, which is the published comparison for this runtime.
 * Layer: core (pure). */
#include "core/cc.h"
#include "util/bits.h"

enum {
	LOW = 50000,      /* ns: a shorter RTT is no congestion */
	HIGH = 1000000,   /* ns: a longer RTT is congestion, whatever the gradient */
	RATE_MAX = 12500, /* bytes per us: 100 Gb/s */
	RATE_MIN = 15,
	ADD = 5,       /* bytes per us */
	EWMA = 471,    /* in 1/1024: 0.46 */
	DECAY = 266,   /* in 1/1024: 0.26 */
	QUARTER = 256, /* in 1/1024: gradients beyond it count in full */
};

/* Returns the part of the rate to keep, of 1024, for an RTT above HIGH. */
static uint32_t keep_above(uint32_t rtt)
{
	return 1024 - DECAY + (uint32_t)((uint64_t)DECAY * HIGH / rtt);
}

/* Returns 0 if the RTT falls by rtt_min / 4 or more per sample, 1024 if it rises by as much. */
static uint32_t gradient_weight(const struct lend_cc_state *s)
{
	int64_t gradient = (int64_t)s->slope * 1024 / lend_max_u32(s->rtt_min, 1);

	if (gradient <= -QUARTER)
		return 0;
	return gradient >= QUARTER ? 1024 : (uint32_t)(2 * gradient + 512);
}

static uint32_t follow_gradient(const struct lend_cc_state *s)
{
	uint32_t w = gradient_weight(s), err = (uint32_t)((uint64_t)(s->rtt - LOW) * 1024 / LOW);
	uint64_t less = (uint64_t)s->rate * DECAY * w / 1024 * err / (1024 * 1024);

	return s->rate - (uint32_t)lend_min_u64(less, s->rate / 2) + ADD * (1024 - w) / 1024;
}

static uint32_t next_rate(const struct lend_cc_state *s)
{
	if (s->rtt < LOW)
		return s->rate + ADD;
	if (s->rtt <= HIGH)
		return follow_gradient(s);
	return (uint32_t)((uint64_t)s->rate * keep_above(s->rtt) / 1024);
}

void lend_cc_timely(struct lend_cc_state *s, const struct lend_cc_report *r)
{
	int64_t step = s->seen ? (int64_t)s->rtt - s->marked : 0, slope;

	if (r->rtt == 0 || r->rtt >= UINT32_MAX)
		return;
	/* Timely keeps the previous RTT in `marked`, and in `seen` a flag that there is one. */
	s->seen = 1;
	s->marked = s->rtt;
	slope = ((1024 - EWMA) * (int64_t)s->slope + EWMA * step) / 1024;
	s->slope = (int32_t)(slope > INT32_MAX ? INT32_MAX : slope < INT32_MIN ? INT32_MIN : slope);
	s->rate = s->rate ? next_rate(s) : RATE_MAX;
	s->rate = lend_min_u32(lend_max_u32(s->rate, RATE_MIN), RATE_MAX);
	/* At the full rate, datagrams are not paced: the bypass of eRPC. */
	s->gap = s->rate == RATE_MAX ? 0
				     : (uint32_t)lend_min_u64((uint64_t)r->payload * 1000 / s->rate,
							      LEND_CC_GAP_MAX);
}
