/* client_call - the caller's side of a call: from start to its one end, and the slot until it
 * drains.
 *
 *   QUEUED -> OPEN -> freed            the reply came
 *   QUEUED -> freed                    ended before any byte was sent: ran no
 *   OPEN -> DRAINING -> freed          ended here; CANCEL is repeated until GONE
 *
 * Only this side times a call. Layer: core (pure). */
#ifndef LEND_CORE_CLIENT_CALL_H
#define LEND_CORE_CLIENT_CALL_H

#include "core/event.h"
#include "core/loss.h"
#include "core/call_record.h"
#include "core/sess.h"

/* Its session is up: it may be sent. */
static inline void lend_call_launch(struct lend_core *c, struct lend_sess *s,
				    struct lend_call_rec *k)
{
	lend_tx_reset(&k->tx); /* it may have been 0-RTT */
	lend_tx_begin(c, s, &k->tx, k->tx.buf, k->tx.len, k->shared);
	lend_window_enter(c, s, k);
}

/* Sends a call of a session that came up, or lets it wait for a slot that the server has as well.
 */
void lend_call_admitted(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* Bytes of a message of several datagrams that go unasked. */
uint32_t lend_call_eager(const struct lend_sess *s, const struct lend_call_rec *k);
/* Takes unscheduled credit before the first byte; false: not so much is left now. */
static inline bool lend_call_charge(struct lend_sess *s, struct lend_call_rec *k, uint32_t eager)
{
	if (s->unscheduled_used > 0 && s->unscheduled_used + eager > s->unscheduled)
		return false;
	k->tx.charged = eager;
	s->unscheduled_used += eager;
	return true;
}

/* The same for a message of several datagrams, which may send that much. */
static inline bool lend_call_admit(struct lend_sess *s, struct lend_call_rec *k, uint32_t eager)
{
	if (!lend_call_charge(s, k, eager))
		return false;
	k->tx.granted = lend_max_u32(eager, lend_min_u32(k->tx.len, s->payload));
	return true;
}

/* A datagram of it went out under this number. */
LEND_HOT void lend_call_sent(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			     uint64_t number)
{
	k->state = LEND_CALL_OPEN;
	k->number = number;
	k->stamp = c->now;
	if (k->tries == 0) /* else its tick has set it */
		k->timer = c->now + lend_loss_rto(s, 0);
	lend_sess_arm(c, s, k->timer);
}

void lend_call_stop(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
/* The session ends: no draining. */
void lend_call_cut(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
lend_ns lend_call_wake(const struct lend_call_rec *k);
void lend_call_tick(struct lend_core *c, struct lend_call_rec *k);
/* It ended here: CANCEL until the server says GONE, and only then the slot is free. */
void lend_call_drain(struct lend_core *c, struct lend_call_rec *k);
/* CALL_END, with the request; the reply is the caller's to fill in. */
LEND_HOT struct lend_event *lend_call_end_event(struct lend_core *c, const struct lend_call_rec *k,
						uint8_t status, uint8_t ran)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_CALL_END);

	e->session = k->sess_id;
	e->call = lend_call_handle(c, k);
	e->tag = k->tag;
	e->method = k->method;
	e->class = k->class;
	e->status = status;
	e->ran = ran;
	e->buf = k->tx.buf;
	return e;
}

void lend_call_on_reply(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v);
/* The same of one that is all of its message. */
void lend_call_on_whole(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v);
void lend_call_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_call_on_gone(struct lend_core *c, struct lend_sess *s, uint32_t wire);

#endif
