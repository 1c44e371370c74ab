/* sess_timer - the tick of a session: retransmits CONNECT, PROOF or BYE, sends PINGs, sends ACKs
 * that are due, wakes its calls. The other half of sess.h. Layer: core (pure). */
#include "core/client_call.h"
#include "core/control.h"
#include "core/handshake.h"
#include "core/kept_reply.h"
#include "core/loss.h"
#include "core/peer_window.h"
#include "core/sched.h"
#include "core/sess.h"

enum { REPORTS = 4 }; /* per round trip, of fragments that arrive slowly */
enum { DOUBTS = 3 };  /* PINGs after a RESET of a sealed session, which anyone can send */

static void report_at(struct lend_core *c, struct lend_sess *s, lend_ns at)
{
	s->ack_due = 1;
	if (at < s->ack_timer) {
		s->ack_timer = at;
		lend_sess_arm(c, s, at);
	}
}

void lend_sess_report_soon(struct lend_core *c, struct lend_sess *s)
{
	report_at(c, s, c->now + LEND_REPORT);
}

void lend_sess_schedule_report(struct lend_core *c, struct lend_sess *s)
{
	/* A server that sends no long replies measures no round trip, only its grants' loop. */
	lend_ns trip = lend_max_u64(s->srtt, c->grants.loop_min);

	if (c->cfg.congestion != LEND_CC_NONE && !s->lossless && s->unacked)
		report_at(c, s, c->now + lend_max_u64(LEND_REPORT, trip / REPORTS));
}

/* Returns whether enough BYEs were sent. On a lossless carrier one BYE that the carrier took is
 * enough, and required: without it the peer would keep the session forever. Elsewhere it is three,
 * taken or not. */
static bool byes_suffice(const struct lend_sess *s)
{
	return s->lossless ? s->bye_taken : s->ctl_tries > 1;
}

static void ping_in_doubt(struct lend_core *c, struct lend_sess *s)
{
	s->doubts++;
	s->last_ping = c->now;
	s->ctl_timer = c->now + lend_loss_rto(s, 0);
	lend_ctl_sess(c, s, LEND_PKT_PING, 0, 0);
}

void lend_sess_doubt(struct lend_core *c, struct lend_sess *s)
{
	if (s->state != LEND_SESS_UP || s->doubts)
		return;
	ping_in_doubt(c, s);
	lend_sess_arm(c, s, s->ctl_timer);
}

/* Ends the session if no PING since the RESET was answered. */
static bool tick_doubt(struct lend_core *c, struct lend_sess *s)
{
	if (s->last_rx > s->last_ping) {
		s->doubts = 0;
		s->ctl_timer = LEND_NEVER;
		return true;
	}
	if (s->doubts < DOUBTS) {
		ping_in_doubt(c, s);
		return true;
	}
	LEND_COUNT(c, rx_reset);
	lend_sess_down(c, s, UNAVAILABLE, false);
	return false;
}

/* Retransmits the datagrams of handshake and close. Returns false if the session ended. */
static bool tick_ctl(struct lend_core *c, struct lend_sess *s)
{
	if (c->now < s->ctl_timer)
		return true;
	if (s->state == LEND_SESS_UP && s->doubts)
		return tick_doubt(c, s);
	if (s->state != LEND_SESS_CLOSING) {
		lend_hs_tick(c, s);
		return true;
	}
	if (byes_suffice(s)) {
		lend_sess_free(c, s);
		return false;
	}
	if (!s->ctl_waits)
		lend_ctl_sess(c, s, LEND_PKT_BYE, 0, 0);
	s->ctl_timer = c->now + lend_loss_rto(s, ++s->ctl_tries);
	return true;
}

/* Returns whether the session ends when nothing arrives for cfg.dead. A closing session ends with
 * its BYEs. On a lossless carrier the session ends when the carrier reports a hang-up. Before the
 * first datagram of a session arrives, the timeout applies everywhere: a client with a 0-RTT call
 * may exit before ACCEPT arrives, and then sends no BYE. */
static bool dies_of_silence(const struct lend_sess *s)
{
	return s->state != LEND_SESS_CLOSING &&
	       !(s->lossless && s->state == LEND_SESS_UP && s->seen_at);
}

/* Retransmits each paused reply: the caller's acknowledgement may be lost, and the caller repeats
 * it only when parts of the reply arrive again. */
