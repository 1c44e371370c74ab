/* short_receive - received frames of short calls (short_call.h), and the datagrams that they come
 * in when these are as predicted. Layer: core (pure). */
#include "core/client_call.h"
#include "core/coalesce.h"
#include "core/server_call.h"
#include "core/sess.h"
#include "core/short_call.h"

/* A frame, read once: its memory may change. */
struct frame {
	uint64_t word[3];
};

/* Bytes with no more frames than a datagram may have, which need not be counted. */
enum { UNCOUNTED = LEND_PKT_FRAMES_MAX * sizeof(struct frame) };

/* The datagram's frames that took the common path, and what is stored once for all of them. */
struct tally {
	struct lend_event *e; /* the next event */
	uint64_t id;          /* of the session */
	uint32_t sess;
	uint32_t begun, slots; /* calls that began; all of their slots, or-ed */
	uint32_t ended, bytes; /* calls that ended; bytes of their requests */
};

/* Returns lend_call_rec.phase while the handler of a request runs. */
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
	size_t position;

	if (LEND_RARE(slot >= s->sslots || f->word[2] >> 32))
		return false;
	position = lend_slot_position(c, t->sess, slot);
	sl = lend_sslot_in(c, position);
	if (LEND_RARE(seq == 0 || seq == sl->seq || number <= sl->number ||
		      !lend_slot_is_empty(sl->rec) || c->used[1] >= c->share_threshold))
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
	/* The other fields of a free record are as they should be. */
	k->sess_id = t->id;
	k->sess = t->sess;
	k->wire = call;
	k->phase = running_phase(c, class);
	k->method = method;
	k->rare = 0;
	k->number = number;
	k->stamp = c->now;
	k->deadline = deadline;
	k->sslot = position;
	k->reply_cap = (uint32_t)f->word[2];
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

	if (LEND_RARE(slot >= s->cslots))
		return false;
	cs = lend_cslot_at(c, t->sess, slot);
	if (LEND_RARE(cs->seq != lend_pkt_seq(call) || cs->rec != LEND_SLOT_SHORT ||
		      !(what = judge_reply(c, s, (uint32_t)f->word[1]))))
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
	lend_slots_free(c, s, slot);
	return true;
}

/* Counts the calls that began and ended, and makes their events visible. */
LEND_HOT void settle_tally(struct lend_core *c, struct lend_unhashed *a, struct lend_sess *s,
			   const struct tally *t)
{
	uint32_t n = t->begun + t->ended;

	a->ev_n += n;
	a->ev_end += n;
	if (t->begun) {
		lend_call_count(c, s, t->slots);
		s->calls = (uint16_t)(s->calls + t->begun - 1);
	}
	if (t->ended) {
		s->room = (int16_t)(s->room + t->ended);
		c->used[0] -= t->ended;
		s->calls = (uint16_t)(s->calls - t->ended + 1);
		lend_call_uncount(c, s);
		lend_peer_release(c, s, t->bytes);
		lend_sess_on_call_end(c, s);
	}
}

/* Returns whether the end of a call changes nothing else in its session: no call waits, and no
 * acknowledgement is due. */
LEND_HOT bool is_calm(const struct lend_sess *s)
{
	return !(s->ack_due | s->ecn | s->queue.n | s->waiting.n | s->unplaced);
}

bool lend_short_end(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	struct lend_unhashed *a = lend_unhashed(c);
	struct tally t = {.e = a->ev + a->ev_end, .id = s->id, .sess = lend_sess_index(c, s)};
	struct frame f = {.word = {v->head.call | (uint64_t)v->head.length << 32}};
	struct lend_pkt_reply reply = v->reply;

	if (v->parts || v->head.flags & LEND_PKT_WITH_HEAD || v->head.length > c->cfg.message_max ||
	    v->head.length > UINT16_MAX || s->queue.n | s->waiting.n | s->unplaced ||
	    a->ev_cap - a->ev_end < 2)
		return false;
	reply.patience_ms = LEND_PATIENCE_KEPT;
	memcpy(&f.word[1], &reply, sizeof(reply));
	if (!end_short(c, s, &f, v->payload, &t))
		return false;
	if (v->reply.patience_ms != LEND_PATIENCE_KEPT || s->ack_due || s->ecn)
		lend_call_schedule_ack(c, s, v->reply.patience_ms);
	settle_tally(c, a, s, &t);
	return true;
}

/* Handles frames until one does not take the common path. Returns where that is, or the end. n:
 * frames of the datagram so far. counted: ends when the datagram has as many as it may. */
