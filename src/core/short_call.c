#include "core/short_call.h"

#include "core/client_call.h"
#include "core/coalesce.h"
#include "core/grant.h"
#include "core/kept_reply.h"
#include "core/server_call.h"
#include "core/sess.h"
#include "core/short_burst.h"

/* Returns the bytes of the reply to one more call that may be sent at once, in the upper half. */
LEND_HOT uint64_t reply_grant(struct lend_core *c, const struct lend_sess *s, uint32_t more)
{
	return (uint64_t)lend_grants_first_reply(c, s, more) << 32;
}

/* Returns the deadline as frames have it, in the upper half. begun: time of their datagram. */
LEND_HOT uint64_t left_us(lend_ns begun, lend_ns deadline)
{
	if (deadline == LEND_NEVER)
		return (uint64_t)UINT32_MAX << 32;
	return lend_min_u64((deadline - begun) / LEND_US, UINT32_MAX - 1) << 32;
}

/* Returns lend_cslot.kind of a call without its method and length. */
LEND_HOT uint64_t kind_of(uint8_t class, uint8_t fast)
{
	return (uint64_t) class << 48 | (uint64_t)fast << 56;
}

/* Opens a burst in this datagram. The limits permit `left` messages, of `bytes` together. */
LEND_HOT void open_burst(struct lend_core *c, struct lend_burst *b, const struct lend_sess *s,
			 const struct lend_coalesced *d, uint32_t left, uint64_t bytes)
{
	size_t at = (size_t)((const char *)d->bytes - (const char *)c);
	uint32_t fit = d->end - (d->end - d->at) % LEND_PKT_FRAME_ALIGN; /* frames are padded */

	b->frame = at + d->at;
	b->limit = at + lend_min_u64(fit - sizeof(struct lend_pkt_frame), d->at + bytes);
	b->left = lend_min_u32(left, LEND_PKT_FRAMES_MAX - d->frames);
	if (c->cfg.fast != LEND_FAST_ALWAYS)
		b->left = 1; /* each message draws */
	b->n = 0;
	b->bytes = 0;
	c->in_burst = 1;
	b->number = d->head.pkt.number;
	b->begun = d->begun;
	b->sess = (uint32_t)(s->id & LEND_INDEX_MASK);
	b->class = d->class;
	b->kind = kind_of(d->class, d->fast);
	b->flags = (uint64_t)d->class << 48;
	b->entry = s->coalesced;
}

/* Appends a frame to the burst's datagram and returns it, as lend_coalesce_add() does. */
LEND_HOT struct lend_pkt_frame *add_frame(struct lend_core *c, struct lend_burst *b, uint32_t call,
					  uint32_t length, uint64_t flags)
{
	void *at = (char *)c + b->frame;

	b->frame += lend_pkt_frame_len(length);
	b->left--;
	b->n++;
	return lend_coalesce_write(at, call, length, flags);
}

/* Returns the datagram for a call that takes the common path. NULL: it does not, and at most the
 * core's time has changed. */
LEND_HOT struct lend_coalesced *admit_call(struct lend_core *c, lend_ns now, struct lend_sess *s,
					   const struct lend_core_call *call, uint32_t len)
{
	lend_ns at = lend_max_u64(c->now, now);
	const struct lend_peer *p = lend_peer_of(c, s);
	uint32_t bit, seq;

	if (LEND_RARE(len >= s->frame_limit || !s->slots || s->room <= 0 ||
		      p->used + len > p->limit || c->ready.n || c->used[0] >= c->cfg.inflight ||
		      !lend_event_room(c)))
		return NULL;
	bit = (uint32_t)__builtin_ctzll(s->slots);
	if (LEND_RARE(call->class > LEND_CLASS_NORMAL || bit >= s->limit || bit >= s->cslots ||
		      c->bulk_paused_until > at || call->deadline <= at))
		return NULL;
	if (LEND_RARE(c->cfg.fast != LEND_FAST_ALWAYS)) {
		seq = lend_cslot_at(c, lend_sess_index(c, s), bit)->seq + 1;
		if (!lend_coalesce_draw(c, s->id ^ lend_pkt_call(bit, seq) ^ s->number << 32))
			return NULL;
	}
	c->now = at;
	return lend_coalesce_open(c, s, call->class, len);
}

/* Returns the handle of the slot's next short call. */
LEND_HOT uint64_t next_handle(uint64_t handle)
{
	const uint64_t one = UINT64_C(1) << 32;

	if (LEND_RARE(__builtin_add_overflow(handle, one, &handle)))
		handle += one;
	return handle;
}

