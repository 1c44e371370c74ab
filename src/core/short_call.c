#include "core/short_call.h"

#include "core/client_call.h"
#include "core/coalesce.h"
#include "core/grant.h"
#include "core/kept_reply.h"
#include "core/server_call.h"
#include "core/sess.h"

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

/* Returns the handle of the slot's next short call. */
LEND_HOT uint64_t next_handle(uint64_t handle)
{
	const uint64_t one = UINT64_C(1) << 32;

	handle += one;
	return handle < one ? handle + one : handle;
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
	slot->handle = next_handle(slot->handle);
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
	*handle = slot->handle;
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

/* A frame, read once: its memory may change. */
struct frame {
	uint64_t word[3];
};

/* The datagram's frames that took the common path, and what is stored once for all of them. */
struct tally {
	struct lend_event *e; /* the next event */
	uint64_t id;          /* of the session */
	uint32_t sess;
	uint32_t begun, slots; /* calls that began; all of their slots, or-ed */
	uint32_t ended, bytes; /* calls that ended; bytes of their requests */
};

/* Returns lend_call_rec.phase of a request whose handler runs. */
LEND_HOT uint32_t running_phase(const struct lend_core *c, uint8_t class)
{
	const uint32_t fast = lend_call_phase(0, 0, false, true, false);

	return lend_call_phase(LEND_CALL_RUNNING, 0, true, false, false) |
	       class * lend_call_phase(0, 1, false, false, false) |
	       (lend_sched_is_fast(c, class) ? fast : 0);
}

/* Begins the call of a request. */
LEND_HOT bool begin_short(struct lend_core *c, struct lend_sess *s, uint64_t number,
			  const struct frame *f, const uint8_t *data, struct tally *t)
{
	uint32_t call = (uint32_t)f->word[0], slot = lend_pkt_slot(call), seq = lend_pkt_seq(call),
		 left = f->word[1] >> 32, method = (uint32_t)f->word[1];
	uint16_t len = (uint16_t)(f->word[0] >> 32);
	uint8_t class = (uint8_t)(f->word[0] >> 48);
	lend_ns deadline = left == UINT32_MAX ? LEND_NEVER : c->now + left * LEND_US;
	struct lend_event *e = t->e;
	struct lend_call_rec *k;
	struct lend_sslot *sl;
	uint32_t self, gen;

	if (slot >= s->sslots || f->word[2] >> 32)
		return false;
	sl = lend_sslot_at(c, t->sess, slot);
	if (seq == 0 || seq == sl->seq || number <= sl->number || !lend_slot_is_empty(sl->rec) ||
	    c->used[1] >= c->share_threshold)
		return false;
	c->used[1]++;
	t->begun++;
	t->slots |= slot;
	k = lend_call_take(c);
	self = k->self;
	gen = k->gen;
	sl->seq = seq;
	sl->number = number;
	sl->rec = self;
	/* Of the fields up to tag, all; the others of a free record are as they should be. */
	k->serial = 0;
	k->sess_id = t->id;
	k->sess = t->sess;
	k->wire = call;
	k->phase = running_phase(c, class);
	k->method = method;
	k->rare = 0;
	k->number = number;
	k->stamp = c->now;
	k->deadline = deadline;
	k->timer = LEND_NEVER;
	k->reply_cap = (uint32_t)f->word[2];
	k->tx.win = LEND_NONE;
	k->rx.frags = LEND_NONE;
	k->rx.granted = lend_min_u32(len, s->first_sent);
	e->what = lend_event_what(LEND_EV_REQUEST, 0, 0, class);
	e->data_len = len;
	e->method = method;
	e->session = t->id;
	e->call = (uint64_t)gen << 32 | self;
	e->deadline = deadline;
	e->len = len;
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

/* Returns the first four bytes of a reply's block that changes nothing but its call. */
LEND_HOT uint32_t usual_reply(const struct lend_sess *s)
{
	return (uint32_t)RAN_YES << 8 | (uint32_t)LEND_PATIENCE_KEPT << 16 |
	       (uint32_t)s->window << 24;
}

/* Returns lend_event.what of a reply without the class; 0: it is not of a short call, or not valid.
 */
LEND_HOT uint64_t judge_reply(struct lend_core *c, struct lend_sess *s, uint32_t block)
{
	uint8_t status = (uint8_t)block, ran = (uint8_t)(block >> 8) & ((1 << LEND_RAN_BITS) - 1);

	if (block == usual_reply(s))
		return lend_event_what(LEND_EV_CALL_END, 0, RAN_YES, 0);
	if ((uint8_t)(block >> 16) != LEND_PATIENCE_KEPT || status > STATUS_MAX || ran > RAN_MAYBE)
		return 0;
	lend_window_learn(c, s, (uint8_t)(block >> 24));
	return lend_event_what(LEND_EV_CALL_END, status, ran, 0) |
	       (uint64_t)((uint8_t)(block >> 8) >> LEND_RAN_BITS) << LEND_EVENT_HOPS;
}

/* Ends the short call of a reply. */
LEND_HOT bool end_short(struct lend_core *c, struct lend_sess *s, const struct frame *f,
			const uint8_t *data, struct tally *t)
{
	uint32_t call = (uint32_t)f->word[0], slot = lend_pkt_slot(call);
	struct lend_event *e = t->e;
	struct lend_cslot *cs;
	uint64_t what;

	if (slot >= s->cslots)
		return false;
	cs = lend_cslot_at(c, t->sess, slot);
	if (cs->seq != lend_pkt_seq(call) || cs->rec != LEND_SLOT_SHORT ||
	    !(what = judge_reply(c, s, (uint32_t)f->word[1])))
		return false;
	if (f->word[2] == cs->number)
		lend_loss_rtt_first(c, s, c->now - cs->stamp, f->word[1] >> 32);
	t->ended++;
	t->bytes += cs->len;
	e->what = what | (uint64_t)cs->class << 24;
	e->data_len = (uint16_t)(f->word[0] >> 32);
	e->method = cs->method;
	e->session = t->id;
	e->call = cs->handle;
	e->tag = cs->tag;
	e->len = e->data_len;
	e->buf = cs->buf;
	e->reply = 0;
	e->data = data;
	cs->rec = LEND_NONE;
	s->slots[slot / 64] |= UINT64_C(1) << (slot % 64);
	return true;
}

/* Counts the calls that began and ended, and makes their events visible. */
LEND_HOT void settle_tally(struct lend_core *c, struct lend_sess *s, const struct tally *t)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t n = t->begun + t->ended;

	a->ev_n += n;
	a->ev_end += n;
	if (t->begun) {
		lend_call_count(c, s, t->slots);
		s->calls = (uint16_t)(s->calls + t->begun - 1);
	}
	if (t->ended) {
		s->room = (int16_t)(s->room + t->ended);
		s->unscheduled_used -= t->bytes;
		c->used[0] -= t->ended;
		s->calls = (uint16_t)(s->calls - t->ended + 1);
		lend_call_uncount(c, s);
		lend_sess_on_call_end(c, s);
	}
}

/* Returns whether the end of a call changes nothing else in its session: no call waits, and no
 * acknowledgement is due. */
LEND_HOT bool is_calm(const struct lend_sess *s)
{
	return !(s->ack_due | s->ecn | s->queue.n | s->waiting.n | s->unplaced);
}

/* Handles frames until one does not take the common path. Returns where that is, or the end. */
LEND_HOT const uint8_t *receive_usual(struct lend_core *c, struct lend_sess *s, uint64_t number,
				      const uint8_t *at, const uint8_t *end, uint32_t *n)
{
	const struct lend_unhashed *a = lend_unhashed(c);
	struct tally t = {
	    .e = lend_unhashed(c)->ev + a->ev_end, .id = s->id, .sess = lend_sess_index(c, s)};
	bool calm = is_calm(s);
	struct frame f;

	/* The bytes up to this end have at most as many frames as are still permitted. */
	end = at + lend_min_u64((uint64_t)(end - at), (LEND_PKT_FRAMES_MAX - *n) * sizeof(f));
	if (a->ev_cap - a->ev_end <= LEND_PKT_FRAMES_MAX ||
	    (uint64_t)(end - at) > c->cfg.message_max)
		return at;
	for (; end - at >= (ptrdiff_t)sizeof(f); t.e++) {
		const uint8_t *data = at + sizeof(f);
		uint32_t len;

		for (int i = 0; i < 3; i++) {
			f.word[i] = lend_load_u64(at + 8 * i);
			LEND_ONCE_REG(f.word[i]);
		}
		len = lend_pkt_frame_len((uint16_t)(f.word[0] >> 32));
		if (f.word[0] >> 48 & (uint16_t) ~(LEND_PKT_CLASS | LEND_PKT_SERVED) ||
		    len > (size_t)(end - at))
			break;
		if (f.word[0] >> 48 & LEND_PKT_SERVED ? !calm || !end_short(c, s, &f, data, &t)
						      : !begin_short(c, s, number, &f, data, &t))
			break;
		at += len;
	}
	settle_tally(c, s, &t);
	*n += t.begun + t.ended;
	return at;
}

/* Handles a frame in the general way. False: it is faulty, or the session has ended. */
static __attribute__((noinline)) bool receive_slowly(struct lend_core *c, struct lend_bufs *bufs,
						     struct lend_sess *s, uint64_t number,
						     const uint8_t **at, const uint8_t *end)
{
	uint32_t used = 0;
	struct lend_pkt_view v;

	if (!lend_pkt_decode_frame(&v, *at, (uint32_t)(end - *at), &used)) {
		LEND_COUNT(c, rx_length);
		return false;
	}
	*at += used;
	if (v.head.call == 0)
		return true; /* withdrawn */
	v.head.kind = LEND_PKT_CALLS;
	v.head.session = s->id;
	v.head.number = number;
	v.head.offset = 0;
	v.parts = 0;
	if (v.head.flags & LEND_PKT_SERVED)
		lend_call_on_whole(c, bufs, s, &v);
	else
		lend_serve_on_request(c, bufs, s, &v);
	return s->state == LEND_SESS_UP;
}

void lend_short_receive(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			uint64_t number, const uint8_t *at, uint32_t len)
{
	const uint8_t *end = at + len;
	uint32_t n = 0;

	for (; at < end; n++) {
		at = receive_usual(c, s, number, at, end, &n);
		if (at == end)
			return;
		if (n == LEND_PKT_FRAMES_MAX) {
			LEND_COUNT(c, rx_length);
			return;
		}
		if (!receive_slowly(c, bufs, s, number, &at, end))
			return;
	}
}
