/* sess - sessions: opened, kept alive, ended once; their handshake is in handshake.h.
 *
 *   FREE -> CONNECTING -> UP -> CLOSING -> FREE       at the client
 *   FREE -> HALF -> UP -> CLOSING -> FREE             at the server
 *
 * A half-open session answers CONNECTs and does nothing else: its address is not proven, so no more
 * bytes go out than came in. The first datagram that bears our id proves it. Layer: core (pure). */
#ifndef LEND_CORE_SESS_H
#define LEND_CORE_SESS_H

#include "core/loss.h"
#include "core/arena.h"
#include "core/timer.h"

/* Bytes of the longest payload that a session of this core can have. */
uint32_t lend_sess_payload_max(const struct lend_core *c);
/* A free one, in state, with its id drawn. NULL: table full. */
struct lend_sess *lend_sess_open(struct lend_core *c, uint32_t peer, uint8_t state);
/* There is none, and another lives in its place. */
bool lend_sess_is_stale(struct lend_core *c, uint64_t id);
/* From what length on the sender of this datagram reads our shared memory. */
void lend_sess_note_reads(struct lend_core *c, struct lend_sess *s, const struct lend_in *in);
/* Brings the session up, and raises SESSION_UP. */
void lend_sess_up(struct lend_core *c, struct lend_sess *s);
/* The first datagram that bears our id. */
void lend_sess_prove(struct lend_core *c, struct lend_sess *s);
/* A peer says that it knows no session of this id. */
void lend_sess_on_reset(struct lend_core *c, uint32_t peer, uint64_t peer_id);
/* Everything on it ends with status, SESSION_DOWN is raised; said: BYE goes out first. */
void lend_sess_down(struct lend_core *c, struct lend_sess *s, uint8_t status, bool said);
/* Without a word to anybody: it was never up, or its end was told already. */
void lend_sess_free(struct lend_core *c, struct lend_sess *s);
/* The carrier lost this peer. */
void lend_sess_peer_gone(struct lend_core *c, uint32_t peer);
/* A slot is set up when it is used first: a session that makes few calls at once touches few. */
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

/* Wake at this time, or earlier: later wishes cost nothing, the timer fires early once and looks
 * again. */
static inline void lend_sess_arm(struct lend_core *c, struct lend_sess *s, lend_ns at)
{
	if (at < s->timer)
		lend_timer_set(c, s, at);
}

/* No wake-up until armed again. */
static inline void lend_sess_disarm(struct lend_core *c, struct lend_sess *s)
{
	lend_timer_set(c, s, LEND_NEVER);
}

/* A reply of one datagram came: it is acknowledged by the next datagram, or after an idle timeout,
 * or as late as its sender says that it may be. */
static inline void lend_sess_owe_ack(struct lend_core *c, struct lend_sess *s, lend_ns patience)
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

/* A call is over. The last one's time is no longer to wake for, but what it left to be said. */
static inline void lend_sess_rest(struct lend_core *c, struct lend_sess *s)
{
	if (s->calls == 0)
		lend_timer_set(c, s, lend_min_u64(s->ack_timer, s->last_rx + c->cfg.probe));
}

/* Part of a long message came: who sends it may have to wait for our word of it. */
void lend_sess_owe_report(struct lend_core *c, struct lend_sess *s);
void lend_sess_tick(struct lend_core *c, struct lend_sess *s);
uint64_t lend_core_draw(struct lend_core *c);

#endif
