#include "core/client_call.h"

#include "core/coalesce.h"
#include "core/grant.h"
#include "core/control.h"
#include "core/event.h"
#include "core/loss.h"
#include "core/call_record.h"
#include "core/rx.h"
#include "core/sched.h"
#include "core/sess.h"
#include "core/tx.h"
#include "core/memory_queue.h"
#include "util/traffic_class.h"
#include "wire/head.h"

static __attribute__((noinline)) uint32_t kept_below(uint32_t class, uint32_t n)
{
	uint32_t below = class - LEND_CLASS_NORMAL;

	return n > 1 ? lend_max_u32(1, n * below / 32) : 0;
}

/* Returns how many of n slots or records a call of this class must leave free for more urgent
 * calls: none for class NORMAL and more urgent ones, so that all are used when no call names a
 * class. */
LEND_HOT uint32_t kept_from(uint32_t class, uint32_t n)
{
	return class <= LEND_CLASS_NORMAL ? 0 : kept_below(class, n);
}

uint32_t lend_core_slots(const struct lend_core *c, uint8_t class)
{
	return c->cfg.calls - kept_from(class & LEND_PKT_CLASS, c->cfg.calls);
}

/* Returns the bits of word w that stand for slots within the session's limit. */
static uint64_t allowed_slots(const struct lend_sess *s, uint32_t w)
{
	if (s->limit >= (w + 1) * 64)
		return UINT64_MAX;
	return s->limit > w * 64 ? (UINT64_C(1) << (s->limit - w * 64)) - 1 : 0;
}

static uint32_t free_slots(struct lend_core *c, struct lend_sess *s)
{
	uint32_t n = 0;

	for (uint32_t w = 0; w * 64 < s->limit; w++)
		n += (uint32_t)__builtin_popcountll(*lend_slots_at(c, s, w) & allowed_slots(s, w));
	return n;
}

static uint32_t take_slot(struct lend_core *c, struct lend_sess *s, uint32_t class)
{
	uint32_t kept = kept_from(class, s->limit), bit;

	if (kept && free_slots(c, s) <= kept)
		return LEND_NONE;
	/* Bits past the last slot are not set; those above the limit are never cleared. */
	for (uint32_t w = 0; w < lend_slots_words(c); w++) {
		uint64_t *free = lend_slots_at(c, s, w);

		if (!*free)
			continue;
		bit = (uint32_t)__builtin_ctzll(*free);
		if (w * 64 + bit >= s->limit)
			return LEND_NONE;
		*free &= *free - 1;
		return w * 64 + bit;
	}
	return LEND_NONE;
}

/* Moves a call to a free slot that both ends have. Returns false if there is none. */
static bool move_slot(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t was = lend_pkt_slot(k->wire), i = take_slot(c, s, k->class);
	struct lend_cslot *slot;

	if (i == LEND_NONE)
		return false;
	lend_cslot_at(c, k->sess, was)->rec = LEND_NONE;
	lend_slots_free(c, s, was);
	slot = lend_sess_cslot(c, s, i);
	slot->seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	slot->seq += !slot->seq;
	slot->rec = k->self;
	k->wire = lend_pkt_call(i, slot->seq);
	return true;
}

void lend_call_admitted(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	if (lend_pkt_slot(k->wire) < s->limit || move_slot(c, s, k))
		lend_call_launch(c, s, k);
	else
		s->unplaced++;
}

void lend_call_place_all(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k;
	uint32_t at = s->limit;

	s->unplaced = 0;
	while ((k = lend_sess_next_made(c, s, &at, NULL)))
		if (k->state == LEND_CALL_QUEUED)
			lend_call_admitted(c, s, k);
}

/* Makes the first grant for a reply into memory named by the caller: all of it at once, up to
 * LEND_GRANT_BYTES. The reply may take long, so half of the receive budget stays available to
 * messages in transit. It is at least one datagram of the largest payload of any carrier, since
 * another session may wait for that much. */
