/* control - bounded queue of control datagrams to be built. A datagram that does not fit is
 * dropped: the end that needs it sends its request again. Layer: core (pure). */
#ifndef LEND_CORE_CONTROL_H
#define LEND_CORE_CONTROL_H

#include "core/arena.h"

static inline void lend_ctl_push(struct lend_core *c, const struct lend_ctl *e)
{
	if (c->ctl_n < LEND_CTL)
		LEND_AT(c, at_ctl, struct lend_ctl)[(c->ctl_head + c->ctl_n++) % LEND_CTL] = *e;
}

/* Takes the oldest entry; the queue must not be empty. */
static inline void lend_ctl_pop(struct lend_core *c, struct lend_ctl *e)
{
	LEND_CHECK(c->ctl_n > 0);
	*e = LEND_AT(c, at_ctl, struct lend_ctl)[c->ctl_head];
	c->ctl_head = (c->ctl_head + 1) % LEND_CTL;
	c->ctl_n--;
}

/* Returns whether the session's ctl_timer retransmits this kind; at most one such datagram per
 * session is in the queue. */
static inline bool lend_ctl_is_timed(uint8_t kind)
{
	return kind == LEND_PKT_CONNECT || kind == LEND_PKT_BYE || kind == LEND_PKT_PROOF;
}

/* Queues a datagram of a session. call 0: it belongs to no call. flags: LEND_PKT_SERVED or 0. */
static inline void lend_ctl_sess(struct lend_core *c, struct lend_sess *s, uint8_t kind,
				 uint32_t call, uint8_t flags)
{
	const struct lend_ctl e = {.sess = lend_sess_index(c, s),
				   .peer = s->peer,
				   .id = s->id,
				   .call = call,
				   .kind = kind,
				   .flags = flags};

	if (lend_ctl_is_timed(kind))
		s->ctl_waits = c->ctl_n < LEND_CTL;
	lend_ctl_push(c, &e);
}

/* Queues an entry again after the carrier refused its datagram. */
static inline void lend_ctl_requeue(struct lend_core *c, struct lend_sess *s,
				    const struct lend_ctl *e)
{
	if (lend_ctl_is_timed(e->kind))
		s->ctl_waits = c->ctl_n < LEND_CTL;
	lend_ctl_push(c, e);
}

/* Queues an ACK that answers a PROBE of this call, or a PING. */
void lend_ctl_answer(struct lend_core *c, struct lend_sess *s, uint32_t call, uint8_t flags);

/* Queues an ACK of the message that arrives for this call, unless one is queued already. */
static inline void lend_ctl_ack(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->ack_queued || c->ctl_n == LEND_CTL)
		return;
	k->ack_queued = 1;
	lend_ctl_sess(c, lend_sess_at(c, k->sess), LEND_PKT_ACK, k->wire,
		      k->server ? LEND_PKT_SERVED : 0);
}

struct lend_making;
/* Builds the datagram. False: its session is gone, there is nothing to send. */
bool lend_ctl_make(struct lend_core *c, struct lend_making *m, const struct lend_ctl *e,
		   const struct lend_bufs *bufs);

#endif
