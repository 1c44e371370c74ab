/* request_loss - requests of one datagram that a report lacks. Part of peer_window.h. Layer: core
 * (pure). */
#include "core/control.h"
#include "core/peer_window.h"
#include "core/reorder.h"
#include "core/request_window.h"
#include "core/rto.h"
#include "core/timer.h"
#include "core/tx.h"
#include "core/call_slot.h"

/* Returns how long after its transmission a request is lost that others have passed. */
static lend_ns limit_of(struct lend_core *c, struct lend_sess *s)
{
	lend_ns most = s->srtt + lend_max_u64(s->srtt / 4, 2 * LEND_US);

	most += 2 * lend_min_u64(s->rttvar, s->srtt / 4);
	return s->has_reorder ? lend_max_u64(most, lend_reorder_limit(s, lend_reorder_of(c, s)))
			      : most;
}

/* Returns whether the request was sent and holds part of the window. */
static bool is_in_flight(const struct lend_call_rec *k)
{
	return k->state == LEND_CALL_OPEN && k->tx.win == LEND_NONE && k->tx.charged &&
	       k->tx.next && !k->tx.resend && !k->whole;
}

/* Takes a lost request out of the window and puts it into the queue. Returns its bytes. */
static uint32_t take_back(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t len = k->tx.charged;

	lend_peer_of(c, s)->used -= len;
	k->tx.charged = 0;
	lend_tx_lost(c, &k->tx, 0);
	lend_window_requeue(c, s, k);
	return len;
}

/* Takes a request that has arrived out of the window: its handler may run for long. */
static void take_arrived(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	struct lend_call_rec *k = lend_call_in(c, s, slot, NULL);
	uint32_t len = k->tx.charged;

	k->tx.charged = 0;
	lend_peer_release(c, s, len);
}

/* How the last report judges a request in flight. IS_MISSING: others have passed it, not long ago.
 */
enum judgement { UNREPORTED, HAS_ARRIVED, IS_MISSING, IS_LOST };

static enum judgement judge_one(const struct lend_core *c, const struct lend_sess *s,
				const struct lend_call_rec *k, lend_ns limit)
{
	uint64_t back = s->acked - k->number;

	if (!is_in_flight(k) || k->number > s->acked || back > 64)
		return UNREPORTED;
	if (back == 0 || s->acked_map >> (back - 1) & 1)
		return HAS_ARRIVED;
	return c->now - k->stamp < limit ? IS_MISSING : IS_LOST;
}

/* Judges again at this time. */
static void ask_later(struct lend_core *c, struct lend_sess *s)
{
	lend_ns at = c->now + lend_max_u64(s->srtt / 2, LEND_PTO_MIN);

	s->ask_at = lend_max_u32((uint32_t)(at / LEND_SENT_UNIT), 1);
	lend_timer_earlier(c, s, at);
}

/* Returns whether a request that the last report lacks is still in flight. */
static bool is_any_missing(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k, show;
	uint32_t at = 0;

	while ((k = lend_sess_next_made(c, s, &at, &show)))
		if (judge_one(c, s, k, 0) == IS_LOST)
			return true;
	return false;
}

lend_ns lend_requests_ask(struct lend_core *c, struct lend_sess *s)
{
	int32_t left = (int32_t)(s->ask_at - (uint32_t)(c->now / LEND_SENT_UNIT));

	if (left > 0)
		return c->now + (uint64_t)left * LEND_SENT_UNIT;
	s->ask_at = 0;
	if (is_any_missing(c, s)) {
		LEND_COUNT(c, probes);
		lend_ctl_sess(c, s, LEND_PKT_PING, 0, 0);
	}
	return LEND_NEVER;
}

void lend_requests_judge(struct lend_core *c, struct lend_sess *s)
{
	bool waiting = lend_peer_of(c, s)->waiting.n > 0, missing = c->coalesced_n > 0;
	uint32_t at = 0, lost = 0, longest = 0;
	struct lend_call_rec *k, show;
	lend_ns limit = limit_of(c, s);

	/* While datagrams wait to be sent, a number of them counts as missing, too. */
	while (!c->coalesced_n && (k = lend_sess_next_made(c, s, &at, &show))) {
		enum judgement j = judge_one(c, s, k, limit);

		missing |= j == IS_MISSING;
		if (j == HAS_ARRIVED && waiting)
			take_arrived(c, s, at - 1);
		if (j != IS_LOST)
			continue;
		k = lend_call_in(c, s, at - 1, NULL);
		longest = lend_max_u32(longest, take_back(c, s, k));
		lost++;
	}
	if (lost) {
		lend_peer_lost(c, s, lost, longest);
		lend_peer_wait(c, s);
	}
	if (missing)
		ask_later(c, s);
}

void lend_request_timeout(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	/* While nothing arrives, one call per session and timeout comes here: it does not wait,
	 * because no answer would make room for it. */
	bool silent = c->now - s->last_rx >= lend_loss_rto(s, 0) / 4;
	uint32_t len = k->tx.charged;

	if (k->tx.ready.in)
		return;
	if (silent) {
		lend_tx_lost(c, &k->tx, 0);
		lend_sched_ready(c, k);
	} else {
		take_back(c, s, k);
	}
	/* The first timeout may be due to a slow handler: then an ACK answers the repeat. */
	if (k->tries > 1)
		lend_peer_lost(c, s, 1, len);
	lend_peer_wait(c, s);
}