/* Fills the slot of a call. Returns the call's number on the wire. */
LEND_HOT uint32_t fill_slot(const struct lend_core *c, struct lend_cslot *slot, uint32_t bit,
			    uint64_t number, uint64_t kind, uint64_t memory,
			    const struct lend_core_call *call)
{
	uint32_t seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;

	if (LEND_RARE(!seq))
		seq = 1;
	slot->place = seq | (uint64_t)LEND_SLOT_SHORT << 32;
	slot->handle = next_handle(slot->handle);
	slot->kind = call->method | kind;
	slot->number = number;
	slot->stamp = c->now;
	slot->deadline = call->deadline;
	slot->tag = call->tag;
	slot->memory = call->request | memory;
	return lend_pkt_call(bit, seq);
}

/* Writes the block and the payload of a request, as lend_make_request() does. */
LEND_HOT void fill_request(struct lend_pkt_frame *f, const struct lend_core_call *call,
			   uint64_t left, uint64_t memory, const struct lend_seg *seg)
{
	f->block[0] = call->method | left;
	f->block[1] = memory >> 32;
	if (seg->len)
		lend_copy_short(f + 1, seg->data, seg->len);
}

/* Makes the first call of a datagram, which is expected to be the only one. */
LEND_HOT uint64_t make_first(struct lend_core *c, struct lend_sess *s, struct lend_coalesced *d,
			     const struct lend_core_call *call, const struct lend_seg *seg)
{
	uint32_t bit = (uint32_t)__builtin_ctzll(s->slots), len = seg->len, wire;
	struct lend_cslot *slot = lend_cslot_at(c, lend_sess_index(c, s), bit);
	uint64_t memory = reply_grant(c, s, 0);

	c->used[0]++;
	s->slots &= s->slots - 1;
	lend_peer_of(c, s)->used += len;
	s->room--;
	lend_call_count(c, s, bit);
	wire = fill_slot(c, slot, bit, d->head.pkt.number,
			 kind_of(d->class, d->fast) | (uint64_t)len << 32, memory, call);
	fill_request(lend_coalesce_add(d, wire, len, d->class), call,
		     left_us(d->begun, call->deadline), memory, seg);
	lend_sess_arm(c, s, lend_min_u64(d->due, call->deadline));
	return slot->handle;
}

/* Opens a burst of calls in this datagram. */
LEND_HOT void open_calls(struct lend_core *c, struct lend_burst *b, struct lend_sess *s,
			 const struct lend_coalesced *d, lend_ns deadline)
{
	const struct lend_peer *p = lend_peer_of(c, s);
	uint32_t sess = lend_sess_index(c, s);

	open_burst(c, b, s, d, lend_min_u32((uint32_t)s->room, c->cfg.inflight - c->used[0]),
		   p->limit - p->used);
	b->most = s->frame_limit - 1u;
	b->slots = s->slots & lend_burst_slots(s);
	b->slot = (size_t)((const char *)lend_cslot_at(c, sess, 0) - (const char *)c);
	b->stride = c->cfg.sessions * (size_t)LEND_SLOT_RUN * sizeof(struct lend_cslot);
	b->memory = reply_grant(c, s, 0);
	b->deadline = deadline;
	b->earliest = deadline;
	b->left_us = left_us(b->begun, deadline);
	b->calls = s->id;
}

/* Returns whether a call can be added to the open burst. */
LEND_HOT bool continues_calls(const struct lend_core *c, struct lend_burst *b, lend_ns now,
			      const struct lend_core_call *call, uint32_t len)
{
	if (LEND_RARE(b->frame + len > b->limit || len > b->most || !b->left || !b->slots ||
		      call->class != b->class || now > c->now))
		return false;
	if (LEND_RARE(call->deadline != b->deadline)) {
		if (call->deadline <= c->now)
			return false;
		b->deadline = call->deadline;
		b->earliest = lend_min_u64(b->earliest, call->deadline);
		b->left_us = left_us(b->begun, call->deadline);
	}
	return true;
}

/* Makes the next call of a burst. */
LEND_HOT uint64_t add_call(struct lend_core *c, struct lend_burst *b,
			   const struct lend_core_call *call, const struct lend_seg *seg)
{
	uint32_t bit = (uint32_t)__builtin_ctzll(b->slots), len = seg->len, wire;
	void *run = (char *)c + b->slot + bit / LEND_SLOT_RUN * b->stride;
	struct lend_cslot *slot = (struct lend_cslot *)run + bit;

	b->slots &= b->slots - 1;
	b->bytes += len;
	wire = fill_slot(c, slot, bit, b->number, b->kind | (uint64_t)len << 32, b->memory, call);
	fill_request(add_frame(c, b, wire, len, b->flags), call, b->left_us, b->memory, seg);
	/* The more calls, the less each reply may bring. Enough if it is exact at powers of two. */
	if ((b->n & (b->n - 1)) == 0)
		b->memory = reply_grant(c, lend_sess_at(c, b->sess), b->n);
	return slot->handle;
}

