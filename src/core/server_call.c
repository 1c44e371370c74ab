#include "core/server_call.h"

#include "core/client_call.h"
#include "core/control.h"
#include "core/kept_reply.h"
#include "core/table_share.h"
#include "core/rx.h"

/* Returns whether the peer reads the reply in our memory. It may acknowledge the datagram before it
 * has: the carrier knows when it has. */
static bool is_read_here(struct lend_core *c, const struct lend_call_rec *k)
{
	uint32_t least = lend_sess_at(c, k->sess)->reads;

	return least && k->shared && k->tx.len >= least;
}

void lend_serve_finish(struct lend_core *c, struct lend_call_rec *k)
{
	if (!k->refused)
		lend_serve_reply_end(c, k, k->tx.buf, is_read_here(c, k));
	lend_serve_free(c, k);
}

/* Detaches a running call from its session; its handler keeps the handle. */
static void orphan_call(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sslot *sl = lend_sslot_in(c, k->sslot);

	sl->rec = LEND_NONE;
	lend_call_uncount(c, lend_sess_at(c, k->sess));
	lend_sess_at(c, k->sess)->orphans++;
	k->state = LEND_CALL_ORPHAN;
}

static void push_cancelled(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_event *e;

	if (k->cancelled)
		return;
	k->cancelled = 1;
	e = lend_event_push(c, LEND_EV_CANCELLED);
	e->session = k->sess_id;
	e->call = lend_call_handle(k);
	e->method = k->method;
}

void lend_serve_abort(struct lend_core *c, struct lend_call_rec *k)
{
	switch ((enum lend_call_state)k->state) {
	case LEND_CALL_PARTIAL:
		lend_rx_drop(c, k);
		lend_serve_free(c, k);
		return;
	case LEND_CALL_RUNNING:
		push_cancelled(c, k);
		orphan_call(c, k);
		return;
	case LEND_CALL_REPLYING:
		if (!k->refused)
			lend_serve_reply_end(c, k, k->tx.buf, true);
		lend_serve_free(c, k);
		return;
	case LEND_CALL_FREE:
	case LEND_CALL_QUEUED:
	case LEND_CALL_OPEN:
	case LEND_CALL_DRAINING:
	case LEND_CALL_ORPHAN:
		break;
	}
	LEND_CHECK(!"a server's call in a client's state");
}

/* Hands a complete request to the handler. */
LEND_HOT void run(struct lend_core *c, struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_REQUEST);

	k->state = LEND_CALL_RUNNING;
	k->stamp = c->now;
	k->number = v->head.number;
	e->session = k->sess_id;
	e->call = lend_call_handle(k);
	e->method = k->method;
	e->class = k->class;
	e->deadline = k->deadline;
	e->len = v->head.length;
	e->head = (v->head.flags & LEND_PKT_WITH_HEAD) != 0;
	if (k->rx.frags == LEND_NONE) {
		e->data = v->payload;
		e->data_len = v->payload_len;
		e->parts = (uint8_t)v->parts;
	} else {
		e->buf = lend_rx_end(c, k);
	}
}

void lend_serve_refuse(struct lend_core *c, struct lend_call_rec *k)
{
	k->received = 1;
	lend_rx_drop(c, k);
	k->status = RESOURCE_EXHAUSTED;
	k->ran = RAN_NO;
	k->refused = 1;
	k->stamp = c->now;
	lend_serve_answer(c, lend_sess_at(c, k->sess), k, 0, 0);
}

static void store_fragment(struct lend_core *c, struct lend_bufs *bufs, struct lend_call_rec *k,
			   const struct lend_pkt_view *v, bool gap)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	enum lend_rx_verdict got = lend_rx_take(c, bufs, k, v);

	if (got == LEND_RX_DROPPED)
		return;
	s->unacked++;
	if (got == LEND_RX_WHOLE) {
		lend_ctl_ack(c, k);
		run(c, k, v);
	} else if (lend_rx_grant(c, k) || (gap && s->unacked >= LEND_ACK_GAP) ||
		   s->unacked >= LEND_ACK_EVERY || got == LEND_RX_OLD) {
		lend_ctl_ack(c, k);
	} else {
		lend_sess_schedule_report(c, s);
	}
}

/* Returns whether a request is longer than this endpoint accepts. */
LEND_HOT bool is_too_long(const struct lend_core *c, const struct lend_pkt_view *v)
{
	return LEND_RARE(v->head.length > c->cfg.message_max) &&
	       v->head.length > lend_message_limit(c, c->cfg.message_max,
						   v->head.flags & LEND_PKT_WITH_HEAD,
						   v->request.method == c->cfg.note_method);
}

