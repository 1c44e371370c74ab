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

/* Writes the frame of a request, as lend_make_request() does. */
LEND_HOT void write_request(struct lend_coalesced *d, uint32_t wire, uint32_t len, uint32_t class,
			    const struct lend_core_call *call, uint32_t grant, const void *data)
{
	struct lend_pkt_frame *f = lend_coalesce_add(d, wire, len, class);
	uint64_t left = UINT32_MAX;

	if (call->deadline != LEND_NEVER)
		left = lend_min_u64((call->deadline - d->begun) / LEND_US, UINT32_MAX - 1);
	f->block[0] = call->method | left << 32;
	f->block[1] = grant;
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
	uint32_t len = 0, next = 0, bit, seq, grant;
	lend_ns at = lend_max_u64(c->now, now);
	const void *data = NULL;
	struct lend_peer *p = lend_peer_of(c, s);
	struct lend_coalesced *d;
	struct lend_cslot *slot;

	if (call->request) {
		len = bufs->seg[call->request].len;
		next = bufs->seg[call->request].next;
		data = bufs->seg[call->request].data;
	}
	if (LEND_RARE(len >= s->frame_limit || next || call->reply || !s->slots || s->room <= 0 ||
		      p->used + len > p->limit || c->ready.n || c->used[0] >= c->cfg.inflight ||
		      !lend_event_room(c)))
		return false;
	bit = (uint32_t)__builtin_ctzll(s->slots);
	if (LEND_RARE(call->class > LEND_CLASS_NORMAL || bit >= s->limit || bit >= s->cslots ||
		      c->bulk_paused_until > at || call->deadline <= at))
		return false;
	slot = lend_cslot_at(c, i, bit);
	seq = (slot->seq + 1) & LEND_CALL_SEQ_MASK;
	if (LEND_RARE(!seq ||
		      !lend_coalesce_draw(c, s->id ^ lend_pkt_call(bit, seq) ^ s->number << 32)))
		return false;
	c->now = at;
	d = lend_coalesce_open(c, s, call->class, len);
	if (LEND_RARE(!d))
		return false;
	c->used[0]++;
	s->slots &= s->slots - 1;
	p->used += len;
	s->room--;
	lend_call_count(c, s, bit);
	grant = lend_grants_first_reply(c, s);
	slot->place = seq | (uint64_t)LEND_SLOT_SHORT << 32;
	*handle = next_handle(slot->handle);
	slot->handle = *handle;
	slot->kind = call->method | (uint64_t)len << 32 | (uint64_t)call->class << 48 |
		     (uint64_t)d->fast << 56;
	slot->number = d->head.pkt.number;
	slot->stamp = at;
	slot->deadline = call->deadline;
	slot->tag = call->tag;
	slot->memory = call->request | (uint64_t)grant << 32;
	write_request(d, lend_pkt_call(bit, seq), len, call->class, call, grant, data);
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
	uint64_t delay = UINT32_MAX;
	struct lend_pkt_frame *f;
	struct lend_coalesced *d;
	struct lend_sslot *sl;
	size_t position;

	if (LEND_RARE((k->phase & ~any) != running || s->state != LEND_SESS_UP || !s->lingers ||
		      s->waiting.n || c->ready.n || c->bulk_paused_until > c->now ||
		      !lend_coalesce_draw(c, k->sess_id ^ k->wire ^ k->number << 32)))
		return false;
	c->now = lend_max_u64(c->now, now);
	d = lend_coalesce_open(c, s, k->class, len);
	if (LEND_RARE(!d))
		return false;
	position = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	sl = lend_sslot_in(c, position);
	f = lend_coalesce_add(d, k->wire, len, k->class | LEND_PKT_SERVED);
	lend_kept_fill(sl, k, status, len);
	sl->arrived = LEND_NEVER;
	/* After a duplicate of the request, the client's last number has another arrival. */
	if (sl->number == k->number)
		delay = lend_min_u64(lend_max_u64(d->begun, k->stamp) - k->stamp, UINT32_MAX);
	f->block[0] = (uint16_t)sl->kept | LEND_PATIENCE_KEPT << 16 |
		      (uint32_t)lend_window_share(c, s) << 24 | delay << 32;
	f->block[1] = sl->number;
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
