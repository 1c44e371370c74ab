/* oracle_slots - recounts what calls without a record are made of: slots, kept replies, coalesced
 * datagrams, and the free records that short_call.c takes as they are. Part of oracle.h. Layer:
 * test/sim. */
#include <string.h>

#include "core/coalesce.h"
#include "core/kept_reply.h"
#include "core/rto.h"
#include "core/seen.h"
#include "core/short_burst.h"
#include "sim/oracle/oracle.h"

/* A short call that begins sets only the first fields of its record. */
const char *sim_audit_free_record(const struct lend_call_rec *k)
{
	struct lend_tx no_tx = {.win = k->gen ? LEND_NONE : 0};
	struct lend_rx no_rx = {.frags = k->gen ? LEND_NONE : 0, .granted = k->rx.granted};

	return memcmp(&k->tx, &no_tx, sizeof(no_tx)) || memcmp(&k->rx, &no_rx, sizeof(no_rx)) ||
		       k->serial || (k->gen && k->timer != LEND_NEVER)
		   ? "a free record is not clear"
		   : NULL;
}

static const char *audit_short(const struct lend_core *c, const struct lend_sess *s,
			       const struct lend_cslot *cs)
{
	if (s->state != LEND_SESS_UP || cs->len >= s->frame_limit)
		return "a short call is too long, or its session is not up";
	if (!(cs->handle >> 32) || cs->seq == 0 || cs->class > LEND_CLASS_NORMAL)
		return "a short call has no serial, no sequence or a low class";
	return cs->number >= s->number || cs->stamp > c->now
		   ? "a short call has the number or the time of a datagram that was not begun"
		   : NULL;
}

/* Returns whether the control queue has the retransmission of a kept reply. */
static bool is_queued(struct lend_core *c, const struct lend_sess *s, uint32_t call)
{
	for (uint32_t i = 0; i < c->ctl_n; i++) {
		const struct lend_ctl *e =
		    LEND_AT(c, at_ctl, struct lend_ctl) + (c->ctl_head + i) % LEND_CTL;

		if (e->id == s->id && e->kind == LEND_PKT_REPLY && e->call == call)
			return true;
	}
	return false;
}

static const char *audit_kept(struct lend_core *c, const struct lend_sess *s, uint32_t slot,
			      const struct lend_sslot *sl)
{
	if (c->fast == LEND_FAST_NEVER || sl->len > LEND_KEPT_MAX || sl->seq == 0)
		return "a slot keeps a reply that is not one";
	if (sl->status > STATUS_MAX || (sl->ran & ((1 << LEND_RAN_BITS) - 1)) > RAN_YES ||
	    sl->class >= LEND_CLASSES)
		return "a kept reply has a status, ran or class out of range";
	/* A session that closes drops what waits for a blocked carrier. */
	return sl->queued && s->state == LEND_SESS_UP &&
		       !is_queued(c, s, lend_pkt_call(slot, sl->seq))
		   ? "a kept reply is queued for retransmission, but in no queue"
		   : NULL;
}

const char *sim_audit_slot(struct lend_core *c, struct lend_sess *s, uint32_t i, uint32_t w)
{
	const struct lend_cslot *cs = lend_cslot_at(c, i, w);
	const struct lend_sslot *ss = lend_sslot_at(c, i, w);
	bool used = w < s->cslots && cs->rec != LEND_NONE;
	const struct lend_call_rec *k;

	if ((*lend_slots_at(c, s, w / 64) >> (w % 64) & 1) == used)
		return "a slot is free in one place and used in the other";
	if (used && cs->rec == LEND_SLOT_SHORT)
		return audit_short(c, s, cs);
	if (used) {
		k = lend_call_at(c, cs->rec);
		if (k->state == LEND_CALL_FREE || k->server || k->sess != i ||
		    k->wire != lend_pkt_call(w, cs->seq))
			return "a client's slot names a call of another session";
	}
	if (w < s->sslots && ss->rec == LEND_SLOT_KEPT)
		return audit_kept(c, s, w, ss);
	if (w < s->sslots && !lend_slot_is_empty(ss->rec)) {
		k = lend_call_at(c, ss->rec);
		if (k->state == LEND_CALL_FREE || !k->server || k->sess != i ||
		    k->state == LEND_CALL_ORPHAN || k->wire != lend_pkt_call(w, ss->seq))
			return "a server's slot names a call of another session";
	}
	return NULL;
}