static void name_memory(struct lend_core *c, struct lend_call_rec *k, const struct lend_bufs *bufs,
			uint32_t reply)
{
	uint64_t cap = lend_chain_cap(bufs, reply), more, kept, offer;

	kept = lend_max_u64(c->cfg.receive_budget / 2, lend_sess_payload_max(c));
	offer = c->cfg.receive_budget - lend_min_u64(c->cfg.receive_budget, kept);
	k->received = 1;
	k->rx.granted = (uint32_t)lend_min_u64(cap, k->rx.granted);
	k->reply_cap = (uint32_t)lend_min_u64(cap, LEND_MESSAGE_MAX);
	k->rx.buf = reply;
	k->rx.seg = reply;
	k->rx.attached = 1;
	more = lend_min_u64(k->reply_cap, LEND_GRANT_BYTES) - k->rx.granted;
	more = lend_min_u64(more, offer - lend_min_u64(offer, c->budget_used));
	if (c->budget_queue.n)
		more = 0; /* messages in transit wait for budget */
	more = lend_grants_ahead(c, k, more);
	k->rx.granted += (uint32_t)more;
	k->rx.charged += (uint32_t)more;
	c->budget_used += more;
}

static int check_call(struct lend_core *c, const struct lend_sess *s, const struct lend_bufs *bufs,
		      const struct lend_core_call *call, uint64_t *len)
{
	if (!s || (s->state != LEND_SESS_UP && s->state != LEND_SESS_CONNECTING))
		return E_STALE;
	if (call->class & LEND_CALL_HEAD && s->state == LEND_SESS_UP &&
	    !(s->features & LEND_FEATURE_REQUEST_HEADS))
		return E_NOTSUP;
	*len = 0;
	if (call->request && !lend_tx_fits(bufs, call->request, s->payload, len))
		return E_INVAL;
	if (LEND_RARE(*len > s->message_max) &&
	    *len > lend_message_limit(c, s->message_max, call->class & LEND_CALL_HEAD,
				      call->method == c->cfg.note_method))
		return E_MSGSIZE;
	return c->used[0] + kept_from(call->class & LEND_PKT_CLASS, c->cfg.inflight) <
			   c->cfg.inflight &&
		       lend_event_room(c)
		   ? 0
		   : E_AGAIN;
}

/* Returns whether the frame of a datagram may carry the request. */
LEND_HOT bool fits_frame(const struct lend_call_rec *k, const struct lend_bufs *bufs)
{
	return k->tx.len <= LEND_FRAME_MAX && !(k->marks & LEND_MARK_HEAD_OUT) &&
	       k->tx.win == LEND_NONE && !(k->tx.len && bufs->seg[k->tx.buf].next);
}

/* Writes a request into a datagram. */
LEND_HOT void write_frame(struct lend_core *c, struct lend_sess *s, const struct lend_bufs *bufs,
			  struct lend_call_rec *k, struct lend_coalesced *d)
{
	struct lend_pkt_frame *f = lend_coalesce_add(d, k->wire, k->tx.len, k->class);

	k->tx.next = 1;
	lend_make_request(&f->request, k, d->begun);
	f->request_end = 0;
	if (k->tx.len)
		lend_copy_short(f + 1, bufs->seg[k->tx.buf].data, k->tx.len);
	lend_call_sent(c, s, k, d->head.pkt.number);
}

/* Sends a short request with the next output(), by the session's open datagram. False: the request
 * takes the slow path, and nothing was done. */
