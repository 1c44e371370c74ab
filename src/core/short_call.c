#include "core/short_call.h"

#include "core/client_call.h"
#include "core/coalesce.h"
#include "core/grant.h"
#include "core/kept_reply.h"
#include "core/server_call.h"
#include "core/sess.h"

/* Takes a record for a request, and sets all fields but deadline, timer, tag, reply_cap, tx and rx.
 */
LEND_HOT struct lend_call_rec *take_record(struct lend_core *c, struct lend_sess *s, uint32_t sess,
					   uint32_t wire, uint32_t phase, uint64_t number,
					   uint32_t method)
{
	struct lend_call_rec *k = lend_call_take(c);

	k->serial = 0;
	k->sess_id = s->id;
	k->sess = sess;
	k->wire = wire;
	k->phase = phase;
	k->method = method;
	k->rare = 0;
	k->number = number;
	k->stamp = c->now;
	k->tx.win = LEND_NONE;
	k->rx.frags = LEND_NONE;
	lend_call_count(c, s, wire);
	return k;
}

/* Frees the record of a call that is on no list and has no memory. */
LEND_HOT void give_record(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	k->state = LEND_CALL_FREE;
	lend_pool_give(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t), k->self);
	lend_call_uncount(c, s);
}

/* Writes the frame of a request. */
LEND_HOT void write_request(struct lend_coalesced *d, uint32_t wire, uint32_t len,
			    const struct lend_core_call *call, uint32_t grant, const void *data)
{
	struct lend_pkt_frame *f;
	lend_ns left = call->deadline - d->begun;

	d->first |= UINT64_C(1) << d->frames;
	f = lend_coalesce_add(d, wire, len, d->class);
	f->request.method = call->method;
	f->request.left_us = call->deadline == LEND_NEVER
				 ? UINT32_MAX
				 : (uint32_t)lend_min_u64(left / LEND_US, UINT32_MAX - 1);
	f->request.grant = grant;
	f->request_end = 0;
	if (len)
		lend_copy_short(f + 1, data, len);
}

/* Makes the call, and writes its request into the session's open datagram. */
LEND_HOT bool start_short(struct lend_core *c, lend_ns now, struct lend_sess *s, uint32_t i,
			  const struct lend_bufs *bufs, const struct lend_core_call *call,
			  uint64_t *handle)
{
	uint32_t len = 0, next = 0, bit, seq;
	lend_ns at = lend_max_u64(c->now, now);
	const void *data = NULL;
	struct lend_coalesced *d;
	struct lend_cslot *slot;

	if (call->request) {
		len = bufs->seg[call->request].len;
		next = bufs->seg[call->request].next;
		data = bufs->seg[call->request].data;
	}
	if (len >= s->frame_limit || next || call->reply || !s->slots[0] || s->room <= 0 ||
	    s->unscheduled_used + len > s->unscheduled || c->ready.n ||
	    c->used[0] >= c->cfg.inflight || !lend_event_room(c))
		return false;
	bit = (uint32_t)__builtin_ctzll(s->slots[0]);
	if (call->class > LEND_CLASS_NORMAL || bit >= s->limit || bit >= s->cslots ||
	    c->bulk_paused_until > at || call->deadline <= at)
		return false;
	slot = lend_cslot_at(c, i, bit);
	seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	if (!seq || !lend_coalesce_draw(c, s->id ^ lend_pkt_call(bit, seq) ^ s->number << 32))
		return false;
	c->now = at;
	d = lend_coalesce_open(c, s, call->class, len);
	if (!d)
		return false;
	c->used[0]++;
	s->slots[0] &= s->slots[0] - 1;
	s->unscheduled_used += len;
	s->room--;
	lend_call_count(c, s, bit);
	slot->seq = seq;
	slot->rec = LEND_SLOT_SHORT;
	slot->serial = lend_max_u32(slot->serial + 1, 1);
	slot->method = call->method;
	slot->number = d->head.pkt.number;
	slot->stamp = at;
	slot->deadline = call->deadline;
	slot->tag = call->tag;
	slot->buf = call->request;
	slot->grant = lend_grants_first_reply(c, s);
	slot->len = (uint16_t)len;
	slot->class = d->class;
	slot->fast = d->fast;
	write_request(d, lend_pkt_call(bit, seq), len, call, slot->grant, data);
	lend_sess_arm(c, s, lend_min_u64(d->due, call->deadline));
	*handle = lend_slot_handle(slot->serial, i, bit);
	return true;
}

/* Prefetches what the start of a call touches: without caches that hold all sessions, its lines
 * arrive in parallel. */
static void fetch_for_call(struct lend_core *c, uint32_t sess)
{
	lend_sess_fetch(c, sess);
	lend_timer_fetch(c, sess);
	__builtin_prefetch(lend_cslot_at(c, sess, 0), 1);
}

