#include "core/seen.h"

#include "core/reorder.h"
#include "wire/head.h"

bool lend_seen_note_other(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	uint64_t back;

	if (number > s->seen || s->seen_at == 0) {
		s->seen_map = s->seen_at == 0 ? 0 : lend_seen_shift(s->seen_map, number - s->seen);
		s->seen = number;
		s->seen_at = c->now + !c->now;
		lend_seen_predict(c, s);
		return false;
	}
	back = s->seen - number;
	if (back == 0)
		return true;
	if (back <= 64 && s->seen_map >> (back - 1) & 1)
		return true;
	if (back > LEND_REORDER_SETTLED && s->has_reorder)
		lend_reorder_found(c, s, number);
	if (back <= 64)
		s->seen_map |= UINT64_C(1) << (back - 1);
	else if (!s->lossless && s->features & LEND_FEATURE_LATE)
		lend_reorder_late(c, s, number);
	return false; /* beyond the map, its call recognises a duplicate */
}

void lend_seen_forget(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	uint64_t back = s->seen - number;

	if (number > s->seen)
		return;
	if (s->has_reorder)
		lend_reorder_forget(c, s, number);
	if (back > 64)
		return;
	if (back > 0) {
		s->seen_map &= ~(UINT64_C(1) << (back - 1));
	} else if (s->seen_map == 0) {
		s->seen = 0;
		s->seen_at = 0;
		s->predicted = 0;
	} else {
		back = (uint64_t)__builtin_ctzll(s->seen_map);
		s->seen -= back + 1;
		s->seen_map = back == 63 ? 0 : s->seen_map >> (back + 1);
	}
}

static uint32_t clamp_delay(lend_ns d)
{
	return d < UINT32_MAX ? (uint32_t)d : UINT32_MAX;
}

void lend_seen_report(struct lend_core *c, struct lend_sess *s, struct lend_pkt_seen *seen)
{
	seen->acked = s->seen;
	seen->map = s->seen_map;
	seen->delay_ns = clamp_delay(c->now - s->seen_at);
	seen->ecn = s->ecn;
	if (s->has_reorder)
		lend_reorder_report(c, s, seen);
	s->unacked = 0;
	s->ack_due = 0;
	s->ack_timer = LEND_NEVER;
}
