/* Goal: a datagram is declared lost once one that was sent later and is not more urgent has arrived
 * for longer than the reordering window, which follows the reordering that occurs; a more urgent
 * one may have overtaken it. After a timeout, a datagram that the answer to a probe does not show
 * is lost in any class. Losses that were none give the congestion window back. A reply is
 * retransmitted before its sent-ring entry is used for another. Method: tables of single losses and
 * of entries taken; seeded histories of reports over eight classes of lost and late datagrams,
 * against a model that examines all of them. Covers: src/core/loss.c, src/core/reorder.c,
 * src/core/seen.c, src/core/sent_ring.c */
#include <criterion/criterion.h>

#include "core/flight.h"
#include "core/loss.h"
#include "core/reorder.h"
#include "core/tx.h"
#include "rxkit.h"
#include "wire/head.h"
#include "util/rng.h"

enum { EACH = 64, FIRST = 1 };

static struct lend_core *c;
static struct lend_call_rec *k[LEND_CLASSES];

/* Opens a long message in each class; nothing of it has been sent. */
static void open_all(void)
{
	c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		k[i] = lend_call_new(c, lend_sess_at(c, 0), 0, false);
		k[i]->state = LEND_CALL_OPEN;
		k[i]->class = (uint8_t)i;
		lend_tx_begin(c, lend_sess_at(c, 0), &k[i]->tx, 1, EACH * RX_PAYLOAD, false);
	}
}

/* Sends the next datagram of this class; returns its fragment. */
static uint32_t send_next(uint32_t class)
{
	struct lend_sess *s = lend_sess_at(c, 0);
	uint32_t frag = k[class]->tx.next;

	lend_tx_sent(c, &k[class]->tx, frag);
	lend_loss_sent(c, s, lend_sent_number(c, s, (uint8_t) class, true), k[class], frag);
	return frag;
}

/* The peer's report: bit i stands for number FIRST + i, up to the largest that did. */
static void make_report(uint64_t came, enum lend_loss_source word)
{
	uint32_t top = 63 - (uint32_t)__builtin_clzll(came);
	struct lend_pkt_seen seen = {.acked = FIRST + top};

	for (uint32_t i = 0; i < top; i++)
		seen.map |= (came >> i & 1) << (top - 1 - i);
	cr_assert(lend_loss_reported(c, lend_sess_at(c, 0), &seen, word));
}

/* The limit is used up, then the receiver asks for all of it again and no report says more. */
Test(loss, room__limit_used_up_and_all_discarded__sends_again)
{
	struct lend_flight *f;

	open_all();
	(void)send_next(3);
	make_report(1, LEND_LOSS_OTHER);
	f = &lend_few_of(c, lend_sess_at(c, 0))->flight;
	f->limit = 4;
	while (lend_loss_room(c, lend_sess_at(c, 0))) {
		(void)send_next(3);
		lend_flight_sent(c, lend_sess_at(c, 0), 1);
	}
	cr_assert_eq(k[3]->tx.next, 5);
	lend_tx_restart(c, lend_sess_at(c, 0), &k[3]->tx, 1);
	cr_assert(lend_loss_room(c, lend_sess_at(c, 0)));
	free(c);
}

