/* server_reply - a handler's answer: kept in the call's slot (kept_reply.h) or sent from its
 * record. Layer: core (pure). */
#include "core/kept_reply.h"
#include "core/server_call.h"
#include "core/sess.h"
#include "core/short_burst.h"
#include "wire/head.h"

static __attribute__((noinline)) void start_linger(struct lend_core *c, struct lend_sess *s)
{
	s->lingers = 1;
	lend_sess_arm(c, s, c->now + LEND_KEPT_LINGER);
}

/* Copies the reply into the slot and into the session's open datagram. False: nothing was done. */
LEND_HOT bool keep_reply(struct lend_core *c, struct lend_call_rec *k, uint8_t status,
			 const void *data, uint32_t len)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	struct lend_sslot *sl = lend_sslot_in(c, k->sslot);
	struct lend_coalesced *d;

	if (!lend_coalesce_admits(c, s, k->class, k->fast, k->sess_id ^ k->wire ^ k->number << 32))
		return false;
	d = lend_coalesce_open(c, s, k->class, len);
	if (!d)
		return false;
	lend_kept_fill(sl, k, status, len);
	/* After a duplicate of the request, the client's last number has another arrival. */
	sl->arrived = sl->number == k->number ? k->stamp : LEND_NEVER;
	if (len)
		lend_copy_short(lend_kept_bytes(c, k->sslot), data, len);
	lend_kept_frame(c, s, d, sl, k->wire, data);
	if (!s->lingers)
		start_linger(c, s);
	lend_call_free(c, s, k);
	return true;
}

int lend_reply_keep(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
		    const void *data, uint32_t len)
{
	struct lend_call_rec *k;

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

	lend_burst_end(c);
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
	if (status & LEND_REPLY_HEAD && !(s->features & LEND_FEATURE_REPLY_HEADS))
		return E_NOTSUP;
	if (k->cancelled) {
		lend_ctl_sess(c, s, LEND_PKT_GONE, k->wire, LEND_PKT_SERVED);
		lend_serve_reply_end(c, k, reply, false);
		lend_serve_free(c, k);
		return 0;
	}
	if (c->fast != LEND_FAST_NEVER && !(status & (LEND_REPLY_HEAD | LEND_REPLY_MAYBE)) &&
	    len <= LEND_KEPT_MAX && keep_short(c, k, status, bufs, reply, len)) {
		lend_serve_reply_end(c, k, reply, false);
		return 0;
	}
	if (lend_tx_may_be_shared(bufs, reply))
		k->shared = lend_tx_is_shared(bufs, reply);
	k->status = status & (uint8_t) ~(LEND_REPLY_NOT_RUN | LEND_REPLY_MAYBE | LEND_REPLY_HEAD);
	k->marks = status & LEND_MARK_HEAD_OUT;
	k->ran = status & LEND_REPLY_NOT_RUN ? RAN_NO
		 : status & LEND_REPLY_MAYBE ? RAN_MAYBE
					     : RAN_YES;
	lend_serve_answer(c, s, k, reply, (uint32_t)len);
	return 0;
}