LEND_HOT bool coalesce_request(struct lend_core *c, struct lend_sess *s,
			       const struct lend_bufs *bufs, struct lend_call_rec *k)
{
	uint64_t draw = s->id ^ k->wire ^ s->number << 32;
	struct lend_peer *p = lend_peer_of(c, s);
	struct lend_coalesced *d;

	if (!fits_frame(k, bufs) || s->room <= 0 || c->ready.n ||
	    c->cfg.order == LEND_ORDER_DEADLINE ||
	    !lend_coalesce_admits(c, s, k->class, k->fast, draw) || p->used + k->tx.len > p->limit)
		return false;
	d = lend_coalesce_open(c, s, k->class, k->tx.len);
	if (!d)
		return false;
	p->used += k->tx.len;
	k->tx.charged = k->tx.len;
	k->in_window = 1;
	s->room--;
	write_frame(c, s, bufs, k, d);
	return true;
}

bool lend_call_share(struct lend_core *c, struct lend_sess *s, const struct lend_bufs *bufs,
		     struct lend_call_rec *k)
{
	struct lend_coalesced *d = NULL;

	if (k->tx.len < s->frame_limit && fits_frame(k, bufs) &&
	    lend_coalesce_draw(c, s->id ^ k->wire ^ s->number << 32))
		d = lend_coalesce_open(c, s, lend_peer_class(c, s, k->class), k->tx.len);
	if (!d)
		return false;
	if (k->tx.next) {
		LEND_COUNT(c, repeats);
		k->tx.resend = 0;
	}
	if (k->state == LEND_CALL_OPEN)
		k->marks |= LEND_MARK_REPEATED;
	write_frame(c, s, bufs, k, d);
	return true;
}

int lend_call_make(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle)
{
	struct lend_sess *s;
	struct lend_call_rec *k;
	struct lend_cslot *slot;
	uint64_t len = 0;
	uint32_t i;
	int rc;

	s = lend_sess_find(c, session);
	rc = check_call(c, s, bufs, call, &len);
	if (rc < 0)
		return rc;
	i = take_slot(c, s, call->class & LEND_PKT_CLASS);
	if (i == LEND_NONE)
		return E_AGAIN;
	c->now = lend_max_u64(c->now, now);
	slot = lend_sess_cslot(c, s, i);
	slot->seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	slot->seq += !slot->seq;
	k = lend_call_new(c, s, lend_pkt_call(i, slot->seq), false);
	slot->rec = k->self;
	k->state = LEND_CALL_QUEUED;
	lend_sched_class(c, k, call->class & LEND_PKT_CLASS);
	k->method = call->method;
	k->marks = call->class & LEND_MARK_HEAD_OUT;
	if (call->zero_rtt && !k->marks)
		k->marks = LEND_MARK_ZERO_RTT;
	k->deadline = call->deadline;
	k->tag = call->tag;
	k->tx.buf = call->request;
	k->tx.len = (uint32_t)len;
	if (lend_tx_may_be_shared(bufs, call->request))
		k->shared = lend_tx_is_shared(bufs, call->request);
	k->rx.granted = lend_grants_first_reply(c, s, 0);
	if (call->reply)
		name_memory(c, k, bufs, call->reply);
	lend_sess_arm(c, s, k->deadline);
	if (s->state == LEND_SESS_UP) {
		lend_tx_begin(c, s, &k->tx, call->request, (uint32_t)len, k->shared);
		if (!coalesce_request(c, s, bufs, k))
			lend_window_enter(c, s, k);
	}
	*handle = lend_call_handle(k);
	return 0;
}

uint32_t lend_call_eager(const struct lend_sess *s, const struct lend_call_rec *k)
{
	uint32_t eager =
	    k->tx.len > s->unscheduled ? lend_min_u32(LEND_EAGER, s->unscheduled) : k->tx.len;

	return lend_min_u32(eager, s->first);
}

/* Ends a call without a reply. Memory named for the reply is given back with the event. */
static void end_without(struct lend_core *c, struct lend_call_rec *k, uint8_t status, uint8_t ran)
{
	struct lend_event *e;

	lend_call_refund(c, lend_sess_at(c, k->sess), k);
	lend_sched_remove(c, k);
	e = lend_call_end_event(c, k, status, ran);
	e->maybe_queued = k->state != LEND_CALL_QUEUED;
	if (k->rx.attached)
		e->reply = lend_rx_end(c, k);
	else
		lend_rx_drop(c, k);
	lend_tx_end(c, &k->tx);
}

