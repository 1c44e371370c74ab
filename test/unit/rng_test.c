/* Goal: lend_rng repeats for a seed, differs between seeds, and draws evenly below a limit. Method:
 * the first output of xoshiro256** after splitmix64(0), the numbers of many seeds, and counts of
 * small draws. Covers: src/util/rng.h */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/rng.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

Test(rng, published_numbers)
{
	struct lend_rng zero, rng = {{1, 2, 3, 4}};

	lend_rng_seed(&zero, 0); /* splitmix64's own first outputs */
	cr_assert_eq(zero.s[0], UINT64_C(0xe220a8397b1dcdaf));
	cr_assert_eq(zero.s[1], UINT64_C(0x6e789e6aa1b965f4));
	cr_assert_eq(lend_rng_next(&rng), 11520);
	cr_assert_eq(lend_rng_next(&rng), 0);
	cr_assert_eq(lend_rng_next(&rng), 1509978240);
	cr_assert_eq(lend_rng_next(&rng), UINT64_C(1215971899390074240));
}

Test(rng, numbers_are_distinct_across_seeds_and_repeat)
{
	static uint64_t drawn[64 * 1000];
	size_t n = 0;

	for (uint64_t seed = 0; seed < 64; seed++) {
		struct lend_rng rng, again;

		lend_rng_seed(&rng, seed);
		lend_rng_seed(&again, seed);
		for (int i = 0; i < 1000; i++) {
			drawn[n] = lend_rng_next(&rng);
			cr_assert_eq(drawn[n++], lend_rng_next(&again), "seed %lu", seed);
		}
	}
	qsort(drawn, n, sizeof(drawn[0]), by_value);
	for (size_t i = 1; i < n; i++)
		cr_assert_neq(drawn[i], drawn[i - 1]);
}

Test(rng, below_is_even_and_below)
{
	struct lend_rng rng;
	uint32_t hits[7] = {0};

	lend_rng_seed(&rng, 1);
	for (int i = 0; i < 70000; i++)
		hits[lend_rng_below(&rng, 7)]++;
	for (int i = 0; i < 7; i++)
		cr_assert(hits[i] > 9500 && hits[i] < 10500, "%d drawn %u times", i, hits[i]);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(lend_rng_below(&rng, 1), 0);
		cr_assert_lt(lend_rng_below(&rng, UINT64_MAX / 2 + 2), UINT64_MAX / 2 + 2);
	}
}

/* A plain remainder would draw the lower third of such a range twice as often. */
Test(rng, below_does_not_favour_small_values)
{
	const uint64_t n = UINT64_C(3) << 62, third = UINT64_C(1) << 62;
	struct lend_rng rng;
	uint32_t low = 0;

	lend_rng_seed(&rng, 2);
	for (int i = 0; i < 30000; i++)
		low += lend_rng_below(&rng, n) < third;
	cr_assert(low > 9500 && low < 10500, "%u of 30000 in the lower third", low);
}
