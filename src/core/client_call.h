/* client_call - the caller's side of a call: from its start to its single end, and its slot until
 * that is drained.
 *
 *   QUEUED -> OPEN -> freed            the reply arrived
 *   QUEUED -> freed                    ended before any byte was sent: ran no
 *   OPEN -> DRAINING -> freed          ended here; CANCEL is retransmitted until GONE
 *
 * Only this side runs timers for a call. Layer: core (pure). */
#ifndef LEND_CORE_CLIENT_CALL_H
#define LEND_CORE_CLIENT_CALL_H

#include "core/event.h"
#include "core/loss.h"
#include "core/call_record.h"
#include "core/sess.h"

/* Makes the call ready to be sent, after its session came up. */
static inline void lend_call_launch(struct lend_core *c, struct lend_sess *s,
				    struct lend_call_rec *k)
{
	lend_tx_reset(&k->tx); /* the call may have been sent as 0-RTT before */
	lend_tx_begin(c, s, &k->tx, k->tx.buf, k->tx.len, k->shared);
	lend_window_enter(c, s, k);
}

/* Sends a call of a session that came up, or leaves it unplaced until a slot within the server's
 * limit is free. */
void lend_call_admitted(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* Sends a request that the scheduler chose in a frame of its session's open datagram. False: it
 * needs a datagram of its own. */
bool lend_call_share(struct lend_core *c, struct lend_sess *s, const struct lend_bufs *bufs,
		     struct lend_call_rec *k);
/* Returns how many bytes of a message of several datagrams may be sent without a grant. */
uint32_t lend_call_eager(const struct lend_sess *s, const struct lend_call_rec *k);
/* Takes unscheduled credit for a message of several datagrams before its first byte is sent, and
 * grants the message as many bytes. False: less than that is left now. */
static inline bool lend_call_admit(struct lend_sess *s, struct lend_call_rec *k, uint32_t eager)
{
	if (s->unscheduled_used > 0 && s->unscheduled_used + eager > s->unscheduled)
		return false;
	k->tx.charged = eager;
	s->unscheduled_used += eager;
	k->tx.granted = lend_max_u32(eager, lend_min_u32(k->tx.len, s->payload));
	return true;
}

/* Notes that a datagram of the call was sent under this number. */
LEND_HOT void lend_call_sent(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			     uint64_t number)
{
	k->state = LEND_CALL_OPEN;
	k->number = number;
	k->stamp = c->now;
	if (k->tries == 0)
		k->timer = c->now + s->pto;
	else if (k->tx.win == LEND_NONE) /* it may have waited for its peer's window */
		k->timer = lend_max_u64(k->timer, c->now + lend_call_timeout(s, k->tries));
	lend_sess_arm(c, s, k->timer);
}

/* lend_core_call() for any call. */
int lend_call_make(struct lend_core *c, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle);
void lend_call_stop(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
/* Ends the call without draining, because its session ends. */
void lend_call_abort(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
lend_ns lend_call_wake(const struct lend_call_rec *k);
/* Returns whether the call is parked: its handler runs long, so it has no timer. The session's PING
 * asks for it instead. */
static inline bool lend_call_is_parked(const struct lend_call_rec *k)
{
	return k->state == LEND_CALL_OPEN && k->whole && k->timer == LEND_NEVER;
}

/* Returns whether the session has parked calls. */
bool lend_call_any_parked(struct lend_core *c, struct lend_sess *s);
/* Probes the parked calls that the server does not run any more: their replies may be lost. */
void lend_call_on_running(struct lend_core *c, struct lend_sess *s,
			  const struct lend_pkt_running *running);
void lend_call_tick(struct lend_core *c, struct lend_call_rec *k);
/* Ends the call on this side only: CANCEL is retransmitted until the server answers GONE, and only
 * then is the slot free. */
void lend_call_drain(struct lend_core *c, struct lend_call_rec *k);
/* Pushes CALL_END with the request; the caller of this function fills in the reply. */
LEND_HOT struct lend_event *lend_call_end_event(struct lend_core *c, const struct lend_call_rec *k,
						uint8_t status, uint8_t ran)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_CALL_END);

	e->session = k->sess_id;
	e->call = lend_call_handle(k);
	e->tag = k->tag;
	e->method = k->method;
	e->class = k->class;
	e->status = status;
	e->ran = ran;
	e->buf = k->tx.buf;
	return e;
}

/* Notes a reply that must be acknowledged, after its server's patience. A kept reply is
 * acknowledged only together with others, and if it reports ECN marks. */
void lend_call_schedule_ack(struct lend_core *c, struct lend_sess *s, uint8_t patience_ms);
void lend_call_on_reply(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v);
/* Handles a reply that fits in one datagram. */
void lend_call_on_whole(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v);
void lend_call_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_call_on_gone(struct lend_core *c, struct lend_sess *s, uint32_t wire);

#endif
