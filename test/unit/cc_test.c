/* Goal: each congestion control algorithm slows down on its own signals only, recovers, and keeps
 * window and gap within their bounds for any input. Method: a table of single reports; a bottleneck
 * with a delay that follows from the window, where each algorithm must settle; then random reports
 * with delays of 0 and of a minute, clocks that jump and more ECN marks than datagrams. Covers:
 * src/core/cc.c, src/core/cc_timely.c, src/core/cc_swift.c, src/core/cc_dctcp.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/cc.h"
#include "util/rng.h"

enum { TRIP = 20000 };

static struct lend_cc_report make_report(lend_ns rtt, uint32_t seen, uint32_t marked, uint32_t lost)
{
	static uint64_t number;

	number += 1000;
	return (struct lend_cc_report){.now = number * 1000,
				       .rtt = rtt,
				       .acked = number,
				       .next = number + 500,
				       .seen = seen,
				       .marked = marked,
				       .lost = lost,
				       .payload = 1376};
}

Test(cc, names)
{
	for (unsigned i = 0; i < LEND_CC_KINDS; i++)
		cr_assert_eq(lend_cc_named(lend_cc_name((enum lend_cc)i)), i);
	cr_assert_eq(lend_cc_named("nones"), LEND_CC_KINDS);
	cr_assert_eq(lend_cc_named("non"), LEND_CC_KINDS);
	cr_assert_eq(lend_cc_named(""), LEND_CC_KINDS);
}

/* After ten empty round trips, one report: slower (-1), unchanged (0) or faster (1)? */
Test(cc, report__signal__slows_down_or_not)
{
	static const struct {
		enum lend_cc cc;
		lend_ns rtt;
		uint32_t marked, lost;
		int want;
	} row[] = {
	    {LEND_CC_NONE, 60000000, 8, 8, 0},
	    {LEND_CC_TIMELY, TRIP, 0, 0, 0}, /* at the full rate already */
	    {LEND_CC_TIMELY, 2000000, 0, 0, -1},
	    {LEND_CC_TIMELY, TRIP, 8, 0, 0},
	    {LEND_CC_SWIFT, TRIP, 0, 0, 1},
	    {LEND_CC_SWIFT, TRIP + 14000, 0, 0, 1}, /* a short queue counts as none */
	    {LEND_CC_SWIFT, 500000, 0, 0, -1},
	    {LEND_CC_SWIFT, TRIP, 0, 1, -1},
	    {LEND_CC_DCTCP, TRIP, 0, 0, 1},
	    {LEND_CC_DCTCP, 500000, 0, 0, 1}, /* DCTCP ignores delay */
	    {LEND_CC_DCTCP, TRIP, 1, 0, -1},
	    {LEND_CC_DCTCP, TRIP, 0, 1, -1},
	    {LEND_CC_CREDIT, TRIP, 0, 0, 0},
	    {LEND_CC_CREDIT, TRIP, 8, 0, -1},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_cc_report r = make_report(TRIP, 1, 0, 0);
		struct lend_cc_state s;
		int64_t before, after;

		lend_cc_open(&s, row[i].cc, 0);
		for (int k = 0; k < 10; k++) {
			r = make_report(TRIP, 1, 0, 0);
			lend_cc_report(&s, row[i].cc, &r);
		}
		before = (int64_t)s.window - s.gap;
		r = make_report(row[i].rtt, 8, row[i].marked, row[i].lost);
		lend_cc_report(&s, row[i].cc, &r);
		after = (int64_t)s.window - s.gap;
		cr_expect_eq((after > before) - (after < before), row[i].want,
			     "row %zu: %lld, %lld", i, (long long)before, (long long)after);
	}
}

/* One sender, a bottleneck that takes a datagram per `each` ns, a base RTT of TRIP: the queue holds
 * what is in flight beyond the base RTT. */
static struct lend_cc_state run_until_settled(enum lend_cc cc, uint32_t each, uint32_t mark,
					      uint32_t *queue)
{
	struct lend_cc_state s;
	struct lend_cc_report r;
	uint64_t number = 0;
	lend_ns now = 0;

	lend_cc_open(&s, cc, 0);
	for (int i = 0; i < 3000; i++) {
		uint32_t flight = lend_cc_window(&s), way = TRIP / each, trip;

		*queue = flight > way ? flight - way : 0;
		trip = TRIP + *queue * each;
		if (s.gap > each) {
			trip = TRIP;
			*queue = 0;
			flight = 1 + TRIP / s.gap;
		}
		now += trip;
		number += flight;
		r = (struct lend_cc_report){.now = now,
					    .rtt = trip,
					    .acked = number,
					    .next = number + 1,
					    .seen = flight,
					    .marked = *queue > mark ? *queue - mark : 0,
					    .payload = 1376};
		lend_cc_report(&s, cc, &r);
	}
	return s;
}