int lend_core_call(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle)
{
	uint32_t i = (uint32_t)(session & LEND_INDEX_MASK);
	struct lend_sess *s = lend_sess_at(c, i);

	if (c->cfg.sessions >= LEND_MANY && i < c->cfg.sessions)
		fetch_for_call(c, i);
	if (i < c->cfg.sessions && s->id == session &&
	    start_short(c, now, s, i, bufs, call, handle))
		return 0;
	return lend_call_make(c, now, session, bufs, call, handle);
}

/* Begins the call of a request. */
LEND_HOT bool begin_short(struct lend_core *c, struct lend_sess *s, uint32_t sess, uint64_t number,
			  const struct lend_pkt_frame *f, const uint8_t *data)
{
	uint32_t slot = lend_pkt_slot(f->call), seq = lend_pkt_seq(f->call),
		 left = f->request.left_us;
	uint8_t class = f->flags & LEND_PKT_CLASS;
	bool fast = lend_sched_is_fast(c, class);
	struct lend_sslot *sl;
	struct lend_call_rec *k;
	struct lend_event *e;

	if (slot >= s->sslots)
		return false;
	sl = lend_sslot_at(c, sess, slot);
	if (seq == 0 || seq == sl->seq || number <= sl->number || !lend_slot_is_empty(sl->rec) ||
	    c->used[1] >= c->share_threshold || f->length > c->cfg.message_max)
		return false;
	c->used[1]++;
	k = take_record(c, s, sess, f->call,
			lend_call_phase(LEND_CALL_RUNNING, class, true, fast, false), number,
			f->request.method);
	sl->seq = seq;
	sl->number = number;
	sl->rec = k->self;
	k->deadline = left == UINT32_MAX ? LEND_NEVER : c->now + left * LEND_US;
	k->timer = LEND_NEVER;
	k->reply_cap = f->request.grant;
	k->rx.granted = lend_min_u32(f->length, s->first_sent);
	e = lend_event_add(lend_unhashed(c));
	e->what = lend_event_what(LEND_EV_REQUEST, 0, 0, class);
	e->data_len = f->length;
	e->method = f->request.method;
	e->session = s->id;
	e->call = (uint64_t)k->gen << 32 | k->self;
	e->deadline = k->deadline;
	e->len = f->length;
	e->buf = 0;
	e->reply = 0;
	e->data = data;
	return true;
}

/* Works as lend_copy_short() to two places, for at most LEND_KEPT_MAX bytes. */
LEND_HOT void copy_twice(uint8_t *to, uint8_t *also, const uint8_t *from, uint32_t len)
{
	if (len < 16) {
		lend_copy_short(to, from, len);
		lend_copy_short(also, from, len);
		return;
	}
	lend_copy_part(to, from);
	lend_copy_part(also, from);
	if (len > 32) {
		lend_copy_part(to + 16, from + 16);
		lend_copy_part(also + 16, from + 16);
		lend_copy_part(to + len - 32, from + len - 32);
		lend_copy_part(also + len - 32, from + len - 32);
	}
	lend_copy_part(to + len - 16, from + len - 16);
	lend_copy_part(also + len - 16, from + len - 16);
}
_Static_assert(LEND_KEPT_MAX <= 64, "four parts");

/* Answers a call: copies the reply into its slot and into the session's open datagram. */
LEND_HOT bool reply_short(struct lend_core *c, lend_ns now, struct lend_call_rec *k, uint8_t status,
			  const void *data, uint32_t len)
{
	const uint32_t any = lend_call_phase(0, UINT8_MAX, false, true, false);
	const uint32_t running = lend_call_phase(LEND_CALL_RUNNING, 0, true, false, false);
	struct lend_sess *s = lend_sess_at(c, k->sess);
	struct lend_pkt_frame *f;
	struct lend_coalesced *d;
	struct lend_sslot *sl;
	size_t position;

	if ((k->phase & ~any) != running || s->state != LEND_SESS_UP || !s->lingers ||
	    s->waiting.n || c->ready.n || c->bulk_paused_until > c->now ||
	    !lend_coalesce_draw(c, k->sess_id ^ k->wire ^ k->number << 32))
		return false;
	c->now = lend_max_u64(c->now, now);
	d = lend_coalesce_open(c, s, k->class, len);
	if (!d)
		return false;
	position = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	sl = lend_sslot_in(c, position);
	f = lend_coalesce_add(d, k->wire, len, k->class | LEND_PKT_SERVED);
	lend_kept_fill(sl, k, status, len);
	sl->arrived = LEND_NEVER;
	f->reply.status = sl->status;
	f->reply.ran = sl->ran;
	f->reply.patience_ms = LEND_PATIENCE_KEPT;
	f->reply.window = c->share_sent[s->level];
	/* After a duplicate of the request, the client's last number has another arrival. */
	f->reply.delay_ns = UINT32_MAX;
	if (sl->number == k->number)
		f->reply.delay_ns =
		    (uint32_t)lend_min_u64(lend_max_u64(d->begun, k->stamp) - k->stamp, UINT32_MAX);
	f->reply.acked = sl->number;
	if (len)
		copy_twice((uint8_t *)(f + 1), lend_kept_bytes(c, position), data, len);
	c->used[1]--;
	give_record(c, s, k);
	return true;
}

