/* sched - which call sends next.
 *
 * Strict across classes, and within a class what has least left (SRPT), by powers of four of the
 * datagrams left; equals take turns of LEND_SCHED_BURST datagrams. Or within a class what is due
 * first (EDF). So that nothing starves, every class that waits gets its share (share.h), and so
 * does, within a class, every size.
 *
 * Strict classes with SRPT within are those of Homa (SIGCOMM'18), its share for the longest too.
 * Layer: core (pure).
 */
#ifndef LEND_CORE_SCHED_H
#define LEND_CORE_SCHED_H

#include "core/state.h"
#include "util/class.h"

void lend_sched_init(struct lend_core *c);
/* Its class, and whether its datagrams may pass by others in the carrier. */
static inline void lend_sched_class(const struct lend_core *c, struct lend_call_rec *k,
				    uint8_t class)
{
	k->class = class;
	k->fast = class < LEND_CLASS_NORMAL && c->cfg.order != LEND_ORDER_FIFO;
}

/* Cannot send until its session gets credit or room in flight. */
void lend_sched_wait(struct lend_core *c, struct lend_call_rec *k);
/* Nor until the session's carrier takes more. */
void lend_sched_hold(struct lend_core *c, struct lend_call_rec *k);
/* It may: those that were held try again. Who waits for the peer's word does not. */
void lend_sched_unhold(struct lend_core *c, struct lend_sess *s);
void lend_sched_take_off(struct lend_core *c, struct lend_call_rec *k);
static inline void lend_sched_remove(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->tx.ready.in)
		lend_sched_take_off(c, k);
}

/* Has something to send; goes to the end of its queue unless it stands there. */
void lend_sched_enter(struct lend_core *c, struct lend_call_rec *k);
static inline void lend_sched_ready(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->hold || (k->tx.ready.in && !k->waits))
		return;
	lend_sched_remove(c, k);
	lend_sched_enter(c, k);
}

/* Its receiver has no memory for it, or has some again: what was sent goes out anew from fragment
 * low on, and not before. */
void lend_sched_obey(struct lend_core *c, struct lend_call_rec *k, bool wait, uint32_t low);
/* The session got credit or room: those that waited try again. */
void lend_sched_wake_all(struct lend_core *c, struct lend_sess *s);
static inline void lend_sched_wake(struct lend_core *c, struct lend_sess *s)
{
	if (s->waiting.n)
		lend_sched_wake_all(c, s);
}

/* The first of a lane that is not empty, off it. */
struct lend_call_rec *lend_sched_pop(struct lend_core *c, uint32_t lane);
/* The next to send, off its lane; NULL: none. */
struct lend_call_rec *lend_sched_next(struct lend_core *c, uint32_t *lane);
/* Another that goes behind it without a choice: of the same lane, where no other could have come
 * before it. NULL: none, or one has to be chosen. */
static inline struct lend_call_rec *lend_sched_more(struct lend_core *c, uint32_t lane)
{
	if (lane % LEND_SIZES || c->cfg.order == LEND_ORDER_DEADLINE || !c->ready.lane[lane].n)
		return NULL;
	return lend_sched_pop(c, lane);
}

/* It sent n datagrams, and stands where it belongs now. */
void lend_sched_sent(struct lend_core *c, uint32_t lane, uint32_t n);

#endif
