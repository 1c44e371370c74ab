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

/* Returns the time left of a request, as lend_make_request() has it. */
LEND_HOT uint32_t time_left(struct lend_coalesced *d, lend_ns deadline)
{
	if (deadline != d->deadline) {
		d->deadline = deadline;
		d->left =
		    deadline == LEND_NEVER
			? UINT32_MAX
			: (uint32_t)lend_min_u64((deadline - d->begun) / LEND_US, UINT32_MAX - 1);
	}
	return d->left;
}

/* Returns the handle of the slot's next short call. */
LEND_HOT uint64_t next_handle(uint64_t handle)
{
	const uint64_t one = UINT64_C(1) << 32;

	return LEND_RARE(__builtin_add_overflow(handle, one, &handle)) ? handle + one : handle;
}

/* Returns how many calls the session's window and its first slots have room for. */
LEND_HOT uint32_t calls_left(const struct lend_sess *s)
{
	uint32_t n = lend_min_u32(s->limit, s->cslots);
	uint64_t most = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;

	return s->room <= 0 ? 0
			    : lend_min_u32((uint32_t)s->room,
					   (uint32_t)__builtin_popcountll(s->slots & most));
}

/* Opens the session's datagram for short calls: tests what need not be tested for each. NULL: the
 * call takes the slow path. */
LEND_HOT struct lend_coalesced *admit_calls(struct lend_core *c, lend_ns now, struct lend_sess *s,
					    uint8_t class, uint32_t len)
{
	uint32_t n = calls_left(s);
	struct lend_coalesced *d;

	if (n == 0 || c->ready.n || !lend_event_room(c) || class > LEND_CLASS_NORMAL ||
	    c->bulk_paused_until > now ||
	    !lend_coalesce_draw(c, s->id ^ s->slots ^ s->number << 32))
		return NULL;
	c->now = now;
	d = lend_coalesce_open(c, s, class, len);
	if (LEND_RARE(!d))
		return NULL;
	d->calls = (uint8_t)n;
	if (c->cfg.fast == LEND_FAST_ALWAYS)
		d->calls_at = lend_unhashed(c)->changes;
	return d;
}

/* Makes the call, and writes its request into the session's open datagram. */
LEND_HOT void start_short(struct lend_core *c, struct lend_sess *s, struct lend_coalesced *d,
			  const struct lend_seg *seg, const struct lend_core_call *call,
			  uint64_t *handle)
{
	uint32_t len = seg->len, bit = (uint32_t)__builtin_ctzll(s->slots), seq;
	struct lend_cslot *slot = lend_cslot_at(c, lend_sess_index(c, s), bit);
	uint32_t grant = lend_grants_first_reply(c, s);
	struct lend_pkt_frame *f;

	d->calls--;
	c->used[0]++;
	s->slots &= s->slots - 1;
	s->unscheduled_used += len;
	s->room--;
	lend_call_count(c, s, bit);
	seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	seq += !seq;
	slot->seq = seq;
	slot->rec = LEND_SLOT_SHORT;
	slot->handle = next_handle(slot->handle);
	*handle = slot->handle;
	slot->method = call->method;
	slot->len = (uint16_t)len;
	slot->class = d->class;
	slot->fast = d->fast;
	slot->number = d->head.pkt.number;
	slot->stamp = c->now;
	slot->deadline = call->deadline;
	slot->tag = call->tag;
	slot->buf = call->request;
	slot->grant = grant;
	f = lend_coalesce_add(d, lend_pkt_call(bit, seq), len, d->class);
	f->request.method = call->method;
	f->request.left_us = time_left(d, call->deadline);
	f->block[1] = grant;
	if (len)
		lend_copy_short(f + 1, seg->data, len);
	lend_sess_arm(c, s, lend_min_u64(d->due, call->deadline));
}

/* Prefetches what the start of a call touches besides its session: without caches that hold all
 * sessions, its lines arrive in parallel. */
static void fetch_for_call(struct lend_core *c, uint32_t sess)
{
	lend_timer_fetch(c, sess);
	__builtin_prefetch(lend_cslot_at(c, sess, 0), 1);
}

/* Returns whether a request has one segment, fits a frame, and no limit of the core or its session
 * is reached. */
LEND_HOT bool is_short(const struct lend_core *c, const struct lend_sess *s, lend_ns now,
		       const struct lend_seg *seg, const struct lend_core_call *call)
{
	return seg->len < s->frame_limit && !seg->next && !call->reply && call->deadline > now &&
	       s->unscheduled_used + seg->len <= s->unscheduled && c->used[0] < c->cfg.inflight;
}

static const struct lend_seg no_request;

/* lend_core_call(), whose request begins a datagram or takes the slow path. */
static __attribute__((noinline)) int begin_call(struct lend_core *c, lend_ns now, uint64_t session,
						struct lend_bufs *bufs,
						const struct lend_core_call *call, uint64_t *handle)
{
	const struct lend_seg *seg = call->request ? &bufs->seg[call->request] : &no_request;
	struct lend_sess *s = lend_sess_at(c, session & LEND_INDEX_MASK);
	lend_ns at = lend_max_u64(c->now, now);
	struct lend_coalesced *d;

	if (LEND_RARE(c->cfg.sessions >= LEND_MANY))
		fetch_for_call(c, session & LEND_INDEX_MASK);
	if (LEND_RARE(s->id != session || !is_short(c, s, at, seg, call)) ||
	    LEND_RARE(!(d = admit_calls(c, at, s, call->class, seg->len))))
		return lend_call_make(c, now, session, bufs, call, handle);
	start_short(c, s, d, seg, call, handle);
	return 0;
}