/* Compares a frame with its slot, while that has the call of the frame. */
static const char *audit_frame(struct lend_core *c, const struct lend_sess *s,
			       const struct lend_coalesced *d, const struct lend_pkt_view *v)
{
	uint32_t i = lend_sess_index(c, s), slot = lend_pkt_slot(v->head.call);
	const struct lend_sslot *sl;
	const struct lend_cslot *cs;

	if (v->head.flags & LEND_PKT_SERVED) {
		sl = lend_kept_slot(c, s, v->head.call);
		return sl && (sl->len != v->payload_len || sl->status != v->reply.status ||
			      memcmp(lend_kept_bytes(c, lend_slot_position(c, i, slot)), v->payload,
				     sl->len) != 0)
			   ? "a slot keeps another reply than it sent"
			   : NULL;
	}
	cs = lend_cslot_at(c, i, slot);
	if (slot >= s->cslots || cs->seq != lend_pkt_seq(v->head.call))
		return "a request that waits to be sent is not of its slot's newest call";
	return cs->rec == LEND_SLOT_SHORT &&
		       (cs->number != d->head.pkt.number || cs->len != v->payload_len ||
			cs->method != v->request.method || cs->class != d->class)
		   ? "a short call is not what its frame says"
		   : NULL;
}

static const char *audit_frames(struct lend_core *c, const struct lend_coalesced *d)
{
	const struct lend_sess *s = lend_sess_at(c, d->id & LEND_INDEX_MASK);
	uint32_t at = 0, n = 0, withdrawn = 0;
	const char *why = NULL;
	struct lend_pkt_view v;

	for (; at < d->at - d->start && n < d->frames && !why; n++) {
		if (!lend_pkt_decode_frame(&v, d->bytes + d->start, d->at - d->start, &at))
			return "a coalesced datagram does not consist of its frames";
		withdrawn += v.head.call == 0;
		if (v.head.call && s->id == d->id && s->state == LEND_SESS_UP)
			why = audit_frame(c, s, d, &v);
	}
	if (!why && (n == 0 || n != d->frames || at != d->at - d->start || d->at > d->end ||
		     withdrawn != d->withdrawn))
		return "a coalesced datagram does not consist of its frames";
	return why;
}

/* Coalesced datagrams wait in order of class, each once, and those that are open are among them. */
const char *sim_audit_coalesced(struct lend_core *c)
{
	const struct lend_unhashed *a = lend_unhashed(c);
	const char *why = NULL;
	uint64_t seen = 0;

	lend_burst_end(c);
	if (c->coalesced_n > c->coalesced_cap || a->coalesced_next > c->coalesced_cap)
		return "more coalesced datagrams wait than one output can send";
	for (uint32_t i = 0; i < c->coalesced_n && !why; i++) {
		const struct lend_coalesced *d = lend_coalesced_at(c, a->order[i]);

		if (a->order[i] >= a->coalesced_next || seen >> a->order[i] & 1)
			return "a coalesced datagram waits twice, or its entry is free";
		seen |= UINT64_C(1) << a->order[i];
		why = audit_frames(c, d);
		if (i > a->coalesced_late && c->cfg.order != LEND_ORDER_FIFO &&
		    lend_coalesced_at(c, a->order[i - 1])->class > d->class)
			return "a coalesced datagram waits behind one of a less urgent class";
		if (d->id && (lend_sess_at(c, d->id & LEND_INDEX_MASK)->id != d->id ||
			      lend_sess_at(c, d->id & LEND_INDEX_MASK)->state != LEND_SESS_UP))
			return "a coalesced datagram is of a session that has ended";
	}
	for (uint32_t i = a->coalesced_open; i < a->coalesced_next && !why; i++)
		if (!(seen >> i & 1))
			return "an open datagram of a session does not wait to be sent";
	return why;
}

/* Returns whether the limits of frames that are sent and received, and the timeout, agree with what
 * they are derived from. */
bool sim_audit_limit(const struct lend_core *c, const struct lend_sess *s)
{
	struct lend_sess same = *s;

	lend_coalesce_limit(c, &same);
	lend_seen_predict(c, &same);
	lend_loss_set_pto(&same);
	return same.frame_limit == s->frame_limit && same.predicted == s->predicted &&
	       same.pto == s->pto;
}
