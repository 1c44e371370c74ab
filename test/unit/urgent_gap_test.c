/* Goal: the next urgent call is expected for twice the longest recent gap between two, within
 * bounds, and long gaps are forgotten while calls come. Method: a table of regular calls; bursts
 * at intervals; a table of how long calls must come after a silence. Covers: src/rpc/urgent_gap.h
 */
#include <criterion/criterion.h>

#include "rpc/urgent_gap.h"

enum { US = 1000, MS = 1000000, FIRST = 1000000000 };

/* Adds n calls with this gap. Returns for how long the next one is expected after the last. */
static lend_ns add_calls(struct lend_urgent_gap *g, lend_ns *now, unsigned n, lend_ns gap)
{
	lend_ns until = *now;

	while (n--) {
		*now += gap;
		until = lend_urgent_gap_add(g, *now);
	}
	return until - *now;
}

Test(urgent_gap, regular_calls__expected_for_twice_the_gap)
{
	static const struct {
		lend_ns gap, expected;
	} cases[] = {{10 * US, 2 * MS}, {100 * US, 2 * MS}, {1500 * US, 3 * MS},
		     {3 * MS, 6 * MS},  {5 * MS, 10 * MS},  {20 * MS, 10 * MS}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lend_urgent_gap g = {0};
		lend_ns now = FIRST;

		cr_assert_eq(add_calls(&g, &now, 10000, cases[i].gap), cases[i].expected, "%zu", i);
	}
}

Test(urgent_gap, first_call__expected_for_the_longest_time)
{
	struct lend_urgent_gap g = {0};
	lend_ns now = FIRST;

	cr_assert_eq(add_calls(&g, &now, 1, 0), 10 * MS);
}

/* The calls of a burst do not hide the gap between bursts. */
Test(urgent_gap, bursts__expected_until_after_the_next_burst)
{
	struct lend_urgent_gap g = {0};
	lend_ns now = FIRST;

	for (int i = 0; i < 100; i++) {
		lend_ns expected;

		add_calls(&g, &now, 1, 3 * MS);
		expected = add_calls(&g, &now, 100, US);
		cr_assert_geq(expected, 5 * MS, "%llu", (unsigned long long)expected);
	}
}

Test(urgent_gap, calls_after_a_silence__forget_it)
{
	struct lend_urgent_gap g = {0};
	lend_ns now = FIRST;

	add_calls(&g, &now, 1, 0);
	cr_assert_gt(add_calls(&g, &now, 50, 100 * US), 10 * MS - MS, "5 ms: still expected");
	cr_assert_eq(add_calls(&g, &now, 350, 100 * US), 2 * MS, "40 ms: forgotten");
}
