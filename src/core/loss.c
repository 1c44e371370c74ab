#include "core/loss.h"

#include "core/flight.h"
#include "core/peer_window.h"
#include "core/reorder.h"
#include "core/seen.h"
#include "core/sched.h"
#include "core/server_call.h"
#include "core/tx.h"

enum { PTO_DECAY = 1024 }; /* RTT samples in which lend_sess.pto_min falls to 37 % */

/* Returns the call of an entry; NULL if its record was reused, or if the receiver has discarded
 * what it had of the message since then. */
static struct lend_call_rec *entry_owner(struct lend_core *c, const struct lend_sent_rec *e)
{
	struct lend_call_rec *k = lend_call_at(c, e->call);

	if (k->gen != e->gen || k->state == LEND_CALL_FREE ||
	    (k->tx.since && (int32_t)(e->number - k->tx.since) < 0))
		return NULL;
	return k;
}

/* Evicts a number without an acknowledgement from the ring. No report can acknowledge it any more,
 * so its datagram is retransmitted under a new number. This waits for the peer's next report: on a
 * ring full of such numbers each retransmission would evict another. */
static void push_out(struct lend_core *c, const struct lend_sess *s, const struct lend_sent_rec *e)
{
	struct lend_call_rec *old = entry_owner(c, e);
	bool reply;

	if (!old || e->frag & LEND_SENT_LOST)
		return;
	reply = old->state == LEND_CALL_REPLYING && old->tx.win == LEND_NONE;
	if (!reply && (s->lossless || old->tx.win == LEND_NONE))
		return;
	lend_tx_lost(c, &old->tx, e->frag);
	if (old->tx.resend && !old->tx.ready.in)
		lend_sched_wait(c, old);
}

struct lend_sent_rec *lend_loss_make_room(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_sent_rec *e = lend_sent_ring_slot(c, s, number);

	/* In the larger ring, too, an older number's entry may be in the way. */
	while (entry_owner(c, e) && lend_ring_grow(c, s))
		e = lend_sent_ring_slot(c, s, number);
	push_out(c, s, e);
	return e;
}

/* Returns whether nothing of a long message is in flight, so that nothing can be declared lost. */
static bool nothing_long_in_flight(const struct lend_sess *s)
{
	return s->oldest == s->number;
}

/* Records that the peer has seen this number: see struct lend_few. */
static void note_passed(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	uint64_t *passed = lend_few_of(c, s)->passed;

	if (s->lossless || nothing_long_in_flight(s) || number < s->oldest ||
	    s->number - number > lend_ring_len(c, s))
		return;
	for (int i = *lend_ring_class(c, s, number); i >= 0 && passed[i] < number; i--)
		passed[i] = number;
}

void lend_loss_unsent(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_sent_rec *e = lend_ring_entry(c, s, number);

	if (e)
		e->gen = 0;
}

/* Returns whether no call of this core sends a long message; then nothing is in flight. */
static bool all_short(const struct lend_core *c)
{
	return c->free_wins.free == c->free_wins.cap;
}

/* Returns whether the datagram of this number is in flight. Single-datagram replies do not count:
 * the client detects their loss. */
static bool in_flight(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_sent_rec *e = lend_ring_entry(c, s, number);
	struct lend_call_rec *k = e ? entry_owner(c, e) : NULL;

	/* On a lossless carrier it has arrived before a later datagram, and was dropped for want of
	 * memory. It must not delay messages for which there is memory. */
	if (s->lossless && number < s->acked)
		return false;
	return k && k->tx.win != LEND_NONE && !(e->frag & LEND_SENT_LOST) && e->frag >= k->tx.low &&
	       !lend_tx_waits_resend(c, &k->tx, e->frag);
}

static void advance_oldest(struct lend_core *c, struct lend_sess *s)
{
	if (all_short(c))
		s->oldest = s->number;
	while (s->oldest < s->number && !in_flight(c, s, s->oldest))
		s->oldest++;
}