/* Prefetches what the start of a call touches: without caches that hold all sessions, its lines
 * arrive in parallel. */
static void fetch_for_call(struct lend_core *c, uint32_t sess)
{
	lend_sess_fetch(c, sess);
	lend_timer_fetch(c, sess);
	__builtin_prefetch(lend_cslot_at(c, sess, 0), 1);
}

/* Opens a burst with this call. */
static __attribute__((noinline)) uint64_t open_with_call(struct lend_core *c, struct lend_sess *s,
							 const struct lend_coalesced *d,
							 const struct lend_core_call *call,
							 const struct lend_seg *seg)
{
	struct lend_burst *b = &lend_unhashed(c)->burst;

	open_calls(c, b, s, d, call->deadline);
	return add_call(c, b, call, seg);
}

/* Makes a call that does not continue a burst. */
static __attribute__((noinline)) int begin_call(struct lend_core *c, lend_ns now, uint64_t session,
						struct lend_bufs *bufs,
						const struct lend_core_call *call, uint64_t *handle)
{
	static const struct lend_seg empty = {.len = 0};
	const struct lend_seg *seg = call->request ? &bufs->seg[call->request] : &empty;
	uint32_t i = (uint32_t)(session & LEND_INDEX_MASK);
	struct lend_sess *s = lend_sess_at(c, i);
	struct lend_coalesced *d = NULL;

	if (c->cfg.sessions >= LEND_MANY && i < c->cfg.sessions)
		fetch_for_call(c, i);
	lend_burst_end(c);
	if (i < c->cfg.sessions && s->id == session && !seg->next && !call->reply)
		d = admit_call(c, now, s, call, seg->len);
	if (LEND_RARE(!d))
		return lend_call_make(c, now, session, bufs, call, handle);
	if (d->frames == 0 && !c->several[0])
		*handle = make_first(c, s, d, call, seg);
	else
		*handle = open_with_call(c, s, d, call, seg);
	return 0;
}

LEND_HOT int continue_call(struct lend_core *c, lend_ns now, uint64_t session,
			   struct lend_bufs *bufs, const struct lend_core_call *call,
			   uint64_t *handle)
{
	struct lend_burst *b = &lend_unhashed(c)->burst;
	const struct lend_seg *seg = &bufs->seg[call->request];

	if (LEND_RARE(!call->request || call->reply || seg->next ||
		      !continues_calls(c, b, now, call, seg->len)))
		return begin_call(c, now, session, bufs, call, handle);
	*handle = add_call(c, b, call, seg);
	return 0;
}

int lend_core_call(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle)
{
	if (session == lend_unhashed(c)->burst.calls)
		return continue_call(c, now, session, bufs, call, handle);
	return begin_call(c, now, session, bufs, call, handle);
}

/* Works as lend_copy_part() to two places; reads the bytes once. */
LEND_HOT void copy_part_twice(uint8_t *to, uint8_t *also, const uint8_t *from)
{
	uint64_t part[2];

	memcpy(part, from, sizeof(part));
	memcpy(to, part, sizeof(part));
	memcpy(also, part, sizeof(part));
}

/* Works as lend_copy_short() to two places, for at most LEND_KEPT_MAX bytes. */
LEND_HOT void copy_twice(uint8_t *to, uint8_t *also, const uint8_t *from, uint32_t len)
{
	if (len < 16) {
		lend_copy_short(to, from, len);
		lend_copy_short(also, from, len);
		return;
	}
	copy_part_twice(to, also, from);
	if (len > 32) {
		copy_part_twice(to + 16, also + 16, from + 16);
		copy_part_twice(to + len - 32, also + len - 32, from + len - 32);
	}
	copy_part_twice(to + len - 16, also + len - 16, from + len - 16);
}
_Static_assert(LEND_KEPT_MAX <= 64, "four parts");

/* Returns lend_call_rec.phase while the handler of a request runs, without the class. */
LEND_HOT uint32_t answered_phase(void)
{
	return lend_call_phase(LEND_CALL_RUNNING, 0, true, false, false);
}

/* Returns the datagram for a reply that takes the common path; NULL: as admit_call(). */
LEND_HOT struct lend_coalesced *admit_reply(struct lend_core *c, lend_ns now, struct lend_sess *s,
					    const struct lend_call_rec *k, uint32_t len)
{
	const uint32_t any = lend_call_phase(0, UINT8_MAX, false, true, false);

	if (LEND_RARE((k->phase & ~any) != answered_phase() || s->state != LEND_SESS_UP ||
		      !s->lingers || s->waiting.n || c->ready.n || c->bulk_paused_until > c->now ||
		      !lend_coalesce_draw(c, k->sess_id ^ k->wire ^ k->number << 32)))
		return NULL;
	c->now = lend_max_u64(c->now, now);
	return lend_coalesce_open(c, s, k->class, len);
}

