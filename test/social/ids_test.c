/* Goal: ids are unique and grow, also when the clock goes back or a millisecond is used up.
 * Method: a table of clocks, then random clocks. Covers: apps/social/ids.c */
#include <criterion/criterion.h>
#include <stdio.h>

#include "apps/social/ids.h"
#include "util/rng.h"

static const uint64_t day_one = SOCIAL_IDS_EPOCH + 1;

Test(ids, layout__first_id__fields)
{
	struct social_ids ids = {.machine = 0x7ff};

	cr_assert_eq(social_ids_next(&ids, day_one), (INT64_C(0x7ff) << 52) | 1 << 12);
	cr_assert_eq(social_ids_next(&ids, day_one), (INT64_C(0x7ff) << 52) | 1 << 12 | 1);
	cr_assert_eq(social_ids_next(&ids, day_one + 1), (INT64_C(0x7ff) << 52) | 2 << 12);
}

Test(ids, clock__goes_back__last_ms_is_used)
{
	struct social_ids ids = {.machine = 1};
	int64_t last = social_ids_next(&ids, day_one + 10);

	cr_assert_eq(social_ids_next(&ids, day_one), last + 1);
}

Test(ids, millisecond__used_up__next_is_borrowed)
{
	struct social_ids ids = {.machine = 1};
	int64_t last = 0, id = 0;

	for (int i = 0; i < 4097; i++) {
		last = id;
		id = social_ids_next(&ids, day_one);
	}
	cr_assert_eq(id, last + 1);
	cr_assert_eq(id & 4095, 0);
	cr_assert_eq(social_ids_next(&ids, day_one + 1), id + 1,
		     "the borrowed one is not used twice");
}

Test(ids, random_clock__any_steps__ids_grow)
{
	const uint64_t seed = 24;
	struct social_ids ids = {.machine = 5};
	struct lend_rng rng;
	uint64_t now = day_one + 1000000;
	int64_t last = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	lend_rng_seed(&rng, seed);
	for (int i = 0; i < 300000; i++) {
		int64_t id;

		if (!lend_rng_below(&rng, 2000))
			now += lend_rng_below(&rng, 5) - 2;
		id = social_ids_next(&ids, now);
		cr_assert_gt(id, last);
		last = id;
	}
}