Test(loss, report__single_gap__lost_or_late)
{
	/* The reordering window is 1 us. */
	static const struct {
		uint8_t class[6]; /* classes of six numbers; the first does not arrive */
		uint64_t came;
		lend_ns after; /* time since the first report of them */
		enum lend_loss_source word;
		bool lost;
	} row[] = {
	    {{3, 3, 3, 3, 3, 3}, 0x3e, 960, LEND_LOSS_OTHER, false}, /* may be reordering */
	    {{3, 3, 3, 3, 3, 3}, 0x02, 1024, LEND_LOSS_OTHER, true},
	    {{7, 0, 0, 0, 0, 0}, 0x3e, 1024, LEND_LOSS_OTHER, false}, /* may be overtaken */
	    {{7, 0, 0, 0, 7, 0}, 0x3e, 1024, LEND_LOSS_OTHER, true},
	    {{7, 7, 0, 0, 0, 0}, 0x3e, 1024, LEND_LOSS_OTHER, true},
	    {{0, 7, 7, 7, 7, 7},
	     0x20,
	     1024,
	     LEND_LOSS_OTHER,
	     true}, /* the less urgent datagrams after it cannot have overtaken it */
	    {{4, 3, 3, 3, 5, 3}, 0x10, 1024, LEND_LOSS_OTHER, true},
	    {{7, 0, 0, 0, 0, 0}, 0x02, 1024, LEND_LOSS_PROBE_ANSWER, false}, /* an early probe */
	    {{7, 0, 0, 0, 0, 0}, 0x02, LEND_RTO_MIN, LEND_LOSS_PROBE_ANSWER, true},
	    {{7, 0, 0, 0, 0, 0}, 0x02, LEND_RTO_MIN, LEND_LOSS_PROBE, false},
	    {{7, 0, 0, 0, 0, 0}, 0x20, LEND_RTO_MIN, LEND_LOSS_PROBE, true},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *first;

		open_all();
		for (int j = 0; j < 6; j++)
			send_next(row[i].class[j]);
		first = k[row[i].class[0]];
		c->now += LEND_SENT_UNIT; /* the round trip */
		make_report(row[i].came, LEND_LOSS_OTHER);
		c->now += row[i].after;
		make_report(row[i].came, row[i].word);
		cr_expect_eq(first->tx.resend && lend_tx_waits_resend(c, &first->tx, 0),
			     row[i].lost, "row %zu", i);
		free(c);
	}
}

/* A datagram is reported `extent` after others that were sent with it: for as long, the next one
 * that is passed is not lost. */
Test(loss, reordering__window_follows_and_cut_is_undone)
{
	static const lend_ns extent[] = {2048, 20480, 204800};

	for (size_t i = 0; i < sizeof(extent) / sizeof(extent[0]); i++) {
		lend_ns window = extent[i] + extent[i] / 4;
		struct lend_sess *s;
		uint32_t before;

		open_all();
		s = lend_sess_at(c, 0);
		for (int j = 0; j < 4; j++)
			send_next(3);
		before = s->cc.window;
		c->now += 1024; /* the round trip */
		make_report(0x2, LEND_LOSS_OTHER);
		cr_expect(!lend_tx_waits_resend(c, &k[3]->tx, 0), "row %zu: not yet lost", i);
		c->now += 1024;
		make_report(0x2, LEND_LOSS_OTHER);
		cr_expect(lend_tx_waits_resend(c, &k[3]->tx, 0), "row %zu: passed for 1 us", i);
		s->cc.window = before / 2;
		c->now += extent[i] - 1024;
		make_report(0x3, LEND_LOSS_OTHER);
		cr_expect(!lend_tx_waits_resend(c, &k[3]->tx, 0), "row %zu: it arrived", i);
		cr_expect_eq(s->cc.window, before, "row %zu: the cut was needless", i);
		cr_expect_eq(lend_reorder_of(c, s)->window, window, "row %zu", i);
		cr_expect_eq(lend_unhashed(c)->stats.needless, 1, "row %zu", i);
		free(c);
	}
}