/* lend_core_call(), whose request is added to its session's open datagram d. */
static __attribute__((noinline)) int join_call(struct lend_core *c, lend_ns now,
					       struct lend_coalesced *d, struct lend_bufs *bufs,
					       const struct lend_core_call *call, uint64_t *handle)
{
	const struct lend_seg *seg = call->request ? &bufs->seg[call->request] : &no_request;
	struct lend_sess *s = lend_sess_at(c, d->id & LEND_INDEX_MASK);
	lend_ns at = lend_max_u64(c->now, now);

	if (LEND_RARE(!is_short(c, s, at, seg, call) ||
		      !lend_coalesce_fits(d, call->class, seg->len)))
		return begin_call(c, now, d->id, bufs, call, handle);
	c->now = at;
	start_short(c, s, d, seg, call, handle);
	return 0;
}

int lend_core_call(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle)
{
	uint32_t i = (uint32_t)(session & LEND_INDEX_MASK);
	struct lend_coalesced *d;

	if (LEND_RARE(i >= c->cfg.sessions))
		return E_STALE;
	if (LEND_RARE(c->cfg.sessions >= LEND_MANY))
		lend_sess_fetch(c, i);
	d = lend_coalesced_at(c, lend_sess_at(c, i)->coalesced);
	return d->id == session && d->calls_at == lend_unhashed(c)->changes && d->calls
		   ? join_call(c, now, d, bufs, call, handle)
		   : begin_call(c, now, session, bufs, call, handle);
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

/* Returns the session's open datagram for a short reply; NULL: the reply takes the slow path. Tests
 * what need not be tested for the replies after it. */
LEND_HOT struct lend_coalesced *admit_reply(struct lend_core *c, lend_ns now,
					    const struct lend_call_rec *k, uint32_t len)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	struct lend_coalesced *d;

	if (s->state != LEND_SESS_UP || !s->lingers || s->waiting.n || c->ready.n ||
	    c->bulk_paused_until > now ||
	    !lend_coalesce_draw(c, k->sess_id ^ k->wire ^ k->number << 32))
		return NULL;
	c->now = now;
	d = lend_coalesce_open(c, s, k->class, len);
	if (d && c->fast == LEND_FAST_ALWAYS)
		d->replies_at = lend_unhashed(c)->changes;
	return d;
}

/* Answers a call: copies the reply into its slot and into the session's open datagram. */
LEND_HOT void send_short(struct lend_core *c, struct lend_coalesced *d, struct lend_call_rec *k,
			 uint8_t status, const void *data, uint32_t len)
{
	size_t position = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	struct lend_sslot *sl = lend_sslot_in(c, position);
	struct lend_sess *s = lend_sess_at(c, k->sess);
	struct lend_pkt_frame *f;
	uint64_t delay = UINT32_MAX;

	f = lend_coalesce_add(d, k->wire, len, d->class | LEND_PKT_SERVED);
	lend_kept_fill(sl, k, status, len);
	sl->arrived = LEND_NEVER;
	/* After a duplicate of the request, the client's last number has another arrival. */
	if (sl->number == k->number)
		delay = lend_min_u64(lend_max_u64(d->begun, k->stamp) - k->stamp, UINT32_MAX);
	f->reply.status = sl->status;
	f->reply.ran = sl->ran;
	f->reply.patience_ms = LEND_PATIENCE_KEPT;
	f->reply.window = lend_window_share(c, s);
	f->reply.delay_ns = (uint32_t)delay;
	f->reply.acked = sl->number;
	if (len)
		copy_twice((uint8_t *)(f + 1), lend_kept_bytes(c, position), data, len);
	c->used[1]--;
	give_record(c, s, k);
}

/* Returns whether the handler of a request runs whose record is now this one. */
LEND_HOT bool is_running(const struct lend_call_rec *k, uint64_t call)
{
	const uint32_t any = lend_call_phase(0, UINT8_MAX, false, true, false);
	const uint32_t running = lend_call_phase(LEND_CALL_RUNNING, 0, true, false, false);

	return k->gen == call >> 32 && (k->phase & ~any) == running;
}

/* lend_core_reply_short(), whose reply begins a datagram or takes the slow path. */
static __attribute__((noinline)) int begin_reply(struct lend_core *c, lend_ns now, uint64_t call,
						 uint8_t status, const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);
	struct lend_coalesced *d;

	if (c->fast == LEND_FAST_NEVER)
		return E_AGAIN;
	if (LEND_RARE(!is_running(k, call)) ||
	    LEND_RARE(!(d = admit_reply(c, lend_max_u64(c->now, now), k, len))))
		return lend_reply_keep(c, now, call, status, data, len);
	send_short(c, d, k, status, data, len);
	return 0;
}

int lend_core_reply_short(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);
	struct lend_coalesced *d;

	if (LEND_RARE(len > LEND_KEPT_MAX || (uint32_t)call >= c->records))
		return E_AGAIN;
	d = lend_coalesced_at(c, lend_sess_at(c, k->sess)->coalesced);
	if (d->id != k->sess_id || d->replies_at != lend_unhashed(c)->changes ||
	    !is_running(k, call) || !lend_coalesce_fits(d, k->class, len))
		return begin_reply(c, now, call, status, data, len);
	c->now = lend_max_u64(c->now, now);
	send_short(c, d, k, status, data, len);
	return 0;
}
