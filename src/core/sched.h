/* sched - which call sends next.
 *
 * Strict across classes, and within a class what has least left (SRPT), by powers of four of the
 * datagrams left; equals take turns of LEND_SCHED_BURST datagrams. Or within a class what is due
 * first (EDF). So that nothing starves, every class that waits gets its share (fair_share.h), and
 * so does, within a class, every size.
 *
 * Who is to send one datagram, while nobody but its equals is ready, stands in a plain array: most
 * calls of a server that answers at once, and of a client that waits for nobody. As soon as anybody
 * else comes they all go to their lane.
 *
 * Strict classes with SRPT within are those of Homa (SIGCOMM'18), its share for the longest too.
 * Layer: core (pure).
 */
#ifndef LEND_CORE_SCHED_H
#define LEND_CORE_SCHED_H

#include "core/state.h"
#include "util/traffic_class.h"

/* Why a call waits: the list that its link is on. */
enum { LEND_WAITS_CREDIT = 1, LEND_WAITS_CARRIER, LEND_WAITS_WINDOW };

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

/* Into its lane. */
void lend_sched_enter_lane(struct lend_core *c, struct lend_call_rec *k);
/* Who is quick goes to a lane like everybody. */
void lend_sched_settle(struct lend_core *c);
/* Among those who are quick. False: it is not their equal. */
static inline bool lend_sched_quick(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_ready *r = &c->ready;
	uint32_t lane = c->cfg.order == LEND_ORDER_FIFO ? 0 : k->class * LEND_SIZES;

	if (r->n != r->quick_n || r->n == LEND_OUT || k->tx.win != LEND_NONE ||
	    c->cfg.order == LEND_ORDER_DEADLINE)
		return false;
	if (r->n == 0)
		r->quick_lane = lane;
	else if (r->quick_lane != lane)
		return false;
	k->tx.ready.in = 1;
	r->quick[r->n++] = k->self;
	r->quick_n = r->n;
	return true;
}

/* Has something to send; goes to the end of its queue unless it stands there. */
LEND_HOT void lend_sched_enter(struct lend_core *c, struct lend_call_rec *k)
{
	if (!lend_sched_quick(c, k))
		lend_sched_enter_lane(c, k);
}

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
/* It sent n datagrams, and stands where it belongs now. */
void lend_sched_sent(struct lend_core *c, uint32_t lane, uint32_t n);
/* All who are quick, off their array: how many. While they are sent nobody becomes quick. */
static inline uint32_t lend_sched_take_quick(struct lend_core *c)
{
	uint32_t n = c->ready.quick_n;

	c->ready.quick_n = 0;
	return n;
}

/* These n have sent so many datagrams. They went before nobody, but may have been due a share. */
static inline void lend_sched_quick_sent(struct lend_core *c, uint32_t n, uint32_t datagrams)
{
	struct lend_ready *r = &c->ready;
	uint32_t class = r->quick_lane / LEND_SIZES;

	r->n -= n;
	if (r->classes.passed[class] | r->sizes[class].passed[0])
		lend_sched_sent(c, r->quick_lane, datagrams);
}

/* A bit for each class that has something to send. */
static inline uint32_t lend_sched_classes(const struct lend_core *c)
{
	const struct lend_ready *r = &c->ready;

	return r->classes.waiting | (r->quick_n ? 1u << r->quick_lane / LEND_SIZES : 0);
}

/* The next to send, off its lane; NULL: none. Nobody is quick. */
struct lend_call_rec *lend_sched_next(struct lend_core *c, uint32_t *lane);
/* Another that goes behind it without a choice: of the same lane, where no other could have come
 * before it. NULL: none, or one has to be chosen. */
static inline struct lend_call_rec *lend_sched_more(struct lend_core *c, uint32_t lane)
{
	if (lane % LEND_SIZES || c->cfg.order == LEND_ORDER_DEADLINE || !c->ready.lane[lane].n)
		return NULL;
	return lend_sched_pop(c, lane);
}

#endif
