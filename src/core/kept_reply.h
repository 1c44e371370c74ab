/* kept_reply - short replies, which their slots keep.
 *
 * A reply of at most LEND_KEPT_MAX bytes is copied into its slot, and the record of its call is
 * free at once. The copy answers duplicates of the request and PROBEs until the next call begins in
 * the slot. So nothing at the server waits for an acknowledgement, and the client sends none.
 *
 * A kept reply is a frame of a coalesced datagram first, and has a control datagram of its own when
 * it is retransmitted, or when the carrier had no room. A reply is not kept if it cannot be
 * coalesced (coalesce.h), or if congestion control needs an RTT sample of each reply.
 *
 * Layer: core (pure). Part of struct lend_core and of its slots. */
#ifndef LEND_CORE_KEPT_REPLY_H
#define LEND_CORE_KEPT_REPLY_H

#include "core/coalesce.h"
#include "core/control.h"
#include "core/request_window.h"

struct lend_making;

/* Chooses the path of short replies: no reply is kept if congestion control needs an RTT sample of
 * each. */
static inline void lend_kept_init(struct lend_core *c)
{
	bool samples = c->cfg.congestion == LEND_CC_TIMELY || c->cfg.congestion == LEND_CC_SWIFT;

	c->fast = samples ? LEND_FAST_NEVER : c->cfg.fast;
}

/* Returns whether the slot of this call still keeps the call's reply. */
static inline bool lend_kept_is_of(const struct lend_sess *s, const struct lend_sslot *sl,
				   uint32_t call)
{
	return lend_pkt_slot(call) < s->sslots && sl->rec == LEND_SLOT_KEPT &&
	       sl->seq == lend_pkt_seq(call);
}

/* Returns the slot of a call if it still keeps the call's reply, else NULL. */
static inline struct lend_sslot *lend_kept_slot(struct lend_core *c, const struct lend_sess *s,
						uint32_t call)
{
	uint32_t slot = lend_pkt_slot(call);
	struct lend_sslot *sl;

	if (slot >= s->sslots)
		return NULL;
	sl = lend_sslot_at(c, lend_sess_index(c, s), slot);
	return lend_kept_is_of(s, sl, call) ? sl : NULL;
}

/* Queues the reply for retransmission, unless it is queued. */
static inline void lend_kept_again(struct lend_core *c, struct lend_sess *s, uint32_t call)
{
	struct lend_sslot *sl = lend_kept_slot(c, s, call);

	if (!sl || sl->queued)
		return;
	sl->arrived = LEND_NEVER;
	sl->queued = c->ctl_n < LEND_CTL;
	lend_ctl_sess(c, s, LEND_PKT_REPLY, call, LEND_PKT_SERVED);
}

/* Forgets the reply that the slot keeps: its caller does not wait for it. */
static inline void lend_kept_drop(struct lend_core *c, const struct lend_sess *s,
				  struct lend_sslot *sl, uint32_t call)
{
	if (sl->rec != LEND_SLOT_KEPT)
		return;
	sl->rec = LEND_NONE;
	(void)lend_coalesce_withdraw(c, s, call, LEND_PKT_SERVED);
}

/* Returns the time from the request's arrival until now, in ns; UINT32_MAX: no sample. */
static inline uint32_t lend_kept_delay(const struct lend_sslot *sl, lend_ns now)
{
	lend_ns delay = now - sl->arrived;

	return sl->arrived == LEND_NEVER || delay > UINT32_MAX ? UINT32_MAX : (uint32_t)delay;
}

/* Fills the slot with a reply's fields, all but its arrival and its bytes. */
LEND_HOT void lend_kept_fill(struct lend_sslot *sl, const struct lend_call_rec *k, uint8_t status,
			     uint32_t len)
{
	uint32_t ran = (status & LEND_REPLY_NOT_RUN ? RAN_NO : RAN_YES) | (uint32_t)k->more_hops
									      << LEND_RAN_BITS;

	sl->rec = LEND_SLOT_KEPT;
	sl->kept = (status & ~(uint32_t)LEND_REPLY_NOT_RUN) | ran << 8 | (uint32_t)k->class << 16 |
		   len << 24; /* and it is not queued */
}

/* Returns the block of a reply that the slot keeps. */
LEND_HOT struct lend_pkt_reply lend_kept_block(struct lend_core *c, const struct lend_sess *s,
					       const struct lend_sslot *sl, lend_ns now)
{
	return (struct lend_pkt_reply){.status = sl->status,
				       .ran = sl->ran,
				       .patience_ms = LEND_PATIENCE_KEPT,
				       .window = lend_window_share(c, s),
				       .delay_ns = lend_kept_delay(sl, now),
				       .acked = sl->number};
}

/* Appends the reply to a coalesced datagram: its first transmission. data: its bytes. */
LEND_HOT void lend_kept_frame(struct lend_core *c, const struct lend_sess *s,
			      struct lend_coalesced *d, struct lend_sslot *sl, uint32_t call,
			      const void *data)
{
	struct lend_pkt_frame *f = lend_coalesce_add(d, call, sl->len, sl->class | LEND_PKT_SERVED);

	f->reply = lend_kept_block(c, s, sl, lend_max_u64(d->begun, sl->arrived));
	if (sl->len)
		lend_copy_short(f + 1, data, sl->len);
	sl->arrived = LEND_NEVER;
}

/* Builds a datagram with the reply that the slot keeps. */
void lend_kept_make(struct lend_core *c, struct lend_sess *s, struct lend_sslot *sl, uint32_t call,
		    struct lend_making *m);
/* A session whose replies are kept counts as a session with calls for LEND_KEPT_LINGER after it
 * received a datagram, because its next request may follow. on_tick() ends that. */
#define LEND_KEPT_LINGER LEND_RTO_MAX
static inline void lend_kept_close(struct lend_core *c, struct lend_sess *s)
{
	s->lingers = 0;
	lend_window_busy(c, s, false);
}

static inline void lend_kept_on_tick(struct lend_core *c, struct lend_sess *s)
{
	if (c->now < s->last_rx + LEND_KEPT_LINGER)
		return;
	if (s->calls == 0)
		lend_kept_close(c, s);
	s->lingers = 0;
}

#endif