bool lend_loss_room(struct lend_core *c, struct lend_sess *s)
{
	uint32_t window = s->lossless ? LEND_RING : lend_cc_window(&s->cc),
		 len = lend_ring_len(c, s);

	if (lend_flight_holds(c, s)) {
		advance_oldest(c, s);
		if (lend_flight_holds(c, s))
			return false;
	}
	if (s->number - s->oldest >= lend_min_u32(window, len))
		advance_oldest(c, s);
	if (s->number - s->oldest >= len && window > len && lend_ring_grow(c, s))
		len = lend_ring_len(c, s);
	return s->number - s->oldest < lend_min_u32(window, len);
}

void lend_loss_rtt(struct lend_sess *s, lend_ns sample, uint32_t delay_ns)
{
	uint32_t trip, gap;

	if (delay_ns == UINT32_MAX || sample > 60000 * LEND_MS)
		return;
	/* Samples beyond UINT32_MAX do not matter: the timeout has its limit far below. */
	trip = sample > delay_ns ? (uint32_t)lend_min_u64(sample - delay_ns, UINT32_MAX) : 1;
	gap = trip > s->srtt ? trip - s->srtt : s->srtt - trip;
	if (s->srtt == 0) {
		s->srtt = trip;
		s->rttvar = trip / 2;
	} else {
		/* The variance rises fast and falls slowly: datagrams come in bursts, and 32 that
		 * took equally long would otherwise erase the variance that the next burst shows.
		 */
		if (gap > s->rttvar)
			s->rttvar += (gap - s->rttvar) / 4;
		else
			s->rttvar -= (s->rttvar - gap) / 256;
		s->srtt += trip / 8 - s->srtt / 8;
	}
	s->pto_min -= s->pto_min / PTO_DECAY;
	lend_loss_set_pto(s);
}

static lend_ns time_since_sent(const struct lend_core *c, const struct lend_sent_rec *e)
{
	return (uint64_t)((uint32_t)(c->now / LEND_SENT_UNIT) - e->when) * LEND_SENT_UNIT;
}

/* Learns from a number that is reported after a later one of its class or a less urgent one. */
static void learn_reordering(struct lend_core *c, struct lend_sess *s, uint64_t number,
			     struct lend_sent_rec *e)
{
	bool lost = e->frag & LEND_SENT_LOST;

	e->frag &= ~LEND_SENT_LOST;
	if (s->lossless || nothing_long_in_flight(s) || s->number - number > lend_ring_len(c, s) ||
	    number >= lend_few_of(c, s)->passed[*lend_ring_class(c, s, number)])
		return;
	lend_reorder_note(c, s, time_since_sent(c, e), !lost);
}

/* Handles a number that the peer has seen. Returns true if it was of a long message. */
static bool handle_acked(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_sent_rec *e = lend_ring_entry(c, s, number);
	struct lend_call_rec *k = e ? entry_owner(c, e) : NULL;

	if (k && k->tx.win != LEND_NONE)
		learn_reordering(c, s, number, e);
	note_passed(c, s, number);
	if (!e)
		return false;
	e->gen = 0;
	if (!k)
		return false;
	if (k->tx.win == LEND_NONE) { /* a single-datagram reply: now complete */
		lend_serve_delivered(c, k);
		return false;
	}
	lend_tx_acked(c, &k->tx, e->frag);
	/* A request is completed by its reply, not by its acknowledgement. */
	if (k->tx.low == k->tx.total)
		lend_serve_delivered(c, k);
	return true;
}

/* Returns whether a number is lost that the report does not include: below `below` after a
 * timeout, otherwise when a later one of its class has passed it for long enough. */
static bool is_overdue(struct lend_core *c, struct lend_sess *s, uint64_t number, uint64_t below,
		       const struct lend_sent_rec *e)
{
	lend_ns since = time_since_sent(c, e);

	return (number < below && since >= lend_loss_rto(s, 0)) ||
	       (number < lend_few_of(c, s)->passed[*lend_ring_class(c, s, number)] &&
		since >= lend_reorder_limit(s, lend_reorder_of(c, s)));
}

