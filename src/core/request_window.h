/* request_window - requests of one datagram that a session may have in flight.
 *
 * A receiver's socket buffer and a server's call records have room for a limited number of short
 * messages of all sessions together. Each end divides its number among its sessions with open calls
 * by max-min fairness: what a session does not use goes to those that would use more than an equal
 * share. A server puts the session's share into each REPLY; a client also obeys its own share,
 * because each call brings a reply. Calls beyond the window wait in the session's queue, by class,
 * then in order of arrival; their deadlines run. A call that has waited for a second per class of
 * the difference is not overtaken by more urgent ones that come after that. A request leaves the
 * window when its reply arrives, or an ACK of the whole request.
 *
 * The largest slot that a session used lately shows how many calls it has at once, also calls that
 * wait in its client or in a receive queue: a caller takes the lowest free slot. The number of bits
 * of that slot is the session's level. Free call records alone would not do: where handlers answer
 * at once, all records are free, however full the receive queue is.
 *
 * A window above an equal share is at most twice the slots of the level. So a session with few
 * calls comes to a large window in steps, and its peers give way meanwhile.
 *
 * The bytes in flight are limited, too, for all sessions of a peer together: see peer_window.h.
 *
 * Windows travel as a code of one byte, see lend_window_of(). A session starts with FIRST where
 * datagrams may be lost, and with no more than that after it was idle.
 *
 * Layer: core (pure). Parts of struct lend_core and struct lend_sess. */
#ifndef LEND_CORE_REQUEST_WINDOW_H
#define LEND_CORE_REQUEST_WINDOW_H

#include "core/peer_window.h"
#include "core/sched.h"

enum { LEND_WINDOW_OPEN = 0, LEND_WINDOW_FIRST = 24 }; /* codes: no limit, 32 requests */

/* Returns the number of requests that a code stands for, at most LEND_CALLS_MAX. Code 0: no limit;
 * below 16: the number itself; above: the lower three bits of the code are the bits after the
 * number's leading one, the upper bits its exponent. */
uint32_t lend_window_of(uint8_t code);
/* Returns the code of the largest window that is not above n; n > 0. */
uint8_t lend_window_code(uint64_t n);

/* Computes the shares again after the capacity or the number of sessions with calls has changed. */
void lend_window_divide(struct lend_core *c);
/* Notes that a session got its first call (more) or that its last call ended. The shares are
 * computed when one is needed: the sessions of a client that makes one call on each are busy and
 * idle in turn. */
static inline void lend_window_busy(struct lend_core *c, const struct lend_sess *s, bool more)
{
	struct lend_window_level *l = &c->levels[s->level];

	l->n += more ? 1 : UINT32_MAX;
	if (l->n - l->low > l->span)
		c->shares_old = 1;
}

/* Returns the code of the session's share of our receive capacity. */
static inline uint8_t lend_window_share(struct lend_core *c, const struct lend_sess *s)
{
	if (c->shares_old)
		lend_window_divide(c);
	return c->share_sent[s->level];
}

/* Raises the level of a session that begins a call in a slot beyond it. */
void lend_window_raise(struct lend_core *c, struct lend_sess *s, uint32_t slot);
/* Lowers the level of a session to that of the slots in use. */
void lend_window_lower(struct lend_core *c, struct lend_sess *s);

/* Sets the window of a new session. */
void lend_window_open(struct lend_sess *s);
/* Sets the window to the peer's code or our own share, the smaller one. */
void lend_window_set(struct lend_core *c, struct lend_sess *s, uint8_t code);
static inline void lend_window_learn(struct lend_core *c, struct lend_sess *s, uint8_t code)
{
	if (code != s->window)
		lend_window_set(c, s, code);
}

/* Reduces the window after an idle time: the shares may have changed before the next burst. */
void lend_window_shrink_idle(struct lend_core *c, struct lend_sess *s);
void lend_window_queue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* Makes a request ready to be sent, or queues it until the window has room. */
static inline void lend_window_enter(struct lend_core *c, struct lend_sess *s,
				     struct lend_call_rec *k)
{
	/* A message that the receiver reads in shared memory needs no room at the receiver. */
	uint32_t len = k->tx.len <= s->payload ? k->tx.len : 0;

	k->in_window = k->tx.win == LEND_NONE;
	s->room = (int16_t)(s->room - k->in_window);
	if (k->in_window && (s->room < 0 || !lend_peer_charge(c, s, len))) {
		lend_window_queue(c, s, k);
		return;
	}
	k->tx.charged = k->in_window ? len : 0;
	lend_sched_ready(c, k);
}

/* Puts a lost request before the calls of its class that were never sent. */
void lend_window_requeue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);

void lend_window_leave_slow(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* Notes that a request has arrived or was given up. */
static inline void lend_window_leave(struct lend_core *c, struct lend_sess *s,
				     struct lend_call_rec *k)
{
	if (!k->in_window)
		return;
	k->in_window = 0;
	if (s->room++ < 0 || s->waits.in)
		lend_window_leave_slow(c, s, k);
}

#endif