static void retransmit_paused(struct lend_core *c, struct lend_sess *s)
{
	for (uint32_t slot = 0; slot < s->sslots; slot++) {
		uint32_t rec = lend_sslot_at(c, lend_sess_index(c, s), slot)->rec;
		struct lend_call_rec *k = rec < c->records ? lend_call_at(c, rec) : NULL;

		if (!k || k->state != LEND_CALL_REPLYING || !k->paused)
			continue;
		k->paused = 0;
		lend_sched_ready(c, k);
	}
}

/* Returns whether a PING is due: nothing arrived for a while, or parked calls depend on it. */
static bool must_ping(struct lend_core *c, struct lend_sess *s)
{
	if (s->state != LEND_SESS_UP)
		return false;
	if (!s->lossless && c->now - lend_max_u64(s->last_rx, s->last_ping) >= c->cfg.probe)
		return true;
	return c->now - s->last_ping >= LEND_PARKED_PING && lend_call_any_parked(c, s);
}

/* Returns the status of calls of a session that ends by silence: of an attempt, the reason that a
 * RETRY gave. */
static uint8_t silence_status(struct lend_core *c, const struct lend_sess *s)
{
	uint8_t flags = s->state == LEND_SESS_CONNECTING ? lend_hs_of(c, s)->flags : 0;

	if (flags & LEND_HS_REFUSED)
		return UNAUTHENTICATED;
	return flags & LEND_HS_FULL ? RESOURCE_EXHAUSTED : UNAVAILABLE;
}

/* Sends PINGs, and declares the peer dead. Returns false if the session ended. */
static bool tick_alive(struct lend_core *c, struct lend_sess *s)
{
	if (dies_of_silence(s) && c->now - s->last_rx >= c->cfg.dead) {
		LEND_COUNT(c, dead);
		lend_sess_down(c, s, silence_status(c, s), false);
		return false;
	}
	if (must_ping(c, s)) {
		s->last_ping = c->now;
		LEND_COUNT(c, probes);
		lend_ctl_sess(c, s, LEND_PKT_PING, 0, 0);
		retransmit_paused(c, s);
	}
	return true;
}

static lend_ns next_wake(struct lend_core *c, struct lend_sess *s)
{
	lend_ns at = lend_min_u64(s->ctl_timer, s->ack_timer);
	struct lend_call_rec *k, show;
	uint32_t slot = 0;

	if (dies_of_silence(s))
		at = lend_min_u64(at, s->last_rx + c->cfg.dead);
	if (s->state == LEND_SESS_UP && !s->lossless)
		at = lend_min_u64(at, lend_max_u64(s->last_rx, s->last_ping) + c->cfg.probe);
	if (s->lingers)
		at = lend_min_u64(at, s->last_rx + LEND_KEPT_LINGER);
	while ((k = lend_sess_next_made(c, s, &slot, &show))) {
		at = lend_min_u64(at, lend_call_wake(k));
		if (lend_call_is_parked(k))
			at = lend_min_u64(at, s->last_ping + LEND_PARKED_PING);
	}
	return at;
}

/* Allows the peer more time if this timer fires late by cfg.probe or more: the process was stopped,
 * or the machine paused. Datagrams that the peer sent meanwhile may still be on their way, and the
 * peer may have been stopped, too. */
static void forgive_pause(struct lend_core *c, struct lend_sess *s)
{
	lend_ns late = c->now - s->timer;

	if (late >= c->cfg.probe)
		s->last_rx = lend_min_u64(s->last_rx + late, c->now);
}

void lend_sess_tick(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k, show;
	uint32_t slot = 0;

	forgive_pause(c, s);
	lend_sess_disarm(c, s);
	if (!tick_ctl(c, s) || !tick_alive(c, s))
		return;
	if (c->now >= s->ack_timer) {
		s->ack_timer = LEND_NEVER;
		LEND_CHECK(s->ack_due);
		lend_ctl_sess(c, s, LEND_PKT_ACK, 0, 0);
	}
	if (s->lingers)
		lend_kept_on_tick(c, s);
	if (s->calls == 0)
		lend_window_shrink_idle(c, s);
	if (s->level)
		lend_window_lower(c, s);
	if (s->has_blocked)
		lend_sched_unblock(c, s);
	if (s->ask_at)
		lend_timer_earlier(c, s, lend_requests_ask(c, s));
	if (s->state == LEND_SESS_UP && s->waits.in)
		lend_peer_serve(c, lend_peer_of(c, s));
	while ((k = lend_sess_next_made(c, s, &slot, &show)))
		if (c->now >= lend_call_wake(k))
			lend_call_tick(c, lend_call_in(c, s, slot - 1, NULL));
	lend_sess_arm(c, s, next_wake(c, s));
}