static bool handle_lost(struct lend_core *c, struct lend_sess *s, uint64_t number, uint64_t below)
{
	struct lend_sent_rec *e = lend_ring_entry(c, s, number);
	struct lend_call_rec *k = e ? entry_owner(c, e) : NULL;

	if (!k || k->tx.win == LEND_NONE || e->frag & LEND_SENT_LOST ||
	    !is_overdue(c, s, number, below, e))
		return false;
	if (number >= below && s->acked - number <= 64)
		LEND_COUNT(c, lost); /* otherwise no report covered it */
	lend_tx_lost(c, &k->tx, e->frag);
	e->frag |= LEND_SENT_LOST;
	if (k->tx.resend)
		lend_sched_ready(c, k);
	return true;
}

/* Retransmits the single-datagram replies that were sent under the numbers [loss_checked, below).
 * Most numbers have no entry, and there may be more of them than entries. */
static void judge_range(struct lend_core *c, struct lend_sess *s, uint64_t below)
{
	uint64_t n = below - s->loss_checked;

	for (uint64_t i = 0; i < lend_min_u64(n, lend_ring_len(c, s)); i++) {
		struct lend_sent_rec *e = lend_sent_ring_slot(c, s, s->loss_checked + i);
		struct lend_call_rec *k = e->gen ? entry_owner(c, e) : NULL;
		uint32_t back = (uint32_t)below - e->number;

		if (!k || back == 0 || back > n || k->state != LEND_CALL_REPLYING ||
		    k->tx.win != LEND_NONE)
			continue;
		lend_tx_lost(c, &k->tx, 0);
		lend_sched_ready(c, k);
	}
}

/* Retransmits each single-datagram reply if its number left the map without an acknowledgement. The
 * client acknowledges a retransmitted reply by its call. */
static void judge_replies(struct lend_core *c, struct lend_sess *s, uint64_t below)
{
	if (c->used[1] == 0)
		s->loss_checked =
		    lend_max_u64(s->loss_checked, below); /* this core is answering no call */
	if (s->loss_checked < below)
		judge_range(c, s, below);
	s->loss_checked = lend_max_u64(s->loss_checked, below);
}

/* Declares datagrams lost: those below `below`, and those that later ones have passed for longer
 * than reorder.h allows. Returns how many. */
static uint32_t declare_lost(struct lend_core *c, struct lend_sess *s, uint64_t below)
{
	uint32_t n = 0;
	uint64_t end;

	if (nothing_long_in_flight(s) || all_short(c))
		return 0;
	end = lend_max_u64(below, lend_few_of(c, s)->passed[0]);
	for (uint64_t i = s->oldest; i < end; i++)
		n += handle_lost(c, s, i, below);
	return n;
}

/* Returns the round trip without the peer's delay; 0 if the report yields none. */
static lend_ns rtt_sample(struct lend_core *c, struct lend_sess *s,
			  const struct lend_pkt_seen *seen)
{
	const struct lend_sent_rec *e = lend_ring_entry(c, s, seen->acked);
	lend_ns trip;

	if (!e || !entry_owner(c, e))
		return 0;
	trip = time_since_sent(c, e);
	lend_loss_rtt(s, trip, seen->delay_ns);
	if (seen->delay_ns == UINT32_MAX)
		return 0;
	trip = trip > seen->delay_ns ? trip - seen->delay_ns : 1;
	if (!nothing_long_in_flight(s))
		lend_reorder_of(c, s)->trip = (uint32_t)lend_min_u64(trip, UINT32_MAX);
	return trip;
}

/* Returns the bits of the map that are new, so that each number is handled once. */
static uint64_t new_bits(struct lend_sess *s, const struct lend_pkt_seen *seen, uint64_t distance)
{
	uint64_t known;

	if (seen->acked < s->acked)
		return seen->map; /* an older report */
	known = lend_seen_shift(s->acked_map, seen->acked - s->acked);
	s->acked = seen->acked;
	s->acked_map = known;
	if (distance > 1)
		return seen->map; /* of late numbers */
	s->acked_map |= seen->map;
	return seen->map & ~known;
}