void lend_call_drain(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	k->state = LEND_CALL_DRAINING;
	k->tries = 0;
	k->timer = LEND_NEVER;
	if (s->state == LEND_SESS_CONNECTING)
		return; /* there is no session yet to send CANCEL on */
	k->timer = c->now + lend_loss_rto(s, 0);
	lend_ctl_sess(c, s, LEND_PKT_CANCEL, k->wire, 0);
	lend_sess_arm(c, s, k->timer);
}

/* Returns whether a byte of the request may have been sent. A request that waits in a coalesced
 * datagram is withdrawn. */
static bool was_sent(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->state != LEND_CALL_OPEN || k->tries || k->marks & LEND_MARK_REPEATED ||
	    !lend_coalesce_withdraw(c, lend_sess_at(c, k->sess), k->wire, 0))
		return k->state == LEND_CALL_OPEN;
	k->state = LEND_CALL_QUEUED;
	return false;
}

void lend_call_stop(struct lend_core *c, struct lend_call_rec *k, uint8_t status)
{
	bool sent;

	if (k->state == LEND_CALL_DRAINING)
		return;
	sent = was_sent(c, k);
	end_without(c, k, status, sent ? RAN_MAYBE : RAN_NO);
	if (!sent) {
		lend_call_free_slot(c, lend_sess_at(c, k->sess), k);
		return;
	}
	lend_call_drain(c, k);
}

void lend_call_abort(struct lend_core *c, struct lend_call_rec *k, uint8_t status)
{
	if (k->state != LEND_CALL_DRAINING)
		end_without(c, k, status, was_sent(c, k) ? RAN_MAYBE : RAN_NO);
	lend_call_free_slot(c, lend_sess_at(c, k->sess), k);
}

lend_ns lend_call_wake(const struct lend_call_rec *k)
{
	return k->state == LEND_CALL_DRAINING ? k->timer : lend_min_u64(k->timer, k->deadline);
}

/* Returns whether a timer retransmits the request: one of a single datagram that the server is not
 * known to have. */
static bool is_repeated(const struct lend_sess *s, const struct lend_call_rec *k)
{
	return !s->lossless && !k->whole && k->tx.total <= 1;
}

/* Sends a PROBE, or retransmits a request of one datagram. PROBE is for lossless carriers, for
 * requests that the server has received, and for requests of several datagrams. */
static void send_probe(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	if (!is_repeated(s, k)) {
		LEND_COUNT(c, probes);
		lend_memq_on_query(c, k);
		lend_ctl_sess(c, s, LEND_PKT_PROBE, k->wire, 0);
		return;
	}
	lend_tx_lost(c, &k->tx, 0);
	if (k->tx.resend)
		lend_sched_ready(c, k);
}

/* Returns when to retransmit: after the timeout and a pseudo-random part of up to a quarter of it,
 * so that calls lost together are not retransmitted together. */
static lend_ns repeat_at(const struct lend_core *c, const struct lend_sess *s,
			 const struct lend_call_rec *k, lend_ns timeout)
{
	uint64_t mix = (s->id ^ (uint64_t)k->wire << 8 ^ k->tries) * UINT64_C(0x9e3779b97f4a7c15);

	return c->now + timeout + timeout / 256 * (mix >> 58);
}

/* Returns whether the call may be retransmitted or probed now. After a quarter of a timeout without
 * any datagram from the peer, only one call per session is repeated, with the session's own
 * backoff. Repeating all of them would only fill the peer's socket. */