LEND_HOT const uint8_t *receive_usual(struct lend_core *c, struct lend_sess *s, uint64_t number,
				      const uint8_t *at, const uint8_t *end, uint32_t *n,
				      bool counted)
{
	struct lend_unhashed *a = lend_unhashed(c);
	struct tally t = {.e = a->ev + a->ev_end, .id = s->id, .sess = lend_sess_index(c, s)};
	const struct lend_event *most = t.e + (LEND_PKT_FRAMES_MAX - *n);
	bool calm = is_calm(s);
	struct frame f;

	for (; end - at >= (ptrdiff_t)sizeof(f) && (!counted || t.e < most); t.e++) {
		const uint8_t *data = at + sizeof(f);
		uint32_t len;

		for (int i = 0; i < 3; i++) {
			f.word[i] = lend_load_u64(at + 8 * i);
			LEND_ONCE_REG(f.word[i]);
		}
		len = lend_pkt_frame_len((uint16_t)(f.word[0] >> 32));
		if (LEND_RARE(f.word[0] >> 48 & (uint16_t) ~(LEND_PKT_CLASS | LEND_PKT_SERVED) ||
			      len > (size_t)(end - at)))
			break;
		if (LEND_RARE(f.word[0] >> 48 & LEND_PKT_SERVED
				  ? !calm || !end_short(c, s, &f, data, &t)
				  : !begin_short(c, s, number, &f, data, &t)))
			break;
		at += len;
	}
	settle_tally(c, a, s, &t);
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

/* Handles the frames of a datagram that are left after n of them. */
static __attribute__((noinline)) void receive_rest(struct lend_core *c, struct lend_bufs *bufs,
						   struct lend_sess *s, uint64_t number,
						   const uint8_t *at, const uint8_t *end,
						   uint32_t n)
{
	for (; at < end; n++) {
		const struct lend_unhashed *a = lend_unhashed(c);

		if (a->ev_cap - a->ev_end > LEND_PKT_FRAMES_MAX &&
		    (uint64_t)(end - at) <= c->cfg.message_max)
			at = receive_usual(c, s, number, at, end, &n, true);
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

void lend_short_receive(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			uint64_t number, const uint8_t *at, uint32_t len)
{
	receive_rest(c, bufs, s, number, at, at + len, 0);
}

/* Returns the session of a datagram that is as predicted: frames only, with the next number of a
 * session that is up, not marked, without a report. NULL: it is another one. Changes nothing. */
LEND_HOT struct lend_sess *predicted_sess(struct lend_core *c, const struct lend_in *in,
					  uint32_t *len)
{
	const uint8_t *at = in->data;
	uint64_t first, session, number, rest;
	struct lend_sess *s;

	if (LEND_RARE(in->len <= sizeof(struct lend_pkt) || in->body || in->ecn))
		return NULL;
	first = lend_load_u64(at + offsetof(struct lend_pkt, magic)); /* and the call, which is 0 */
	session = lend_load_u64(at + offsetof(struct lend_pkt, session));
	number = lend_load_u64(at + offsetof(struct lend_pkt, number));
	rest = lend_load_u64(at + offsetof(struct lend_pkt, offset));
	LEND_ONCE_REG(session);
	LEND_ONCE_REG(number);
	if (LEND_RARE((first & ~((uint64_t)LEND_PKT_CLASS << 24)) !=
			  lend_pkt_first(LEND_PKT_CALLS, 0) ||
		      (session & LEND_INDEX_MASK) >= c->cfg.sessions))
		return NULL;
	s = lend_sess_at(c, session & LEND_INDEX_MASK);
	*len = in->len - (uint32_t)sizeof(struct lend_pkt);
	/* The offset is 0, the length is right. */
	if (LEND_RARE(s->id != session || number != s->seen + 1 || !number || s->peer != in->peer ||
		      rest != (uint64_t)*len << 32 || *len > s->predicted))
		return NULL;
	return s;
}

uint32_t lend_short_input(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in,
			  uint32_t n)
{
	struct lend_unhashed *a = lend_unhashed(c);
	/* The ring of events does not wrap while the events are at its start. */
	uint32_t i, most = a->ev_first == 0 ? a->ev_room : 0;

	for (i = 0; i < n && a->ev_end < most; i++) {
		const uint8_t *end, *at = (const uint8_t *)in[i].data + sizeof(struct lend_pkt);
		uint32_t len, frames = 0;
		struct lend_sess *s = predicted_sess(c, &in[i], &len);

		if (LEND_RARE(!s))
			break;
		s->seen++;
		s->seen_map = s->seen_map << 1 | 1;
		s->seen_at = c->now + !c->now;
		s->last_rx = c->now;
		end = at + len;
		at = receive_usual(c, s, s->seen, at, at + lend_min_u32(len, UNCOUNTED), &frames,
				   false);
		if (LEND_RARE(at != end))
			receive_rest(c, bufs, s, s->seen, at, end, frames);
	}
	a->stats.rx += i;
	return i;
}
