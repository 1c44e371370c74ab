/* pace - sessions that wait until they may send the next datagram of a long message: a timing
 * wheel, O(1) to enter and to leave. Who has to wait longer than a turn of it waits several.
 * Layer: core (pure). In the arena, and only where the congestion control makes anybody wait. */
#ifndef LEND_CORE_PACE_H
#define LEND_CORE_PACE_H

#include "core/state.h"

/* Bytes of a wheel for this enum lend_cc; 0: nobody waits. */
size_t lend_pace_size(uint8_t congestion);
void lend_pace_init(struct lend_core *c, lend_ns now);
/* Onto the wheel, until s->pace. */
void lend_pace_add(struct lend_core *c, struct lend_sess *s);
void lend_pace_remove(struct lend_core *c, struct lend_sess *s);
/* Whose time has come tries again. */
void lend_pace_fire(struct lend_core *c);
/* When fire() has something to do; LEND_NEVER: nobody waits. */
lend_ns lend_pace_next(struct lend_core *c);

/* A datagram of a long message went out: the next one follows after the gap. What was not sent in
 * time is not made up for. */
static inline void lend_pace_sent(const struct lend_core *c, struct lend_sess *s)
{
	if (s->cc.gap && !s->lossless)
		s->pace = lend_max_u64(s->pace, c->now) + s->cc.gap;
}

/* May it send now? Else it is told when. */
static inline bool lend_pace_due(struct lend_core *c, struct lend_sess *s)
{
	if (s->pace <= c->now)
		return true;
	lend_pace_add(c, s);
	return false;
}

#endif
