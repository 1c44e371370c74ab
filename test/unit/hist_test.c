/* Goal: lend_hist gives every quantile within 1 %, and min, max and count exactly, for any values.
 * Method: edges by hand, then values of every magnitude under seeds against a sorted array, and
 * merged halves against the whole. Covers: src/util/hist.c */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/hist.h"
#include "util/rng.h"

static struct lend_hist all, half[2];

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool is_near(uint64_t got, uint64_t want)
{
	uint64_t off = got > want ? got - want : want - got;

	return off <= want / 100;
}

Test(hist, empty_is_zero)
{
	lend_hist_init(&all);
	cr_assert_eq(all.count, 0);
	cr_assert_eq(lend_hist_quantile(&all, 0.5), 0);
	cr_assert_eq(lend_hist_min(&all), 0);
	cr_assert_eq(lend_hist_max(&all), 0);
	cr_assert_float_eq(lend_hist_mean(&all), 0, 0);
}

Test(hist, edges)
{
	static const uint64_t value[] = {0,         1, 127, 128, 129, UINT32_MAX, UINT64_MAX - 1,
					 UINT64_MAX};

	for (size_t i = 0; i < sizeof(value) / sizeof(value[0]); i++) {
		lend_hist_init(&all);
		lend_hist_add(&all, value[i]);
		cr_assert_eq(lend_hist_quantile(&all, 0.5), value[i], "value %zu", i);
		cr_assert_eq(lend_hist_min(&all), value[i]);
		cr_assert_eq(lend_hist_max(&all), value[i]);
	}
	cr_assert_eq(lend_hist_index(UINT64_MAX), LEND_HIST_BUCKETS - 1);
	cr_assert_eq(lend_hist_index(127), 127);
	cr_assert_eq(lend_hist_index(128), 128);
}

Test(hist, quantile_out_of_range_is_an_end)
{
	lend_hist_init(&all);
	for (uint64_t v = 10; v <= 30; v += 10)
		lend_hist_add(&all, v);
	cr_assert_eq(lend_hist_quantile(&all, -1), 10);
	cr_assert_eq(lend_hist_quantile(&all, 0.0 / 1.0), 10);
	cr_assert_eq(lend_hist_quantile(&all, 2), 30);
	cr_assert_eq(lend_hist_quantile(&all, 0.5), 20);
	cr_assert_float_eq(lend_hist_mean(&all), 20, 1e-9);
}

/* Any magnitude: a few random bits, shifted by a random amount. */
static uint64_t any_value(struct lend_rng *rng)
{
	return lend_rng_next(rng) >> lend_rng_below(rng, 64);
}

Test(hist, agrees_with_a_sorted_array)
{
	static const double q[] = {0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
	static uint64_t value[5000];

	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct lend_rng rng;
		size_t n;

		lend_rng_seed(&rng, seed);
		n = 1 + lend_rng_below(&rng, 5000);
		lend_hist_init(&all);
		lend_hist_init(&half[0]);
		lend_hist_init(&half[1]);
		for (size_t i = 0; i < n; i++) {
			value[i] = any_value(&rng);
			lend_hist_add(&all, value[i]);
			lend_hist_add(&half[i & 1], value[i]);
		}
		qsort(value, n, sizeof(value[0]), by_value);
		for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
			double exact = q[i] * (double)n;
			size_t rank = (size_t)exact + ((double)(size_t)exact < exact);
			uint64_t want = value[rank ? rank - 1 : 0];

			cr_assert(is_near(lend_hist_quantile(&all, q[i]), want), "seed %lu q %g",
				  seed, q[i]);
		}
		lend_hist_merge(&half[0], &half[1]);
		cr_assert_eq(half[0].count, n);
		cr_assert_eq(lend_hist_min(&half[0]), value[0]);
		cr_assert_eq(lend_hist_max(&half[0]), value[n - 1]);
		cr_assert_arr_eq(half[0].bucket, all.bucket, sizeof(all.bucket), "seed %lu", seed);
	}
}
