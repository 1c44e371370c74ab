/* server_reply - a handler's answer: kept in the call's slot (kept_reply.h) or sent from its
 * record. Layer: core (pure). */
#include "core/kept_reply.h"
#include "core/server_call.h"
#include "core/sess.h"

/* Draws the path of a reply in LEND_FAST_COIN. */
static bool toss_coin(const struct lend_core *c, const struct lend_call_rec *k)
{
	uint64_t mix = k->sess_id ^ (uint64_t)k->wire << 32 ^ k->number ^ c->cfg.seed[0];

	return mix * UINT64_C(0x9e3779b97f4a7c15) >> 63;
}

/* Returns whether the reply may be kept, where the fast path is open. */
LEND_HOT bool is_admitted(const struct lend_core *c, const struct lend_sess *s,
			  const struct lend_call_rec *k)
{
	if (c->kept_n == LEND_OUT || s->state != LEND_SESS_UP || s->blocked[k->fast] ||
	    (c->ready.n && lend_sched_classes(c) & ((2u << k->class) - 1)) ||
	    (c->bulk_paused_until > c->now && !k->fast))
		return false;
	return c->fast == LEND_FAST_ALWAYS || toss_coin(c, k);
}

/* Moves the entries of less urgent classes up by one; returns the index that becomes free. */
static __attribute__((noinline)) uint32_t make_gap(struct lend_core *c, uint32_t at, uint8_t class)
{
	for (; at > 0 && c->kept[at - 1].class > class; at--)
		c->kept[at] = c->kept[at - 1];
	return at;
}

/* Queues a reply behind those of its class and of more urgent ones. */
LEND_HOT void enqueue_reply(struct lend_core *c, const struct lend_call_rec *k, size_t position)
{
	uint32_t at = c->kept_n++;

	if (at > 0 && c->kept[at - 1].class > k->class)
		at = make_gap(c, at, k->class);
	c->kept[at] = (struct lend_kept){
	    .sess = k->sess, .call = k->wire, .position = (uint32_t)position, .class = k->class};
}

static __attribute__((noinline)) void start_linger(struct lend_core *c, struct lend_sess *s)
{
	s->lingers = 1;
	lend_sess_arm(c, s, c->now + LEND_KEPT_LINGER);
}

LEND_HOT bool keep_reply(struct lend_core *c, struct lend_call_rec *k, uint8_t status,
			 const void *data, uint32_t len)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	size_t position = lend_slot_position(c, k->sess, lend_pkt_slot(k->wire));
	struct lend_sslot *sl = lend_sslot_in(c, position);

	if (!is_admitted(c, s, k))
		return false;
	sl->rec = LEND_SLOT_KEPT;
	/* After a duplicate of the request, the client's last number has another arrival. */
	sl->arrived = sl->number == k->number ? k->stamp : LEND_NEVER;
	sl->status = status & (uint8_t)~LEND_REPLY_NOT_RUN;
	sl->ran = (uint8_t)((status & LEND_REPLY_NOT_RUN ? RAN_NO : RAN_YES) |
			    k->more_hops << LEND_RAN_BITS);
	sl->class = k->class;
	sl->len = (uint8_t)len;
	sl->queued = 1;
	if (len)
		lend_copy_short(lend_kept_bytes(c, position), data, len);
	enqueue_reply(c, k, position);
	if (!s->lingers)
		start_linger(c, s);
	lend_call_free(c, s, k);
	return true;
}

int lend_core_reply_short(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len)
{
	struct lend_call_rec *k;

	if (c->fast == LEND_FAST_NEVER || len > LEND_KEPT_MAX)
		return E_AGAIN;
	k = lend_call_of(c, call);
	if (!k || k->state != LEND_CALL_RUNNING || k->cancelled)
		return E_AGAIN;
	c->now = lend_max_u64(c->now, now);
	return keep_reply(c, k, status, data, len) ? 0 : E_AGAIN;
}

/* Keeps the reply if it is short and one segment. */
static __attribute__((noinline)) bool keep_short(struct lend_core *c, struct lend_call_rec *k,
						 uint8_t status, const struct lend_bufs *bufs,
						 uint32_t buf, uint64_t len)
{
	if (buf && bufs->seg[buf].next)
		return false;
	return keep_reply(c, k, status, buf ? bufs->seg[buf].data : NULL, (uint32_t)len);
}

static int answer_orphan(struct lend_core *c, struct lend_call_rec *k, uint32_t reply)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	if (s->id == k->sess_id && s->orphans > 0)
		s->orphans--;
	lend_serve_reply_end(c, k, reply, false);
	lend_call_free(c, s, k);
	return 0;
}

int lend_core_reply(struct lend_core *c, lend_ns now, uint64_t call, struct lend_bufs *bufs,
		    uint8_t status, uint32_t reply)
{
	struct lend_call_rec *k = lend_call_of(c, call);
	struct lend_sess *s;
	uint64_t len = 0;

	if (!k || (k->state != LEND_CALL_RUNNING && k->state != LEND_CALL_ORPHAN))
		return E_STALE;
	c->now = lend_max_u64(c->now, now);
	if (k->state == LEND_CALL_ORPHAN)
		return answer_orphan(c, k, reply);
	s = lend_sess_at(c, k->sess);
	if (reply && !lend_tx_fits(bufs, reply, s->payload, &len))
		return E_INVAL;
	if (len > LEND_MESSAGE_MAX)
		return E_MSGSIZE;
	if (k->cancelled) {
		lend_ctl_sess(c, s, LEND_PKT_GONE, k->wire, LEND_PKT_SERVED);
		lend_serve_reply_end(c, k, reply, false);
		lend_serve_free(c, k);
		return 0;
	}
	if (c->fast != LEND_FAST_NEVER && len <= LEND_KEPT_MAX &&
	    keep_short(c, k, status, bufs, reply, len)) {
		lend_serve_reply_end(c, k, reply, false);
		return 0;
	}
	if (lend_tx_may_be_shared(bufs, reply))
		k->shared = lend_tx_is_shared(bufs, reply);
	k->status = status & (uint8_t)~LEND_REPLY_NOT_RUN;
	k->ran = status & LEND_REPLY_NOT_RUN ? RAN_NO : RAN_YES;
	lend_serve_answer(c, s, k, reply, (uint32_t)len);
	return 0;
}