LEND_HOT void begin(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
		    struct lend_sslot *sl, const struct lend_pkt_view *v)
{
	struct lend_call_rec *k;

	sl->seq = lend_pkt_seq(v->head.call);
	sl->number = v->head.number;
	if (c->used[1] >= c->share_threshold && !lend_fair_record(c, s)) {
		lend_fair_refuse(c, s, sl, v->head.call);
		return;
	}
	k = lend_call_new(c, s, v->head.call, true);
	k->sslot = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	sl->rec = k->self;
	k->state = LEND_CALL_PARTIAL;
	lend_sched_class(c, k, v->head.flags & LEND_PKT_CLASS);
	k->method = v->request.method;
	k->reply_cap = v->request.grant;
	k->deadline =
	    v->request.left_us == UINT32_MAX ? LEND_NEVER : c->now + v->request.left_us * LEND_US;
	k->rx.granted = lend_min_u32(v->head.length, s->first_sent);
	if (is_too_long(c, v)) {
		LEND_COUNT(c, rx_too_big);
		lend_serve_refuse(c, k);
	} else if (v->payload_len == v->head.length) {
		run(c, k, v);
	} else {
		store_fragment(c, bufs, k, v, false);
	}
}

/* Handles another datagram of a request: stores or acknowledges it, or repeats the reply. */
static void handle_again(struct lend_core *c, struct lend_bufs *bufs, struct lend_call_rec *k,
			 const struct lend_pkt_view *v)
{
	switch ((enum lend_call_state)k->state) {
	case LEND_CALL_PARTIAL:
		/* Until a fragment is stored, its length is not stored either. */
		if (is_too_long(c, v))
			LEND_COUNT(c, rx_length);
		else
			store_fragment(c, bufs, k, v, v->head.offset > lend_rx_low(c, k));
		return;
	case LEND_CALL_RUNNING:
		LEND_COUNT(c, rx_dup);
		lend_ctl_ack(c, k);
		return;
	case LEND_CALL_REPLYING:
		LEND_COUNT(c, rx_dup);
		if (!lend_sess_at(c, k->sess)->lossless)
			lend_tx_lost(c, &k->tx, k->tx.low);
		if (k->tx.resend)
			lend_sched_ready(c, k);
		return;
	case LEND_CALL_FREE:
	case LEND_CALL_QUEUED:
	case LEND_CALL_OPEN:
	case LEND_CALL_DRAINING:
	case LEND_CALL_ORPHAN:
		break;
	}
	LEND_CHECK(!"a slot names a call of another kind");
}

/* Returns false if the handler runs and GONE was not sent: no sane client reuses the slot then. */
static bool leave_slot(struct lend_core *c, struct lend_sslot *sl)
{
	struct lend_call_rec *k;

	if (lend_slot_is_empty(sl->rec))
		return true;
	k = lend_call_at(c, sl->rec);
	if (k->state == LEND_CALL_RUNNING)
		return false;
	if (k->state == LEND_CALL_REPLYING)
		lend_serve_delivered(c, k); /* a new call on the slot acknowledges the last reply */
	else
		lend_serve_abort(c, k);
	return true;
}

static bool one_datagram_sane(const struct lend_sess *s, const struct lend_pkt_view *v)
{
	return v->head.length > s->payload ||
	       (v->head.offset == 0 && v->payload_len == v->head.length);
}

/* Counts a duplicate of a finished request; repeats the answer if there was no record. */
static void handle_finished(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	LEND_COUNT(c, rx_dup);
	if (v->head.offset == 0)
		lend_fair_resend(c, s, v->head.call);
}

void lend_serve_on_request(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			   const struct lend_pkt_view *v)
{
	uint32_t slot = lend_pkt_slot(v->head.call), seq = lend_pkt_seq(v->head.call);
	struct lend_sslot *sl;

	if (slot >= c->cfg.calls || seq == 0) {
		LEND_COUNT(c, rx_call);
		return;
	}
	if (!one_datagram_sane(s, v)) {
		LEND_COUNT(c, rx_length);
		return;
	}
	sl = lend_sess_sslot(c, s, slot);
	if (seq == sl->seq) {
		sl->number = lend_max_u64(sl->number, v->head.number);
		if (lend_slot_is_empty(sl->rec))
			handle_finished(c, s, v);
		else
			handle_again(c, bufs, lend_call_at(c, sl->rec), v);
	} else if (v->head.number <= sl->number) {
		LEND_COUNT(c, rx_call);
	} else if (!leave_slot(c, sl)) {
		LEND_COUNT(c, rx_state);
	} else {
		begin(c, bufs, s, sl, v);
	}
}

