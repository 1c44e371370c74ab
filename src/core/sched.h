/* sched - which call sends next.
 *
 * Strict priority across classes. Within a class, messages of one datagram go first, then the
 * message with the fewest datagrams left (SRPT), by powers of four; equals alternate in bursts of
 * LEND_SCHED_BURST datagrams. Or the earliest deadline goes first within a class (EDF). To prevent
 * starvation, every waiting class gets its share (fair_share.h), and within a class every size
 * does.
 *
 * Calls that send a single datagram, while only equal calls are ready, are kept in a plain array,
 * the fast path. This is the common case of a server that answers at once and of a client that
 * sends without waiting. When any other call becomes ready, all calls of the array move to their
 * queue. There is one queue per class and size of the rest.
 *
 * Strict classes with SRPT within them are those of Homa (SIGCOMM'18), as is the share for the
 * longest messages. Layer: core (pure). */
#ifndef LEND_CORE_SCHED_H
#define LEND_CORE_SCHED_H

#include "core/state.h"
#include "util/traffic_class.h"

/* Why a call waits, which selects the list that its link is on. */
enum { LEND_WAITS_CREDIT = 1, LEND_WAITS_CARRIER, LEND_WAITS_WINDOW };

void lend_sched_init(struct lend_core *c);
/* Returns whether datagrams of this class may overtake others in the carrier. */
static inline bool lend_sched_is_fast(const struct lend_core *c, uint8_t class)
{
	return class < LEND_CLASS_NORMAL && c->cfg.order != LEND_ORDER_FIFO;
}

static inline void lend_sched_class(const struct lend_core *c, struct lend_call_rec *k,
				    uint8_t class)
{
	k->class = class;
	k->fast = lend_sched_is_fast(c, class);
}

enum { LEND_SCHED_SHORT = 3 }; /* datagrams of a message that does not yield to shorter ones */

/* Returns the traffic class of a call's datagrams. Those of a long message go one class lower, so
 * that switches let shorter messages overtake them. Messages of up to LEND_SCHED_SHORT datagrams
 * that need no grant keep their class: they must not wait behind the queue of those with grants. */
static inline uint8_t lend_sched_wire_class(const struct lend_sess *s,
					    const struct lend_call_rec *k)
{
	bool yields = k->tx.win != LEND_NONE && !s->lossless &&
		      k->tx.len > lend_min_u32(s->first, LEND_SCHED_SHORT * s->payload);

	return (uint8_t)lend_min_u32(k->class + yields, LEND_CLASSES - 1);
}

/* Lets the call wait until its session gets credit or room in flight. */
void lend_sched_wait(struct lend_core *c, struct lend_call_rec *k);
/* Lets the call wait until the session's carrier has room again. */
void lend_sched_block(struct lend_core *c, struct lend_call_rec *k);
/* Makes the calls that waited for the carrier ready, because it has room again. Calls that wait for
 * credit or room in flight keep waiting. */
void lend_sched_unblock(struct lend_core *c, struct lend_sess *s);
void lend_sched_take_off(struct lend_core *c, struct lend_call_rec *k);
static inline void lend_sched_remove(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->tx.ready.in)
		lend_sched_take_off(c, k);
}

/* Appends the call to its queue. */
void lend_sched_enter_queue(struct lend_core *c, struct lend_call_rec *k);
/* Moves all calls of the fast-path array to their queues. */
void lend_sched_settle(struct lend_core *c);
/* Adds the call to the fast-path array. False: it is not equal to the calls there. */
static inline bool lend_sched_single(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_ready *r = &c->ready;
	uint32_t queue = c->cfg.order == LEND_ORDER_FIFO ? 0 : k->class * LEND_SIZES;

	if (r->n != r->single_n || r->n == LEND_OUT || k->tx.win != LEND_NONE ||
	    c->cfg.order == LEND_ORDER_DEADLINE)
		return false;
	if (r->n == 0)
		r->single_queue = queue;
	else if (r->single_queue != queue)
		return false;
	k->tx.ready.in = 1;
	r->single[r->n++] = k->self;
	r->single_n = r->n;
	return true;
}

/* Makes a call ready to send: appends it to its queue. */
LEND_HOT void lend_sched_enter(struct lend_core *c, struct lend_call_rec *k)
{
	if (!lend_sched_single(c, k))
		lend_sched_enter_queue(c, k);
}

static inline void lend_sched_ready(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->paused || (k->tx.ready.in && !k->waits))
		return;
	lend_sched_remove(c, k);
	lend_sched_enter(c, k);
}

/* Handles the receiver's state of memory for this message. wait: there is none, so nothing more is
 * sent until the receiver has memory again; then the message is sent again from fragment low on. */
void lend_sched_apply_wait(struct lend_core *c, struct lend_call_rec *k, bool wait, uint32_t low);
/* Makes the session's waiting calls ready after it got credit or room. */
void lend_sched_wake_all(struct lend_core *c, struct lend_sess *s);
static inline void lend_sched_wake(struct lend_core *c, struct lend_sess *s)
{
	if (s->waiting.n)
		lend_sched_wake_all(c, s);
}

/* Removes and returns the first call of a queue, which must not be empty. */
struct lend_call_rec *lend_sched_pop(struct lend_core *c, uint32_t queue);
/* Counts n units (of fair_share.h) that calls of this queue sent, after these calls were queued
 * again. */
void lend_sched_sent(struct lend_core *c, uint32_t queue, uint32_t n);
/* Empties the fast-path array and returns how many calls it held. No call may be added while these
 * are sent. */
static inline uint32_t lend_sched_take_single(struct lend_core *c)
{
	uint32_t n = c->ready.single_n;

	c->ready.single_n = 0;
	return n;
}

/* Returns whether what calls of this queue send must be counted: others wait or have waited. */
static inline bool lend_sched_counts(const struct lend_core *c, uint32_t queue)
{
	uint32_t class = queue / LEND_SIZES;

	return lend_fair_share_counts(&c->ready.classes, class) ||
	       lend_fair_share_counts(&c->ready.sizes[class], queue % LEND_SIZES);
}

/* Returns a bit for each class that has datagrams to send. */
static inline uint32_t lend_sched_classes(const struct lend_core *c)
{
	const struct lend_ready *r = &c->ready;

	return r->classes.waiting | (r->single_n ? 1u << r->single_queue / LEND_SIZES : 0);
}

/* Removes and returns the next call to send; NULL: none. The fast-path array must be empty. */
struct lend_call_rec *lend_sched_next(struct lend_core *c, uint32_t *queue);
/* Returns another call of this queue that may follow without a new choice, because no other queue
 * can come first. NULL: there is none, or a choice is needed. */
static inline struct lend_call_rec *lend_sched_more(struct lend_core *c, uint32_t queue)
{
	if (queue % LEND_SIZES || c->cfg.order == LEND_ORDER_DEADLINE || !c->ready.queue[queue].n)
		return NULL;
	return lend_sched_pop(c, queue);
}

#endif
