/* timer - sessions by when they wake: O(1) to set, to move and to take out, however many there are.
 *
 * A wheel of nine levels of 64 slots: a slot of the first is 1,024 ns wide, one of the next as wide
 * as all of the level below it. A session stands in the level of the highest bits in which its time
 * differs from the wheel's, so within a level slots are in order of time, and none is met twice.
 * Each slot knows its earliest time, and the wheel the earliest of all: nobody wakes for a slot
 * that only has to be spread over finer ones. A time that was taken out may leave that too early,
 * never too late.
 *
 * Who is to wake later than it stands keeps its place, and is moved on when that slot's time has
 * come: so a timer that is set anew with each call is one number written.
 *
 * Places lie in an array of their own, 24 bytes each: moving a session touches no session beside
 * it. Layer: core (pure). In the arena. */
#ifndef LEND_CORE_TIMER_H
#define LEND_CORE_TIMER_H

#include "core/state.h"

/* Bytes of a wheel for so many sessions. */
size_t lend_timer_size(uint32_t sessions);
/* Empty, at this time. */
void lend_timer_init(struct lend_core *c, lend_ns now);
/* Wakes s at this time and at no other; LEND_NEVER: not at all. */
void lend_timer_set(struct lend_core *c, struct lend_sess *s, lend_ns at);
/* Its place, on its way to the caches. */
void lend_timer_fetch(const struct lend_core *c, uint32_t session);
/* A session whose time has come, off the wheel; NULL: none. They come in order of their slots. */
struct lend_sess *lend_timer_due(struct lend_core *c);
/* When due() may have one; LEND_NEVER: there are none. */
lend_ns lend_timer_next(const struct lend_core *c);
/* What is wrong with it; NULL: nothing. For audits: looks at everything. */
const char *lend_timer_audit(struct lend_core *c);

#endif
