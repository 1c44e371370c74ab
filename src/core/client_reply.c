/* client_reply - datagrams that come back to a caller: replies, acknowledgements, GONE. The other
 * half of client_call.h. Layer: core (pure). */
#include "core/client_call.h"
#include "core/control.h"
#include "core/loss.h"
#include "core/rx.h"
#include "core/sched.h"
#include "core/sess.h"
#include "core/short_call.h"
#include "core/tx.h"

/* Returns the call of a datagram, or NULL. *ended is set if that call is over. Calls older than the
 * slot's last one count as over: the last one may have ended before a byte of it was sent. Then
 * only our acknowledgement shows the server that nothing waits for an old reply. */
static struct lend_call_rec *find_call(struct lend_core *c, struct lend_sess *s, uint32_t wire,
				       bool *ended)
{
	uint32_t slot = lend_pkt_slot(wire);
	struct lend_cslot *cs;
	uint32_t ahead;

	*ended = false;
	if (slot >= s->cslots)
		return NULL;
	cs = lend_cslot_at(c, lend_sess_index(c, s), slot);
	ahead = (cs->seq - lend_pkt_seq(wire)) & LEND_CALL_SEQ_MASK;
	if (ahead == 0 && cs->rec != LEND_NONE)
		return lend_call_in(c, s, slot, NULL);
	*ended = cs->seq != 0 && ahead <= LEND_CALL_SEQ_MASK / 2;
	return NULL;
}

static void note_progress(struct lend_core *c, struct lend_call_rec *k)
{
	k->tries = 0;
	k->timer = c->now + lend_sess_at(c, k->sess)->pto;
}

/* Notes that the server has the whole request, as any reply shows. */
static void request_done(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	if (k->whole && k->tx.low == k->tx.total)
		return;
	k->whole = 1;
	lend_sched_remove(c, k);
	lend_tx_end(c, &k->tx);
	lend_call_refund(c, s, k);
}

LEND_HOT void finish(struct lend_core *c, struct lend_call_rec *k, const struct lend_pkt_view *v,
		     bool fits)
{
	uint8_t status = v->reply.status <= STATUS_MAX ? v->reply.status : UNKNOWN;
	uint8_t said = v->reply.ran & ((1 << LEND_RAN_BITS) - 1);
	uint8_t ran = said <= RAN_MAYBE ? said : RAN_MAYBE;
	struct lend_event *e =
	    lend_call_end_event(c, k, fits ? status : RESOURCE_EXHAUSTED, fits ? ran : RAN_YES);

	e->len = v->head.length;
	e->head = (v->head.flags & LEND_PKT_WITH_HEAD) != 0;
	e->more_hops = v->reply.ran >> LEND_RAN_BITS;
	/* A head is for the runtime: with one, named memory stays as it is. */
	if (fits && (!k->rx.buf || (e->head && v->payload_len == v->head.length))) {
		e->data = v->payload;
		e->data_len = v->payload_len;
		e->parts = (uint8_t)v->parts;
	}
	if (!k->received)
		return;
	if (k->rx.attached || fits)
		e->reply = lend_rx_end(c, k);
	else
		lend_rx_drop(c, k);
}

void lend_call_schedule_ack(struct lend_core *c, struct lend_sess *s, uint8_t patience_ms)
{
	if (++s->unacked == LEND_ACK_SHORT)
		lend_ctl_sess(c, s, LEND_PKT_ACK, 0, 0);
	lend_sess_schedule_ack(c, s, lend_min_u32(patience_ms, LEND_ACK_DELAY_MS) * LEND_MS);
}

/* Ends a call with a reply of one datagram. For named memory, the reply is already copied. */
LEND_HOT void take_whole(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			 const struct lend_pkt_view *v, bool fits)
{
	lend_call_refund(c, s, k);
	lend_window_learn(c, s, v->reply.window);
	if (v->reply.patience_ms != LEND_PATIENCE_KEPT || s->ack_due || s->ecn)
		lend_call_schedule_ack(c, s, v->reply.patience_ms);
	finish(c, k, v, fits);
	lend_call_free_slot(c, s, k);
	lend_sess_on_call_end(c, s);
}

/* Returns whether the server gave up a reply of which parts have arrived. */
static bool is_given_up(const struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	return k->rx.frags != LEND_NONE && v->head.length == 0 &&
	       v->reply.status == RESOURCE_EXHAUSTED;
}

static void one_fragment(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			 struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	bool head = v->head.flags & LEND_PKT_WITH_HEAD;
	uint64_t most = k->rx.attached && !head
			    ? k->reply_cap
			    : lend_message_limit(c, c->cfg.message_max, head, false);
	bool fits = v->head.length <= most;

	if (is_given_up(k, v) && !k->rx.attached)
		lend_rx_drop(c, k);
	else if (v->head.offset != 0 || v->payload_len != v->head.length ||
		 (k->rx.frags != LEND_NONE && !is_given_up(k, v))) {
		request_done(c, s, k);
		LEND_COUNT(c, rx_length);
		return;
	}
	if (fits && k->rx.attached && !head)
		lend_chain_write_payload(bufs, k->rx.buf, v);
	take_whole(c, s, k, v, fits);
}