/* A number that arrives too late for the usual map is reported by the map of late ones. */
Test(loss, late_number__is_reported)
{
	static const struct {
		uint64_t late[3], acked, map;
	} row[] = {
	    {{100}, 200 | UINT64_C(100) << LEND_PKT_NUMBER_BITS, 1},
	    {{100, 102}, 200 | UINT64_C(98) << LEND_PKT_NUMBER_BITS, 5},
	    {{102, 100, 39},
	     200 | UINT64_C(98) << LEND_PKT_NUMBER_BITS,
	     1 | 1 << 2 | UINT64_C(1) << 63},
	    {{102, 38}, 200 | UINT64_C(98) << LEND_PKT_NUMBER_BITS, 1}, /* beyond this map, too */
	    {{150}, 200, UINT64_C(1) << 49},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_pkt_seen seen;
		struct lend_sess *s;

		open_all();
		s = lend_sess_at(c, 0);
		s->features = LEND_FEATURE_LATE;
		s->seen = 200;
		s->seen_at = 1;
		for (int j = 0; j < 3 && row[i].late[j]; j++)
			cr_assert(!lend_seen_note(c, s, row[i].late[j]));
		lend_seen_report(c, s, &seen);
		cr_expect_eq(seen.acked, row[i].acked, "row %zu: %llx", i,
			     (unsigned long long)seen.acked);
		cr_expect_eq(seen.map, row[i].map, "row %zu: %llx", i,
			     (unsigned long long)seen.map);
		lend_seen_report(c, s, &seen);
		cr_expect_eq(seen.acked, 200, "row %zu: the next report has the usual map", i);
		free(c);
	}
}

/* A number below those of the usual map counts as missing until it arrives, and once. */
Test(loss, missing_number__is_taken_back_once)
{
	struct lend_sess *s;

	open_all();
	s = lend_sess_at(c, 0);
	s->seen = 200;
	s->seen_at = 1;
	s->seen_map = UINT64_MAX & ~(UINT64_C(1) << 49);
	lend_reorder_of(c, s)->settled = 200 - LEND_REORDER_SETTLED;
	c->grants.missing = 1; /* number 150 */
	cr_expect(!lend_seen_note(c, s, 150));
	cr_expect_eq(c->grants.missing, 0, "it was not lost");
	cr_expect(lend_seen_note(c, s, 150), "a duplicate");
	cr_expect_eq(c->grants.missing, 0, "a duplicate changes nothing");
	free(c);
}

/* A needless loss is counted also when the congestion window has returned already. */
Test(loss, needless_loss__is_counted_without_undo)
{
	static const bool in_time[] = {false, true, false, false};
	static const uint32_t counted[] = {1, 1, 2, 3};
	struct lend_sess *s;

	open_all();
	s = lend_sess_at(c, 0);
	lend_reorder_lost(c, s, 1);
	for (int i = 0; i < 4; i++) {
		lend_reorder_note(c, s, LEND_US, in_time[i]);
		cr_expect_eq(lend_unhashed(c)->stats.needless, counted[i], "arrival %d", i);
	}
	free(c);
}

/* What arrived before the receiver discarded its part of the message does not count. */
Test(loss, restart__earlier_numbers_do_not_count)
{
	struct lend_sess *s;

	open_all();
	s = lend_sess_at(c, 0);
	for (int j = 0; j < 3; j++)
		send_next(3);
	lend_tx_restart(c, s, &k[3]->tx, 0);
	make_report(0x7, LEND_LOSS_OTHER);
	cr_expect_eq(k[3]->tx.low, 0);
	cr_expect_eq(k[3]->tx.resend, 3);
	free(c);
}

/* Datagrams sent, and their fate. */
struct sent {
	uint32_t class, frag;
	bool came, lost;
};

/* Of those that arrived, is a later one not more urgent? */
static bool is_passed(const struct sent *all, uint32_t n, uint32_t i)
{
	for (uint32_t j = i + 1; j < n; j++)
		if (all[j].came && all[j].class >= all[i].class)
			return true;
	return false;
}

