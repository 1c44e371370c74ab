/* timer - sessions by wake-up time: O(1) to set, move and remove, for any number of sessions.
 *
 * A wheel of nine levels of 64 slots. A slot of the first level is 1,024 ns wide, a slot of each
 * further level as wide as the whole level below it. The level of a session is given by the highest
 * bits in which its time differs from the wheel's. So the slots of a level are in order of time,
 * and none is reached twice. Each slot has its earliest time, and the wheel the earliest of all, so
 * the thread does not wake for a slot that only has to be spread over finer ones. After a removal
 * these earliest times may be too early, never too late.
 *
 * If the new time of a session is later, its entry stays and is moved when that slot's time has
 * come. So a timer that each call sets again costs one store.
 *
 * The entries are in an array of their own, 24 bytes each, so moving a session touches no other
 * session's state. Layer: core (pure). In the arena. */
#ifndef LEND_CORE_TIMER_H
#define LEND_CORE_TIMER_H

#include "core/state.h"

/* Returns the bytes of a wheel for this number of sessions. */
size_t lend_timer_size(uint32_t sessions);
/* Makes the wheel empty and sets its time. */
void lend_timer_init(struct lend_core *c, lend_ns now);
/* Wakes s at this time instead of the one set before; LEND_NEVER: not at all. */
void lend_timer_set(struct lend_core *c, struct lend_sess *s, lend_ns at);
/* Wakes s at this time unless it is woken earlier. A later time costs nothing: the timer fires
 * early once and is set again. */
static inline void lend_timer_earlier(struct lend_core *c, struct lend_sess *s, lend_ns at)
{
	if (at < s->timer)
		lend_timer_set(c, s, at);
}

/* Prefetches the entry of a session. */
void lend_timer_fetch(const struct lend_core *c, uint32_t session);
/* Removes and returns a session that is due; NULL: none. Sessions are returned in order of their
 * slots. */
struct lend_sess *lend_timer_due(struct lend_core *c);
/* Returns the earliest time at which due() may return a session; LEND_NEVER: the wheel is empty. */
lend_ns lend_timer_next(const struct lend_core *c);
/* Checks the whole wheel, for audits. Returns the error text; NULL: the wheel is consistent. */
const char *lend_timer_audit(struct lend_core *c);

#endif