static void many_fragments(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			   struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	/* Memory attached before the first fragment was named by the caller, possibly with no
	 * room. */
	bool named = k->rx.attached && (k->reply_cap || k->rx.frags == LEND_NONE);
	bool head = v->head.flags & LEND_PKT_WITH_HEAD;
	uint64_t most =
	    named ? k->reply_cap : lend_message_limit(c, c->cfg.message_max, head, false);
	enum lend_rx_verdict got;

	if (v->head.length > most) {
		/* The server may be waiting for a grant of the rest. Drain the call: CANCEL shows
		 * the server that no more is wanted. */
		LEND_COUNT(c, rx_too_big);
		finish(c, k, v, false);
		lend_call_drain(c, k);
		return;
	}
	got = lend_rx_take(c, bufs, k, v);
	if (got == LEND_RX_DROPPED)
		return;
	s->unacked++;
	if (got == LEND_RX_WHOLE) {
		lend_ctl_ack(c, k);
		finish(c, k, v, true);
		lend_call_free_slot(c, s, k);
	} else if (lend_rx_grant(c, k) || s->unacked >= LEND_ACK_EVERY || got == LEND_RX_OLD) {
		lend_ctl_ack(c, k);
	} else {
		lend_sess_schedule_report(c, s);
	}
}

/* Learns the round trip from a reply. If the reply answers an earlier transmission of a request
 * that was repeated, the round trip began a timeout before the repeat. Without that sample, a
 * timeout that is too short would remain so. The server's delay has grown since if only this repeat
 * of the reply arrived. */
static void note_round_trip(struct lend_core *c, struct lend_sess *s, const struct lend_call_rec *k,
			    const struct lend_pkt_view *v)
{
	if (k->whole)
		return;
	if (v->reply.acked == k->number)
		lend_loss_rtt_first(c, s, c->now - k->stamp, v->reply.delay_ns);
	else if (k->tries && v->reply.acked < k->number)
		lend_loss_rtt_first(c, s, c->now - k->stamp + lend_call_timeout(s, k->tries - 1u),
				    v->reply.delay_ns);
}

void lend_call_on_reply(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v)
{
	bool ended;
	struct lend_call_rec *k = find_call(c, s, v->head.call, &ended);

	if (ended)
		lend_ctl_sess(c, s, LEND_PKT_ACK, v->head.call, 0);
	if (ended || !k || k->state == LEND_CALL_DRAINING) {
		if (ended)
			LEND_COUNT(c, rx_dup);
		else if (!k)
			LEND_COUNT(c, rx_call);
		return;
	}
	if (k->state != LEND_CALL_OPEN) {
		LEND_COUNT(c, rx_state);
		return;
	}
	note_round_trip(c, s, k, v);
	if (v->head.length <= s->payload || v->payload_len == v->head.length) {
		one_fragment(c, bufs, s, k, v);
	} else {
		request_done(c, s, k);
		lend_window_learn(c, s, v->reply.window);
		note_progress(c, k);
		many_fragments(c, bufs, s, k, v);
	}
}

/* Returns whether the slot of a call has a short one. */
static bool is_short(struct lend_core *c, const struct lend_sess *s, uint32_t call)
{
	uint32_t slot = lend_pkt_slot(call);

	return slot < s->cslots &&
	       lend_cslot_at(c, lend_sess_index(c, s), slot)->rec == LEND_SLOT_SHORT;
}

void lend_call_on_whole(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v)
{
	bool ended;
	struct lend_call_rec *k;

	if (is_short(c, s, v->head.call) && lend_short_end(c, s, v))
		return;
	k = find_call(c, s, v->head.call, &ended);
	if (!k || k->state != LEND_CALL_OPEN || k->received ||
	    v->head.length > c->cfg.message_max) {
		lend_call_on_reply(c, bufs, s, v);
		return;
	}
	note_round_trip(c, s, k, v);
	take_whole(c, s, k, v, true);
}

static void store_partial(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			  const struct lend_pkt_view *v)
{
	uint32_t low = v->ack.low / lend_tx_unit(s, &k->tx);

	lend_tx_acked_below(c, &k->tx, low);
	if (v->ack.granted > k->tx.granted)
		k->tx.granted = lend_min_u32(v->ack.granted, k->tx.len);
	/* The ACK with LEND_PKT_DROPPED may be lost; the answer to a PROBE shows the drop as
	 * well. */
	if (v->head.length & LEND_PKT_DROPPED ||
	    (v->head.length & LEND_PKT_PROBED && (s->lossless || low < k->tx.low)))
		lend_tx_restart(c, s, &k->tx, low);
	lend_sched_apply_wait(c, k, v->head.length & LEND_PKT_WAIT, low);
	/* The receiver has no memory for this call. Return its session credit, so that it does not
	 * delay calls for which there is memory. */
	if (k->paused)
		lend_call_refund(c, s, k);
	if (k->tx.granted > k->tx.charged && k->tx.charged < k->tx.len)
		lend_call_refund(c, s, k);
}

void lend_call_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	bool ended;
	struct lend_call_rec *k = find_call(c, s, v->head.call, &ended);
	uint32_t low, granted;

	if (!k || k->state != LEND_CALL_OPEN)
		return;
	low = k->tx.low;
	granted = k->tx.granted;
	if (v->head.offset == LEND_PKT_WHOLE) {
		if (v->head.length & LEND_PKT_PROBED && k->tries == 1)
			lend_loss_probe_needless(s);
		request_done(c, s, k);
		return;
	}
	if (k->whole)
		return; /* an older ACK */
	k->paused = 0;
	if (v->head.offset == LEND_PKT_PARTIAL)
		store_partial(c, s, k, v);
	else if (v->head.length & LEND_PKT_PROBED)
		lend_tx_restart(c, s, &k->tx, 0);
	if (k->tx.low > low || k->tx.granted > granted)
		note_progress(c, k);
	lend_sched_ready(c, k);
}

void lend_call_on_gone(struct lend_core *c, struct lend_sess *s, uint32_t wire)
{
	bool ended;
	struct lend_call_rec *k = find_call(c, s, wire, &ended);

	if (k && k->state == LEND_CALL_DRAINING)
		lend_call_free_slot(c, s, k);
}
