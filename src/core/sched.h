/* sched - which call sends next. The plainest that is fair: a queue, a few datagrams a turn each.
 * Classes are carried and not yet looked at. Layer: core (pure). */
#ifndef LEND_CORE_SCHED_H
#define LEND_CORE_SCHED_H

#include "core/state.h"

enum { LEND_SCHED_BURST = 8 }; /* datagrams of one call before the next has its turn */

/* Has something to send; goes to the end of the queue unless it stands there. */
void lend_sched_ready(struct lend_core *c, struct lend_call_rec *k);
/* Cannot send until its session gets credit or room in flight. */
void lend_sched_wait(struct lend_core *c, struct lend_call_rec *k);
void lend_sched_remove(struct lend_core *c, struct lend_call_rec *k);
/* The session got credit or room: those that waited try again. */
void lend_sched_wake(struct lend_core *c, struct lend_sess *s);

#endif