uint32_t lend_serve_state(struct lend_core *c, const struct lend_sess *s, uint32_t wire,
			  struct lend_call_rec **rec)
{
	uint32_t slot = lend_pkt_slot(wire);
	struct lend_sslot *sl;

	*rec = NULL;
	if (slot >= s->sslots)
		return LEND_PKT_UNSEEN;
	sl = lend_sslot_at(c, lend_sess_index(c, s), slot);
	if (sl->seq != lend_pkt_seq(wire))
		return LEND_PKT_UNSEEN;
	if (lend_slot_is_empty(sl->rec))
		return LEND_PKT_WHOLE;
	*rec = lend_call_at(c, sl->rec);
	return (*rec)->state == LEND_CALL_PARTIAL ? LEND_PKT_PARTIAL : LEND_PKT_WHOLE;
}

void lend_serve_running(struct lend_core *c, const struct lend_sess *s,
			struct lend_pkt_running *running)
{
	*running = (struct lend_pkt_running){{0}};
	for (uint32_t slot = 0; slot < s->sslots; slot++) {
		uint32_t rec = lend_sslot_at(c, lend_sess_index(c, s), slot)->rec;

		if (!lend_slot_is_empty(rec) && lend_call_at(c, rec)->state == LEND_CALL_RUNNING)
			running->slots[slot / 64] |= UINT64_C(1) << (slot % 64);
	}
}

void lend_serve_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	bool probe = v->head.kind == LEND_PKT_PROBE, kept;
	struct lend_call_rec *k;
	uint32_t low;

	lend_serve_state(c, s, v->head.call, &k);
	if (!k || k->state != LEND_CALL_REPLYING)
		return;
	k->timer = c->now;
	low = v->ack.low / lend_tx_unit(s, &k->tx);
	if (v->head.offset == LEND_PKT_WHOLE) {
		lend_serve_delivered(c, k);
		return;
	}
	if (v->head.offset == LEND_PKT_PARTIAL)
		lend_tx_acked_below(c, &k->tx, low);
	if (v->ack.granted > k->tx.granted)
		k->tx.granted = lend_min_u32(v->ack.granted, k->tx.len);
	lend_sched_apply_wait(c, k, v->head.length & LEND_PKT_WAIT, low);
	if (k->paused)
		return;
	/* On a lossless carrier, too, a reply that overtook its session's ACCEPT was dropped. */
	kept = k->tx.win == LEND_NONE && s->zero_rtt != LEND_PKT_ZERO_RTT_RUNS;
	if (v->head.length & LEND_PKT_DROPPED || (probe && s->lossless && !kept))
		lend_tx_restart(c, s, &k->tx, low);
	else if (probe && !s->lossless) /* the acknowledgement of low shows what else is lost */
		lend_tx_lost(c, &k->tx, k->tx.low);
	lend_sched_ready(c, k);
}

static void stop_call(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	if (k->state != LEND_CALL_RUNNING) {
		lend_serve_abort(c, k);
		return;
	}
	push_cancelled(c, k);
	if (s->orphans < c->cfg.calls) /* else GONE is sent when the handler replies */
		orphan_call(c, k);
}

void lend_serve_on_cancel(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	uint32_t slot = lend_pkt_slot(v->head.call), seq = lend_pkt_seq(v->head.call);
	struct lend_sslot *sl;
	struct lend_call_rec *k;

	if (slot >= c->cfg.calls || seq == 0) {
		LEND_COUNT(c, rx_call);
		return;
	}
	sl = lend_sess_sslot(c, s, slot);
	if (seq != sl->seq && v->head.number > sl->number) {
		if (!leave_slot(c, sl)) {
			LEND_COUNT(c, rx_state);
			return;
		}
		sl->seq = seq; /* consumed: a late request counts as old */
		sl->number = v->head.number;
	}
	lend_serve_state(c, s, v->head.call, &k);
	if (k)
		stop_call(c, s, k);
	else if (sl->seq == seq) /* a late CANCEL leaves the reply of the slot's next call */
		lend_kept_drop(c, s, sl, v->head.call);
	if (!k || k->state != LEND_CALL_RUNNING)
		lend_ctl_sess(c, s, LEND_PKT_GONE, v->head.call, LEND_PKT_SERVED);
}
