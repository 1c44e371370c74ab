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

/* Makes the call, and writes its request into the session's open datagram. d: that; NULL: it is to
 * be found or begun. */
LEND_HOT bool start_short(struct lend_core *c, lend_ns now, struct lend_sess *s, uint32_t i,
			  const struct lend_bufs *bufs, const struct lend_core_call *call,
			  uint64_t *handle, struct lend_coalesced *d)
{
	static const struct lend_seg none;
	const struct lend_seg *seg = call->request ? &bufs->seg[call->request] : &none;
	lend_ns at = lend_max_u64(c->now, now);
	uint32_t len = seg->len, bit, seq, grant;
	struct lend_pkt_frame *f;
	struct lend_cslot *slot;

	if (LEND_RARE(len >= s->frame_limit || (d && !lend_coalesce_fits(d, call->class, len)) ||
		      seg->next || call->reply || !s->slots || s->room <= 0 ||
		      s->unscheduled_used + len > s->unscheduled || c->ready.n ||
		      c->used[0] >= c->cfg.inflight || !lend_event_room(c)))
		return false;
	bit = (uint32_t)__builtin_ctzll(s->slots);
	if (LEND_RARE(bit >= s->limit || bit >= s->cslots || c->bulk_paused_until > at ||
		      call->deadline <= at))
		return false;
	slot = lend_cslot_at(c, i, bit);
	seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	if (LEND_RARE(!seq))
		return false;
	if (!d && (call->class > LEND_CLASS_NORMAL ||
		   !lend_coalesce_draw(c, s->id ^ lend_pkt_call(bit, seq) ^ s->number << 32)))
		return false;
	c->now = at;
	if (!d)
		d = lend_coalesce_open(c, s, call->class, len);
	if (LEND_RARE(!d))
		return false;
	c->used[0]++;
	s->slots &= s->slots - 1;
	s->unscheduled_used += len;
	s->room--;
	lend_call_count(c, s, bit);
	grant = lend_grants_first_reply(c, s);
	slot->seq = seq;
	slot->rec = LEND_SLOT_SHORT;
	*handle = next_handle(slot->handle);
	slot->handle = *handle;
	slot->method = call->method;
	slot->len = (uint16_t)len;
	slot->class = d->class;
	slot->fast = d->fast;
	slot->number = d->head.pkt.number;
	slot->stamp = at;
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

/* lend_core_call(), whose request begins a datagram. */
static __attribute__((noinline)) int begin_call(struct lend_core *c, lend_ns now, uint64_t session,
						struct lend_bufs *bufs,
						const struct lend_core_call *call, uint64_t *handle)
{
	uint32_t i = (uint32_t)(session & LEND_INDEX_MASK);
	struct lend_sess *s = lend_sess_at(c, i);

	if (s->id == session && start_short(c, now, s, i, bufs, call, handle, NULL))
		return 0;
	return lend_call_make(c, now, session, bufs, call, handle);
}

int lend_core_call(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle)
{
	uint32_t i = (uint32_t)(session & LEND_INDEX_MASK);
	struct lend_sess *s = lend_sess_at(c, i);
	struct lend_coalesced *d;

	if (LEND_RARE(i >= c->cfg.sessions))
		return E_STALE;
	if (LEND_RARE(c->cfg.sessions >= LEND_MANY))
		fetch_for_call(c, i);
	d = lend_coalesced_at(c, s->coalesced);
	if (d->id == session && d->open & LEND_OPEN_REQUESTS &&
	    start_short(c, now, s, i, bufs, call, handle, d))
		return 0;
	return begin_call(c, now, session, bufs, call, handle);
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

/* Answers a call: copies the reply into its slot and into the session's open datagram. d: that;
 * NULL: it is to be found or begun. */
LEND_HOT bool reply_short(struct lend_core *c, lend_ns now, struct lend_call_rec *k, uint8_t status,
			  const void *data, uint32_t len, struct lend_coalesced *d)
{
	const uint32_t any = lend_call_phase(0, UINT8_MAX, false, true, false);
	const uint32_t running = lend_call_phase(LEND_CALL_RUNNING, 0, true, false, false);
	struct lend_sess *s = lend_sess_at(c, k->sess);
	uint64_t delay = UINT32_MAX;
	struct lend_pkt_frame *f;
	struct lend_sslot *sl;
	size_t position;

	if (LEND_RARE((k->phase & ~any) != running || s->state != LEND_SESS_UP || !s->lingers ||
		      s->waiting.n || c->ready.n || c->bulk_paused_until > c->now ||
		      (!d && !lend_coalesce_draw(c, k->sess_id ^ k->wire ^ k->number << 32))))
		return false;
	c->now = lend_max_u64(c->now, now);
	if (!d)
		d = lend_coalesce_open(c, s, k->class, len);
	if (LEND_RARE(!d))
		return false;
	position = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	sl = lend_sslot_in(c, position);
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
	return true;
}

/* lend_core_reply_short(), whose reply may begin a datagram. */
static __attribute__((noinline)) int begin_reply(struct lend_core *c, lend_ns now, uint64_t call,
						 uint8_t status, const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);

	if (len > LEND_KEPT_MAX || c->fast == LEND_FAST_NEVER)
		return E_AGAIN;
	if ((uint32_t)call < c->records && k->gen == call >> 32 &&
	    reply_short(c, now, k, status, data, len, NULL))
		return 0;
	return lend_reply_keep(c, now, call, status, data, len);
}

int lend_core_reply_short(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len)
{
	struct lend_call_rec *k = lend_call_at(c, (uint32_t)call);
	struct lend_coalesced *d;

	if (LEND_RARE(len > LEND_KEPT_MAX || (uint32_t)call >= c->records || k->gen != call >> 32))
		return E_AGAIN;
	d = lend_coalesced_at(c, lend_sess_at(c, k->sess)->coalesced);
	if (d->id == k->sess_id && d->open & LEND_OPEN_REPLIES &&
	    lend_coalesce_fits(d, k->class, len) && reply_short(c, now, k, status, data, len, d))
		return 0;
	return begin_reply(c, now, call, status, data, len);
}