int lend_core_reply_short(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);

	if (len > LEND_KEPT_MAX || c->fast == LEND_FAST_NEVER)
		return E_AGAIN;
	if ((uint32_t)call < c->records && k->gen == call >> 32 &&
	    reply_short(c, now, k, status, data, len))
		return 0;
	return lend_reply_keep(c, now, call, status, data, len);
}

/* Ends the short call of a reply. */
LEND_HOT bool end_short(struct lend_core *c, struct lend_sess *s, uint32_t sess,
			const struct lend_pkt_frame *f, const uint8_t *data)
{
	uint32_t slot = lend_pkt_slot(f->call);
	const struct lend_pkt_reply *r = &f->reply;
	uint8_t ran = r->ran & ((1 << LEND_RAN_BITS) - 1);
	struct lend_cslot *cs;
	struct lend_event *e;

	if (slot >= s->cslots)
		return false;
	cs = lend_cslot_at(c, sess, slot);
	if (cs->seq != lend_pkt_seq(f->call) || cs->rec != LEND_SLOT_SHORT ||
	    f->length > c->cfg.message_max || r->patience_ms != LEND_PATIENCE_KEPT ||
	    r->status > STATUS_MAX || ran > RAN_MAYBE)
		return false;
	if (r->acked == cs->number)
		lend_loss_rtt_first(c, s, c->now - cs->stamp, r->delay_ns);
	s->unscheduled_used -= cs->len;
	s->room++;
	lend_window_learn(c, s, r->window);
	e = lend_event_add(lend_unhashed(c));
	e->what = lend_event_what(LEND_EV_CALL_END, r->status, ran, cs->class) |
		  (uint64_t)(r->ran >> LEND_RAN_BITS) << LEND_EVENT_HOPS;
	e->data_len = f->length;
	e->method = cs->method;
	e->session = s->id;
	e->call = lend_slot_handle(cs->serial, sess, slot);
	e->tag = cs->tag;
	e->len = f->length;
	e->buf = cs->buf;
	e->reply = 0;
	e->data = data;
	cs->rec = LEND_NONE;
	s->slots[slot / 64] |= UINT64_C(1) << (slot % 64);
	c->used[0]--;
	lend_call_uncount(c, s);
	lend_sess_on_call_end(c, s);
	return true;
}

/* Handles a frame in the general way. False: the session has ended. */
static __attribute__((noinline)) bool receive_slowly(struct lend_core *c, struct lend_bufs *bufs,
						     struct lend_sess *s, struct lend_pkt_view *v,
						     const struct lend_pkt_frame *f,
						     const uint8_t *data)
{
	lend_pkt_view_frame(v, f, data);
	if (f->flags & LEND_PKT_SERVED)
		lend_call_on_whole(c, bufs, s, v);
	else
		lend_serve_on_request(c, bufs, s, v);
	return s->state == LEND_SESS_UP;
}

/* Returns whether the end of a call changes nothing else in its session: no call waits, and no
 * acknowledgement is due. */
LEND_HOT bool is_calm(const struct lend_sess *s)
{
	return !(s->ack_due | s->ecn | s->queue.n | s->waiting.n | s->unplaced);
}

void lend_short_receive(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			struct lend_pkt_view *v)
{
	const uint8_t *at = v->payload, *end = at + v->payload_len, *data;
	const uint64_t number = v->head.number;
	const uint32_t sess = lend_sess_index(c, s);
	bool calm = is_calm(s);
	struct lend_pkt_frame f;

	for (uint32_t n = 0; at < end; n++) {
		data = lend_pkt_read_frame(&f, at, (size_t)(end - at));
		if (n == LEND_PKT_FRAMES_MAX || !data) {
			LEND_COUNT(c, rx_length);
			return;
		}
		at += lend_pkt_frame_len(f.length);
		if (f.flags & LEND_PKT_SERVED ? calm && end_short(c, s, sess, &f, data)
					      : begin_short(c, s, sess, number, &f, data))
			continue;
		if (f.call == 0)
			continue; /* withdrawn */
		if (!receive_slowly(c, bufs, s, v, &f, data))
			return;
		calm = is_calm(s);
	}
}