static bool may_repeat(const struct lend_core *c, struct lend_sess *s)
{
	if (s->lossless || c->now - s->last_rx < lend_loss_rto(s, 0) / 4)
		return true;
	if (s->last_ping <= s->last_rx)
		s->ctl_tries = 0;
	else if (c->now - s->last_ping < lend_loss_rto(s, s->ctl_tries))
		return false;
	s->ctl_tries = (uint8_t)lend_min_u32(s->ctl_tries + 1u, 30);
	s->last_ping = c->now;
	return true;
}

/* Returns whether the call needs no timer of its own: the server has the request, nothing of the
 * reply is here, it was probed, and the next PROBE would follow after the longest timeout. */
static bool may_park(const struct lend_sess *s, const struct lend_call_rec *k)
{
	return k->state == LEND_CALL_OPEN && k->whole && k->rx.frags == LEND_NONE &&
	       k->rx.memq_state == LEND_MEMQ_NONE && s->features & LEND_FEATURE_RUNNING &&
	       k->tries && lend_call_timeout(s, k->tries) == LEND_RTO_MAX;
}

bool lend_call_any_parked(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k, show;
	uint32_t slot = 0;

	while ((k = lend_sess_next_made(c, s, &slot, &show)))
		if (lend_call_is_parked(k))
			return true;
	return false;
}

void lend_call_on_running(struct lend_core *c, struct lend_sess *s,
			  const struct lend_pkt_running *running)
{
	struct lend_call_rec *k, show;
	uint32_t slot = 0;

	while ((k = lend_sess_next_made(c, s, &slot, &show))) {
		uint32_t i = slot - 1;

		if (!lend_call_is_parked(k) || running->slots[i / 64] >> (i % 64) & 1)
			continue;
		k->tries = 0;
		k->timer = c->now;
		lend_sess_arm(c, s, c->now);
	}
}

/* Handles the first timeout of a call: one datagram of the session asks for all that is missing. */
static void tail_probe(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	k->tries = 1;
	k->timer = lend_max_u64(k->stamp, c->now - s->pto) + lend_call_timeout(s, 1);
	if (lend_loss_probed(s, c->now))
		return;
	s->probed = lend_max_u32((uint32_t)(c->now / LEND_SENT_UNIT), 1);
	send_probe(c, k);
}

void lend_call_tick(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	if (k->state != LEND_CALL_DRAINING && c->now >= k->deadline) {
		LEND_COUNT(c, timeouts);
		lend_call_stop(c, k, DEADLINE_EXCEEDED);
		return;
	}
	if (c->now < k->timer)
		return;
	if (k->state == LEND_CALL_OPEN && k->waits == LEND_WAITS_WINDOW) {
		k->timer = c->now + lend_call_timeout(s, k->tries); /* it is sent in its turn */
		return;
	}
	if (k->state == LEND_CALL_OPEN && !k->tries && s->pto < lend_loss_rto(s, 0)) {
		tail_probe(c, s, k);
		return;
	}
	if (may_park(s, k)) {
		k->timer = LEND_NEVER;
		return;
	}
	if (!may_repeat(c, s)) {
		k->timer = repeat_at(c, s, k, lend_loss_rto(s, s->ctl_tries) / 4);
		return;
	}
	k->tries = (uint8_t)lend_min_u32(k->tries + 1u, 30);
	k->timer = repeat_at(c, s, k, lend_call_timeout(s, k->tries));
	/* The carrier was full a moment ago, so the previous datagram still waits. Another one
	 * would fill the control queue, which all sessions share. */
	if (c->now < s->blocked[0] + s->block_ns[0] ||
	    c->now < s->blocked[k->fast] + s->block_ns[k->fast])
		return;
	if (k->state == LEND_CALL_DRAINING)
		lend_ctl_sess(c, s, LEND_PKT_CANCEL, k->wire, 0);
	else if (is_repeated(s, k) && k->tx.charged)
		lend_request_timeout(c, s, k);
	else
		send_probe(c, k);
}
