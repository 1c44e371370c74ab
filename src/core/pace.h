/* pace - pacing: a timing wheel of the sessions that wait until they may send the next datagram of
 * a long message. O(1) to enter and to leave. A session that waits longer than one turn of the
 * wheel is entered again. Layer: core (pure). In the arena, only under a congestion control that
 * paces. */
#ifndef LEND_CORE_PACE_H
#define LEND_CORE_PACE_H

#include "core/state.h"

/* Returns the size of the wheel in bytes for this enum lend_cc; 0: it does not pace. */
size_t lend_pace_size(uint8_t congestion);
void lend_pace_init(struct lend_core *c, lend_ns now);
/* Puts the session on the wheel until s->pace. */
void lend_pace_add(struct lend_core *c, struct lend_sess *s);
void lend_pace_remove(struct lend_core *c, struct lend_sess *s);
/* Lets every session send that has waited until its time. */
void lend_pace_fire(struct lend_core *c);
/* Returns the time at which lend_pace_fire() has work to do; LEND_NEVER: no session waits. */
lend_ns lend_pace_next(struct lend_core *c);

/* Notes that a datagram of a long message was sent: the next one follows after the gap. Time in
 * which the session sent nothing is not made up for. */
static inline void lend_pace_sent(const struct lend_core *c, struct lend_sess *s)
{
	if (s->cc.gap && !s->lossless)
		s->pace = lend_max_u64(s->pace, c->now) + s->cc.gap;
}

/* Returns whether the session may send now; otherwise puts it on the wheel. */
static inline bool lend_pace_due(struct lend_core *c, struct lend_sess *s)
{
	if (s->pace <= c->now)
		return true;
	lend_pace_add(c, s);
	return false;
}

#endif
