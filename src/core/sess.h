/* sess - sessions: opened, kept alive, ended once. Their handshake is in handshake.h.
 *
 *   FREE -> CONNECTING -> UP -> CLOSING -> FREE       at the client
 *   FREE -> HALF -> UP -> CLOSING -> FREE             at the server
 *
 * A half-open session only answers CONNECTs: its address is not proven, so it must not send more
 * bytes than it received. The first datagram that bears our id proves it. Layer: core (pure). */
#ifndef LEND_CORE_SESS_H
#define LEND_CORE_SESS_H

#include "core/loss.h"
#include "core/arena.h"
#include "core/timer.h"

/* Returns the bytes of the longest payload that a session of this core can have. */
uint32_t lend_sess_payload_max(const struct lend_core *c);
/* Takes a free session, sets its state and draws its id. NULL: the table is full. */
struct lend_sess *lend_sess_open(struct lend_core *c, uint32_t peer, uint8_t state);
/* Returns whether no session has this id and another session uses its entry. */
bool lend_sess_is_stale(struct lend_core *c, uint64_t id);
/* Notes from which length on the sender of this datagram reads messages in our shared memory. */
void lend_sess_note_reads(struct lend_core *c, struct lend_sess *s, const struct lend_in *in);
/* Brings the session up, and raises SESSION_UP. */
void lend_sess_up(struct lend_core *c, struct lend_sess *s);
/* Brings up a half-open session at the first datagram that bears our id, which proves the address.
 */
void lend_sess_prove(struct lend_core *c, struct lend_sess *s);
/* Handles a RESET: the peer has no session with this id. */
void lend_sess_on_reset(struct lend_core *c, uint32_t peer, uint64_t peer_id);
/* Asks the peer of a sealed session, which a RESET calls dead, whether it lives: three PINGs. */
void lend_sess_doubt(struct lend_core *c, struct lend_sess *s);
/* Ends all calls of the session with status, and raises SESSION_DOWN if the caller knows the
 * session. Sends BYE first if asked to. */
void lend_sess_down(struct lend_core *c, struct lend_sess *s, uint8_t status, bool said);
/* Frees a session without sending a datagram: it was never up, or its end was reported before. */
void lend_sess_free(struct lend_core *c, struct lend_sess *s);
/* Ends the sessions of a peer that the carrier lost. */
void lend_sess_peer_gone(struct lend_core *c, uint32_t peer);
/* Sets up slots up to this one, at their first use: a session with few concurrent calls touches
 * few. */
void lend_sess_more_cslots(struct lend_core *c, struct lend_sess *s, uint32_t slot);
void lend_sess_more_sslots(struct lend_core *c, struct lend_sess *s, uint32_t slot);
static inline struct lend_cslot *lend_sess_cslot(struct lend_core *c, struct lend_sess *s,
						 uint32_t slot)
{
	if (slot >= s->cslots)
		lend_sess_more_cslots(c, s, slot);
	return lend_cslot_at(c, lend_sess_index(c, s), slot);
}

static inline struct lend_sslot *lend_sess_sslot(struct lend_core *c, struct lend_sess *s,
						 uint32_t slot)
{
	if (slot >= s->sslots)
		lend_sess_more_sslots(c, s, slot);
	return lend_sslot_at(c, lend_sess_index(c, s), slot);
}

/* Sets the session's timer to this time unless it fires earlier. */
static inline void lend_sess_arm(struct lend_core *c, struct lend_sess *s, lend_ns at)
{
	lend_timer_earlier(c, s, at);
}

/* Clears the timer. */
static inline void lend_sess_disarm(struct lend_core *c, struct lend_sess *s)
{
	lend_timer_set(c, s, LEND_NEVER);
}

/* Notes that a reply of one datagram must be acknowledged: by the next datagram, or after an idle
 * timeout, or as late as the reply's sender allows (patience). */
static inline void lend_sess_schedule_ack(struct lend_core *c, struct lend_sess *s,
					  lend_ns patience)
{
	lend_ns at;

	s->ack_due = 1;
	if (s->ack_timer != LEND_NEVER && patience)
		return;
	at = c->now + lend_max_u64(lend_loss_rto(s, 0), patience);
	if (at < s->ack_timer) {
		s->ack_timer = at;
		lend_sess_arm(c, s, at);
	}
}

/* Sets the timer after a call ended. Without calls, it is needed only for the pending ACK and the
 * keepalive probe. */
static inline void lend_sess_on_call_end(struct lend_core *c, struct lend_sess *s)
{
	if (s->calls == 0)
		lend_timer_set(c, s, lend_min_u64(s->ack_timer, s->last_rx + c->cfg.probe));
}

/* Schedules a report within a quarter of the round trip, LEND_REPORT at least, after a fragment of
 * a long message arrived: its sender may need it to send more. */
void lend_sess_schedule_report(struct lend_core *c, struct lend_sess *s);
/* Schedules a report within LEND_REPORT. */
void lend_sess_report_soon(struct lend_core *c, struct lend_sess *s);
void lend_sess_tick(struct lend_core *c, struct lend_sess *s);
uint64_t lend_core_random(struct lend_core *c);

#endif