static void run_history(uint64_t seed)
{
	struct sent all[EACH];
	struct lend_rng rng;
	uint64_t came = 0;
	lend_ns begun;
	bool passed;

	lend_rng_seed(&rng, seed);
	open_all();
	begun = c->now;
	for (uint32_t i = 0; i < EACH; i++) {
		uint32_t class = (uint32_t)lend_rng_below(&rng, LEND_CLASSES);

		all[i] = (struct sent){.class = class, .frag = send_next(class)};
	}
	for (uint32_t word = 0; word < 20; word++) {
		for (uint32_t i = 0; i < EACH; i++)
			if (i < 4 * word && lend_rng_below(&rng, 8) == 0) {
				all[i].came = true;
				came |= UINT64_C(1) << i;
			}
		c->now += 64 * lend_rng_below(&rng, 16);
		if (!came)
			continue;
		make_report(came, LEND_LOSS_OTHER);
		passed =
		    c->now - begun >=
		    lend_reorder_limit(lend_sess_at(c, 0), lend_reorder_of(c, lend_sess_at(c, 0)));
		for (uint32_t i = 0; i < EACH; i++) {
			struct lend_call_rec *of = k[all[i].class];

			all[i].lost |= passed && !all[i].came && is_passed(all, EACH, i);
			cr_assert_eq(lend_tx_waits_resend(c, &of->tx, all[i].frag),
				     all[i].lost && !all[i].came && all[i].frag >= of->tx.low,
				     "seed %llu, word %u: number %u of class %u",
				     (unsigned long long)seed, word, i + FIRST, all[i].class);
		}
	}
	free(c);
}

Test(loss, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_history(seed);
}

/* Number `first` belongs to a reply; the next number to remember comes this much later. */
Test(loss, ring__entry_reused__reply_is_resent)
{
	static const struct {
		uint32_t later;
		bool wide, again;
	} row[] = {{1, false, false},
		   {LEND_FEW, false, false}, /* the session takes a ring, and both fit */
		   {LEND_RING, false, true},
		   {LEND_RING + LEND_FEW, false, false},
		   {2 * LEND_RING, false, true},
		   {LEND_RING, true, false}, /* the session takes a wide ring */
		   {LEND_RING + LEND_FEW, true, false},
		   {2 * LEND_RING, true, false},
		   {LEND_WIDE_RING, true, true},
		   {LEND_WIDE_RING + LEND_RING, true, false}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *reply, *other;
		struct lend_sess *s;

		c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
		s = lend_sess_at(c, 0);
		if (!row[i].wide)
			c->free_wide.free = 0; /* other sessions have them */
		reply = lend_call_new(c, s, 0, true);
		other = lend_call_new(c, s, 1, true);
		reply->state = other->state = LEND_CALL_REPLYING;
		lend_tx_begin(c, s, &reply->tx, 1, 4, false);
		lend_tx_begin(c, s, &other->tx, 1, 4, false);
		reply->tx.next = 1;
		lend_loss_sent(c, s, FIRST, reply, 0);
		lend_loss_sent(c, s, FIRST + row[i].later, other, 0);
		cr_expect_eq(reply->tx.resend, row[i].again, "row %zu: %u later", i, row[i].later);
		free(c);
	}
}

Test(loss, session__peer_reorders__begins_with_its_window_for_10_s)
{
	static const lend_ns pause[] = {LEND_MS, 9900 * LEND_MS, 10100 * LEND_MS};
	struct lend_sess *s;

	for (size_t i = 0; i < 3; i++) {
		c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
		s = lend_sess_at(c, 0);
		lend_reorder_of(c, s)->window = 50000;
		lend_sess_free(c, s);
		c->now += pause[i];
		s = lend_sess_open(c, 0, LEND_SESS_UP);
		cr_expect_eq(lend_reorder_of(c, s)->window,
			     i < 2 ? 50000 / LEND_REORDER_UNIT * LEND_REORDER_UNIT : 0, "row %zu",
			     i);
		free(c);
	}
}

Test(loss, reordering__rounds__the_calmest_one_counts)
{
	static const struct {
		lend_ns extent, skew; /* the largest of a round; the skew after it */
	} row[] = {{9000, 9000}, {12000, 9000}, {4000, 4000}, {20000, 4000}};
	struct lend_sess *s;

	c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
	s = lend_sess_at(c, 0);

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		for (int n = 0; n < 63; n++)
			lend_reorder_note(c, s, n == 7 ? row[i].extent : LEND_US, true);
		cr_expect_eq(c->grants.skew, i ? row[i - 1].skew : 0, "row %zu", i);
		lend_reorder_note(c, s, LEND_US, true);
		cr_expect_eq(c->grants.skew, row[i].skew, "row %zu", i);
	}
	free(c);
}
