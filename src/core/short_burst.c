#include "core/short_burst.h"

#include "core/call_record.h"
#include "core/coalesce.h"
#include "core/timer.h"

static void settle_calls(struct lend_core *c, const struct lend_burst *b, struct lend_sess *s,
			 lend_ns due)
{
	uint64_t taken = s->slots & ~b->slots & lend_burst_slots(s);

	s->slots &= ~taken;
	s->room = (int16_t)(s->room - (int32_t)b->n);
	c->used[0] += b->n;
	lend_peer_of(c, s)->used += b->bytes;
	lend_call_count(c, s, 63u - (uint32_t)__builtin_clzll(taken));
	s->calls = (uint16_t)(s->calls + b->n - 1);
	lend_timer_earlier(c, s, lend_min_u64(due, b->earliest));
}

static void settle_replies(struct lend_core *c, const struct lend_burst *b, struct lend_sess *s)
{
	c->used[1] -= b->n;
	s->calls = (uint16_t)(s->calls - b->n + 1);
	lend_call_uncount(c, s);
}

__attribute__((noinline)) void lend_burst_settle(struct lend_core *c)
{
	struct lend_burst *b = &lend_unhashed(c)->burst;
	struct lend_coalesced *d = lend_coalesced_at(c, b->entry);
	struct lend_sess *s = lend_sess_at(c, b->sess);

	d->at = (uint32_t)(b->frame - (size_t)((char *)d->bytes - (char *)c));
	d->frames += b->n;
	c->several[!b->calls] = d->frames > 1;
	c->in_burst = 0;
	if (b->calls)
		settle_calls(c, b, s, d->due);
	else
		settle_replies(c, b, s);
	b->calls = 0;
	b->replies = 0;
	b->left = 0; /* so that a call of session 0 does not continue it */
}