/* Copies the reply of a call into its slot and into the frame of a datagram that was begun at this
 * time, and frees the record of the call, which is on no list and has no memory. window: code of
 * the request window, in the fourth byte. */
LEND_HOT void keep_reply(struct lend_core *c, struct lend_call_rec *k, struct lend_pkt_frame *f,
			 lend_ns begun, uint32_t window, uint8_t status, const void *data,
			 uint32_t len)
{
	struct lend_sslot *sl = lend_sslot_in(c, k->sslot);
	uint64_t delay = UINT32_MAX;

	lend_kept_fill(sl, k, status, len);
	sl->arrived = LEND_NEVER;
	/* After a duplicate of the request, the client's last number has another arrival. */
	if (sl->number == k->number)
		delay = lend_min_u64(lend_max_u64(begun, k->stamp) - k->stamp, UINT32_MAX);
	f->block[0] = (uint16_t)sl->kept | LEND_PATIENCE_KEPT << 16 | window | delay << 32;
	f->block[1] = sl->number;
	if (len)
		copy_twice((uint8_t *)(f + 1), lend_kept_bytes(c, k->sslot), data, len);
	k->state = LEND_CALL_FREE;
	lend_pool_give(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t), k->self);
}

LEND_HOT uint32_t window_code(struct lend_core *c, const struct lend_sess *s)
{
	return (uint32_t)lend_window_share(c, s) << 24;
}

/* Makes the next reply of a burst. */
LEND_HOT void add_reply(struct lend_core *c, struct lend_burst *b, struct lend_call_rec *k,
			uint8_t status, const void *data, uint32_t len)
{
	uint64_t flags = b->flags | (uint64_t)LEND_PKT_SERVED << 48;
	struct lend_pkt_frame *f = add_frame(c, b, k->wire, len, flags);

	keep_reply(c, k, f, b->begun, b->window, status, data, len);
}

/* Opens a burst with the reply of a call. */
static __attribute__((noinline)) void open_with_reply(struct lend_core *c, struct lend_sess *s,
						      const struct lend_coalesced *d,
						      struct lend_call_rec *k, uint8_t status,
						      const void *data, uint32_t len)
{
	struct lend_burst *b = &lend_unhashed(c)->burst;

	open_burst(c, b, s, d, UINT32_MAX, UINT32_MAX);
	b->window = window_code(c, s);
	b->replies = s->id;
	add_reply(c, b, k, status, data, len);
}

/* Answers a call. The reply does not continue a burst. */
static __attribute__((noinline)) int begin_reply(struct lend_core *c, lend_ns now,
						 struct lend_call_rec *k, uint8_t status,
						 const void *data, uint32_t len)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	struct lend_coalesced *d;

	lend_burst_end(c);
	d = admit_reply(c, now, s, k, len);
	if (LEND_RARE(!d))
		return lend_reply_keep(c, now, lend_call_handle(k), status, data, len);
	if (d->frames || c->several[1]) {
		open_with_reply(c, s, d, k, status, data, len);
		return 0;
	}
	c->used[1]--;
	keep_reply(c, k, lend_coalesce_add(d, k->wire, len, k->class | LEND_PKT_SERVED), d->begun,
		   window_code(c, s), status, data, len);
	lend_call_uncount(c, s);
	return 0;
}

LEND_HOT int continue_reply(struct lend_core *c, lend_ns now, struct lend_call_rec *k,
			    uint8_t status, const void *data, uint32_t len)
{
	const uint32_t fast = lend_call_phase(0, 0, false, true, false);
	struct lend_burst *b = &lend_unhashed(c)->burst;
	uint32_t of_class = b->class * lend_call_phase(0, 1, false, false, false);

	if (LEND_RARE(b->frame + len > b->limit || !b->left || now > c->now ||
		      (k->phase & ~fast) != (answered_phase() | of_class)))
		return begin_reply(c, now, k, status, data, len);
	add_reply(c, b, k, status, data, len);
	return 0;
}

int lend_core_reply_short(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);

	if (LEND_RARE(len > LEND_KEPT_MAX || c->fast == LEND_FAST_NEVER))
		return E_AGAIN;
	if (LEND_RARE((uint32_t)call >= c->records || k->gen != call >> 32))
		return lend_reply_keep(c, now, call, status, data, len);
	if (k->sess_id == lend_unhashed(c)->burst.replies)
		return continue_reply(c, now, k, status, data, len);
	return begin_reply(c, now, k, status, data, len);
}
