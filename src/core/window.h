/* window - requests of one datagram that a session may have in flight.
 *
 * A receiver's socket buffer and a server's call records hold so many short messages, whoever sent
 * them. Each end divides what it has equally among its sessions with calls under way: a server puts
 * the share of the session into each REPLY, a client limits itself to its own share as well, since
 * each call brings a reply. Calls beyond the window wait in the session's queue, by class, then as
 * they came; their deadlines run. A request leaves the window when its reply, or an ACK that it
 * arrived whole, is here.
 *
 * Windows travel as a code of one byte, see lend_window_of(). A session starts with FIRST where
 * datagrams may be lost, and with no more than that after it was idle.
 *
 * Layer: core (pure). Parts of struct lend_core and struct lend_sess. */
#ifndef LEND_CORE_WINDOW_H
#define LEND_CORE_WINDOW_H

#include "core/sched.h"

enum { LEND_WINDOW_OPEN = 0, LEND_WINDOW_FIRST = 24 }; /* codes: no limit, 32 requests */

/* Requests that a code stands for, LEND_CALLS_MAX at most: 0 is no limit, below 16 the number
 * itself, above that three bits of it behind the leading one. */
uint32_t lend_window_of(uint8_t code);
/* The code of the largest window that is not above n; n > 0. */
uint8_t lend_window_code(uint64_t n);

/* The shares anew: the capacity or the number of sessions with calls has changed. */
void lend_window_divide(struct lend_core *c);
/* A session got its first call, or lost its last one. */
static inline void lend_window_busy(struct lend_core *c, bool more)
{
	c->busy += more ? 1 : UINT32_MAX;
	if (c->busy - c->busy_low > c->busy_span)
		lend_window_divide(c);
}

/* For a new session. */
void lend_window_open(struct lend_sess *s);
/* The peer's word about it, and our own share. */
void lend_window_set(struct lend_core *c, struct lend_sess *s, uint8_t code);
static inline void lend_window_learn(struct lend_core *c, struct lend_sess *s, uint8_t code)
{
	if (code != s->window)
		lend_window_set(c, s, code);
}

/* The session was idle: what comes next may come in a burst, when the shares are others. */
void lend_window_rest(struct lend_core *c, struct lend_sess *s);
void lend_window_queue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* A request may be sent, or waits for the window. */
static inline void lend_window_enter(struct lend_core *c, struct lend_sess *s,
				     struct lend_call_rec *k)
{
	k->flies = k->tx.win == LEND_NONE;
	s->room = (int16_t)(s->room - k->flies);
	if (k->flies && s->room < 0)
		lend_window_queue(c, s, k);
	else
		lend_sched_ready(c, k);
}

void lend_window_left(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* The request has arrived, or is given up. */
static inline void lend_window_leave(struct lend_core *c, struct lend_sess *s,
				     struct lend_call_rec *k)
{
	if (!k->flies)
		return;
	k->flies = 0;
	if (s->room++ < 0)
		lend_window_left(c, s, k);
}

#endif