Test(cc, settles)
{
	struct lend_cc_state s;
	uint32_t queue;

	/* At 100 Gb/s a datagram takes 115 ns, so 173 fit into the base RTT; at 10 Gb/s it takes
	 * 1,150 ns, so 17 fit. */
	s = run_until_settled(LEND_CC_SWIFT, 1150, 0, &queue);
	cr_assert(queue >= 2 && queue <= 40, "swift: a queue of %u at 10 Gb/s", queue);
	cr_assert(lend_cc_window(&s) >= 17, "swift: a window of %u", lend_cc_window(&s));
	s = run_until_settled(LEND_CC_DCTCP, 1150, 20, &queue);
	cr_assert(queue >= 5 && queue <= 40, "dctcp: a queue of %u", queue);
	cr_assert(lend_cc_window(&s) >= 17, "dctcp: a window of %u", lend_cc_window(&s));
	s = run_until_settled(LEND_CC_DCTCP, 115, LEND_CC_WINDOW_MAX, &queue);
	cr_assert_eq(lend_cc_window(&s), LEND_CC_WINDOW_MAX, "nothing is marked");
	s = run_until_settled(LEND_CC_TIMELY, 115, 0, &queue);
	cr_assert_eq(s.gap, 0, "timely delays an uncongested sender");
}

/* After the path is empty again, the rate returns to its old value. */
Test(cc, recovers)
{
	static const enum lend_cc all[] = {LEND_CC_SWIFT, LEND_CC_DCTCP, LEND_CC_CREDIT};

	for (size_t i = 0; i < 3; i++) {
		struct lend_cc_report r;
		struct lend_cc_state s;

		lend_cc_open(&s, all[i], 0);
		for (int k = 0; k < 200; k++) {
			r = make_report(3000000, 4, 4, 1);
			lend_cc_report(&s, all[i], &r);
		}
		cr_assert_leq(s.window, 2 * LEND_CC_ONE, "%s", lend_cc_name(all[i]));
		for (int k = 0; k < 2000; k++) {
			r = make_report(TRIP, lend_cc_window(&s), 0, 0);
			lend_cc_report(&s, all[i], &r);
		}
		cr_assert_geq(lend_cc_window(&s), 100, "%s: %u", lend_cc_name(all[i]), s.window);
		cr_assert_eq(s.gap, 0);
	}
}

/* Messages without congestion signals skip the computation, so that they cost next to nothing. */
Test(cc, short_messages_change_nothing_but_the_round_trip)
{
	for (unsigned cc = 0; cc < LEND_CC_KINDS; cc++) {
		struct lend_cc_report r = make_report(TRIP, 8, 0, 0);
		struct lend_cc_state s, want;

		lend_cc_open(&s, (enum lend_cc)cc, 0);
		lend_cc_report(&s, (enum lend_cc)cc, &r);
		want = s;
		want.rtt = 900000;
		for (int i = 0; i < 100; i++) {
			r = make_report(900000, 0, 3, 0);
			lend_cc_report(&s, (enum lend_cc)cc, &r);
		}
		cr_expect_eq(memcmp(&s, &want, sizeof(s)), 0, "%s", lend_cc_name((enum lend_cc)cc));
	}
}

Test(cc, report__random__stays_within_bounds)
{
	static const lend_ns rtts[] = {0,    1,          TRIP,       60000000000, UINT32_MAX,
				       1000, UINT64_MAX, 1000000000, 4294967294,  TRIP + 1};
	struct lend_rng rng;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		enum lend_cc cc = (enum lend_cc)(seed % LEND_CC_KINDS);
		struct lend_cc_state s;
		lend_ns now = 0;

		lend_rng_seed(&rng, seed);
		lend_cc_open(&s, cc, 0);
		for (int i = 0; i < 2000; i++) {
			struct lend_cc_report r;

			now += lend_rng_below(&rng, 10) ? lend_rng_below(&rng, 2 * TRIP)
							: lend_rng_below(&rng, 600000000000);
			r = (struct lend_cc_report){
			    .now = now,
			    .rtt = rtts[lend_rng_below(&rng, 10)],
			    .acked = lend_rng_next(&rng) >> lend_rng_below(&rng, 64),
			    .next = lend_rng_next(&rng) >> lend_rng_below(&rng, 64),
			    .seen = (uint32_t)lend_rng_below(&rng, 66),
			    .marked = (uint32_t)(lend_rng_next(&rng) >> lend_rng_below(&rng, 64)),
			    .lost = (uint32_t)lend_rng_below(&rng, 3),
			    .payload = 128 + (uint32_t)lend_rng_below(&rng, 64000)};
			lend_cc_report(&s, cc, &r);
			cr_assert(lend_cc_window(&s) >= 1 &&
				      lend_cc_window(&s) <= LEND_CC_WINDOW_MAX && s.window > 0 &&
				      s.gap <= LEND_CC_GAP_MAX,
				  "seed %llu, step %d: %s, window %u, gap %u",
				  (unsigned long long)seed, i, lend_cc_name(cc), s.window, s.gap);
		}
	}
}
