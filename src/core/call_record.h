/* call_record - takes and frees the record of a call, on both sides. Each call does both once per
 * side, so the functions are inline. Layer: core (pure). */
#ifndef LEND_CORE_CALL_RECORD_H
#define LEND_CORE_CALL_RECORD_H

#include "core/call_slot.h"
#include "core/sent_ring.h"
#include "core/sched.h"
#include "core/tx.h"
#include "core/memory_queue.h"
#include "core/request_window.h"

/* Clears the fields from sess_id to tx. A free record's tx and rx are as lend_call_prepare() leaves
 * them: lend_call_free() and lend_call_clear_rx() see to it. */
LEND_HOT void lend_call_clear(struct lend_call_rec *k)
{
	memset(&k->sess_id, 0,
	       offsetof(struct lend_call_rec, tx) - offsetof(struct lend_call_rec, sess_id));
}

/* Counts a call that begins in its session. */
LEND_HOT void lend_call_count(struct lend_core *c, struct lend_sess *s, uint32_t wire)
{
	if (s->calls++ == 0 && !s->lingers)
		lend_window_busy(c, s, true);
	if (lend_pkt_slot(wire) >> s->level)
		lend_window_raise(c, s, lend_pkt_slot(wire));
}

/* Takes a record for a call of either side, which has a slot. */
LEND_HOT struct lend_call_rec *lend_call_new(struct lend_core *c, struct lend_sess *s,
					     uint32_t wire, bool server)
{
	struct lend_call_rec *k = lend_call_take(c);

	lend_call_clear(k);
	c->used[server]++;
	k->sess = lend_sess_index(c, s);
	k->sess_id = s->id;
	k->wire = wire;
	k->server = server;
	k->timer = LEND_NEVER;
	k->deadline = LEND_NEVER;
	lend_call_count(c, s, wire);
	return k;
}

/* Reduces the session's count of calls, which excludes orphans. When it reaches 0, nothing is in
 * flight and the ring is released. */
static inline void lend_call_uncount(struct lend_core *c, struct lend_sess *s)
{
	if (--s->calls > 0)
		return;
	s->oldest = s->number;
	lend_ring_close(c, s);
	if (!s->lingers)
		lend_window_busy(c, s, false);
}

/* Clears the receive state after its memory was released, and removes the call from the memory
 * queue. */
static inline void lend_call_clear_rx(struct lend_core *c, struct lend_call_rec *k)
{
	LEND_CHECK(k->rx.buf == 0 && k->rx.frags == LEND_NONE);
	if (k->rx.memq_link.in)
		lend_memq_leave(c, k);
	k->rx = (struct lend_rx){.frags = LEND_NONE};
	k->received = 0;
}

/* Removes the call from every list and frees its record. s is its session, or the session that
 * reuses that entry. */
LEND_HOT void lend_call_free(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	lend_sched_remove(c, k);
	if (k->received)
		lend_call_clear_rx(c, k);
	if (k->tx.win != LEND_NONE)
		lend_tx_close(c, &k->tx);
	memset(&k->tx, 0, sizeof(k->tx));
	k->tx.win = LEND_NONE;
	k->timer = LEND_NEVER;
	k->serial = 0;
	/* Its datagrams in flight are gone, so other calls may send. An orphan had none, and its
	 * session may have ended. */
	if (k->state != LEND_CALL_ORPHAN) {
		lend_call_uncount(c, s);
		lend_sched_wake(c, s);
	}
	k->state = LEND_CALL_FREE;
	c->used[k->server]--;
	lend_pool_give(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t), k->self);
}

/* Moves calls in slots above the session's limit to free slots below it, while there are any. */
void lend_call_place_all(struct lend_core *c, struct lend_sess *s);
/* Frees a client's slot and the record of its call. */
LEND_HOT void lend_call_free_slot(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t slot = lend_pkt_slot(k->wire);

	lend_cslot_at(c, k->sess, slot)->rec = LEND_NONE;
	lend_slots_free(c, s, slot);
	lend_call_free(c, s, k);
	if (s->unplaced)
		lend_call_place_all(c, s);
}

/* Returns the unscheduled credit of a message of several datagrams, or the bytes of a short request
 * in its peer's window. */
static inline void lend_call_uncharge(struct lend_core *c, struct lend_sess *s,
				      struct lend_call_rec *k)
{
	uint32_t n = k->tx.charged;

	k->tx.charged = 0;
	if (k->tx.total > 1)
		s->unscheduled_used -= n;
	else if (n)
		lend_peer_release(c, s, n);
}

/* Returns the call's unscheduled credit and its entry in the request window to the session. */
LEND_HOT void lend_call_refund(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	lend_call_uncharge(c, s, k);
	lend_window_leave(c, s, k);
	lend_sched_wake(c, s);
}

#endif
