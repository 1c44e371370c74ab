/* call_record - a call's record, taken and given back by either side. Each call does both once per
 * side, so they are inline. Layer: core (pure). */
#ifndef LEND_CORE_CALL_RECORD_H
#define LEND_CORE_CALL_RECORD_H

#include "core/sent_ring.h"
#include "core/sched.h"
#include "core/arena.h"
#include "core/tx.h"
#include "core/memory_queue.h"
#include "core/request_window.h"

/* Line by line, as stores: a call of memset() would cost more than it does. What received anything
 * was cleared when it was given back. */
LEND_HOT void lend_call_clear(struct lend_call_rec *k)
{
	memset(k, 0, 64);
	memset((char *)k + 64, 0, 64);
	memset((char *)k + 128, 0, offsetof(struct lend_call_rec, rx) - 128);
}

/* Takes a record for either side; there is one. Its slot is the caller's to fill in. */
LEND_HOT struct lend_call_rec *lend_call_new(struct lend_core *c, struct lend_sess *s,
					     uint32_t wire, bool server)
{
	struct lend_call_rec *k;
	uint32_t i, gen;

	LEND_CHECK(c->free_calls.free > 0);
	i = lend_pool_take(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t));
	c->used[server]++;
	k = lend_call_at(c, i);
	gen = k->gen + 1;
	lend_call_clear(k);
	k->gen = lend_max_u32(gen, 1);
	k->self = i;
	k->sess = lend_sess_index(c, s);
	k->sess_id = s->id;
	k->wire = wire;
	k->server = server;
	k->timer = LEND_NEVER;
	k->deadline = LEND_NEVER;
	k->tx.win = LEND_NONE;
	k->rx.frags = LEND_NONE;
	if (s->calls++ == 0)
		lend_window_busy(c, true);
	return k;
}

/* A session has one call less, but for orphans; without any nothing is in flight. */
static inline void lend_call_uncount(struct lend_core *c, struct lend_sess *s)
{
	if (--s->calls > 0)
		return;
	s->oldest = s->number;
	lend_ring_close(c, s);
	lend_window_busy(c, false);
}

/* It has let go of what it received, and leaves the line for more. */
static inline void lend_call_unreceive(struct lend_core *c, struct lend_call_rec *k)
{
	LEND_CHECK(k->rx.buf == 0 && k->rx.frags == LEND_NONE);
	if (k->rx.starved.in)
		lend_want_leave(c, k);
	memset(&k->rx, 0, sizeof(k->rx));
	k->received = 0;
}

/* Takes it off every list and frees it. s is its session, or what has its place. */
LEND_HOT void lend_call_free(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	lend_sched_remove(c, k);
	if (k->received)
		lend_call_unreceive(c, k);
	if (k->tx.win != LEND_NONE)
		lend_tx_close(c, &k->tx);
	/* What it had in flight made room. An orphan had nothing there, and its session may be
	 * gone. */
	if (k->state != LEND_CALL_ORPHAN) {
		lend_call_uncount(c, s);
		lend_sched_wake(c, s);
	}
	k->state = LEND_CALL_FREE;
	c->used[k->server]--;
	lend_pool_give(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t), k->self);
}

/* The record of a handle; NULL when stale. */
static inline struct lend_call_rec *lend_call_of(struct lend_core *c, uint64_t handle)
{
	uint32_t i = (uint32_t)handle;
	struct lend_call_rec *k;

	if (i >= c->records)
		return NULL;
	k = lend_call_at(c, i);
	return k->state != LEND_CALL_FREE && k->gen == handle >> 32 ? k : NULL;
}

/* Calls above the session's limit move to slots below it, as far as there are free ones. */
void lend_call_unpark(struct lend_core *c, struct lend_sess *s);
/* A client's slot may be used again; the record is gone. */
LEND_HOT void lend_call_free_slot(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t slot = lend_pkt_slot(k->wire);

	lend_cslot_at(c, k->sess, slot)->rec = LEND_NONE;
	s->slots[slot / 64] |= UINT64_C(1) << (slot % 64);
	lend_call_free(c, s, k);
	if (s->parked)
		lend_call_unpark(c, s);
}

/* Its unscheduled credit and its place in the window go back to the session. */
LEND_HOT void lend_call_refund(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	s->unscheduled_used -= k->tx.charged;
	k->tx.charged = 0;
	lend_window_leave(c, s, k);
	lend_sched_wake(c, s);
}

#endif