/* Returns the number below which everything unseen is lost. Probes are sent only after late
 * datagrams have arrived, too, so a number seen after one covers all below it. With a PROBE itself
 * the newest LEND_REORDER numbers are left out. */
static uint64_t late_below(const struct lend_pkt_seen *seen, enum lend_loss_source word)
{
	if (word == LEND_LOSS_PROBE_ANSWER)
		return seen->acked;
	return word == LEND_LOSS_PROBE && seen->acked > LEND_REORDER ? seen->acked - LEND_REORDER
								     : 0;
}

/* Returns whether the report updates congestion control. A session with nothing of a long message
 * in flight and without any ECN mark has no use for a window, so it skips the update. Algorithms
 * that work by delay learn from the round trips of all messages. */
static bool updates_cc(const struct lend_core *c, const struct lend_sess *s,
		       const struct lend_pkt_seen *seen)
{
	bool by_delay = c->cfg.congestion == LEND_CC_TIMELY || c->cfg.congestion == LEND_CC_SWIFT;

	return !s->lossless && (by_delay || seen->ecn || !nothing_long_in_flight(s));
}

/* Separates the distance of a map of late numbers from the largest number. Returns it: 1 for the
 * usual map. */
static uint64_t split_report(struct lend_pkt_seen *seen)
{
	uint64_t distance = seen->acked >> LEND_PKT_NUMBER_BITS;

	seen->acked &= (UINT64_C(1) << LEND_PKT_NUMBER_BITS) - 1;
	return lend_max_u64(distance, 1);
}

bool lend_loss_reported(struct lend_core *c, struct lend_sess *s,
			const struct lend_pkt_seen *report, enum lend_loss_source word)
{
	struct lend_pkt_seen read = *report, *seen = &read;
	uint64_t distance = split_report(seen), map, before = s->acked;
	bool learns = updates_cc(c, s, seen);
	struct lend_cc_report r = {
	    .now = c->now, .next = s->number, .acked = seen->acked, .payload = s->payload};

	if (seen->acked >= s->number)
		return false;
	/* Wake waiting calls first: datagrams that are lost repeatedly must not overtake them. */
	lend_sched_wake(c, s);
	if (seen->acked > s->acked)
		r.rtt = rtt_sample(c, s, seen);
	if (seen->acked > s->acked && learns) {
		r.marked = seen->ecn - s->cc.ecn;
		s->cc.ecn = seen->ecn;
	}
	map = new_bits(s, seen, distance);
	if (s->acked > before)
		lend_peer_reported(c, s, s->acked - before, r.marked);
	if (distance == 1 && lend_requests_uncertain(c, s))
		lend_requests_judge(c, s);
	r.seen = handle_acked(c, s, seen->acked);
	for (; map; map &= map - 1) {
		uint64_t back = distance + (uint64_t)__builtin_ctzll(map);

		if (back <= seen->acked)
			r.seen += handle_acked(c, s, seen->acked - back);
	}
	if (!s->lossless)
		r.lost = declare_lost(c, s, late_below(seen, word));
	if (s->has_reorder)
		lend_reorder_decay(c, &lend_few_of(c, s)->reorder);
	if (r.lost)
		lend_reorder_lost(c, s, r.lost);
	if (learns)
		lend_cc_report(&s->cc, c->cfg.congestion, &r);
	if (learns && c->cfg.congestion == LEND_CC_CREDIT && (r.seen || s->has_flight))
		lend_flight_reported(c, s, &r);
	/* On a lossless carrier, too: the numbers leave the map all the same. */
	if (word == LEND_LOSS_PROBE_ANSWER && !s->lossless)
		judge_replies(c, s, seen->acked);
	else if (seen->acked > 64)
		judge_replies(c, s, seen->acked - 64);
	advance_oldest(c, s);
	return true;
}
