/* Goal: message lengths follow the published mixes.
 * Method: known figures of the published distributions (medians, means, longest), both directions
 * of the table, draws under seeds.
 * Covers: test/sim/experiments/mix.c */
#include "sim/experiments/mix.h"

#include <criterion/criterion.h>

static double same_bytes(uint32_t bytes)
{
	return bytes;
}

Test(mix, published_figures_match)
{
	static const struct {
		const char *name;
		uint32_t low, high; /* bounds of the median */
		double mean;        /* as in the authors' files, or the sum of their points */
		uint32_t max;
	} known[] = {{"w1", 25, 30, 170, 100000},
		     {"W2", 256, 270, 440.8, 3529904},
		     {"w3", 3, 4, 1001.3, 12158197},
		     {"w4", 600, 737, 194331, 10000000},
		     {"w5", 44 * 1460, 54 * 1460, 1744.7 * 1460, 29200000}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct mix *m = mix_named(known[i].name);
		double mean;

		cr_assert(m, "%s", known[i].name);
		mean = mix_mean(m, same_bytes);
		cr_assert(mix_quantile(m, 0.5) >= known[i].low &&
			      mix_quantile(m, 0.5) <= known[i].high,
			  "%s: median %u", known[i].name, mix_quantile(m, 0.5));
		cr_assert(mean > 0.85 * known[i].mean && mean < 1.15 * known[i].mean,
			  "%s: mean %.1f, not %.1f", known[i].name, mean, known[i].mean);
		cr_assert_eq(mix_max(m), known[i].max);
	}
	cr_assert_null(mix_named("w6"));
	cr_assert_null(mix_named(""));
}

Test(mix, quantiles_rise_and_draws_follow_them)
{
	static const char *const name[] = {"w1", "w2", "w3", "w4", "w5"};
	enum { DRAWS = 100000 };

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		const struct mix *m = mix_named(name[i]);
		uint32_t last = 0, below[10] = {0};
		struct lend_rng rng;

		cr_assert_str_eq(mix_name(m), name[i]);
		for (int q = 0; q <= 10000; q++) {
			cr_assert_geq(mix_quantile(m, q / 1e4), last, "%s at %d", name[i], q);
			last = mix_quantile(m, q / 1e4);
		}
		lend_rng_seed(&rng, 7 + i);
		for (int k = 0; k < DRAWS; k++) {
			uint32_t bytes = mix_draw(m, &rng);

			cr_assert(bytes >= 1 && bytes <= mix_max(m));
			for (int q = 1; q < 10; q++)
				below[q] += bytes <= mix_quantile(m, q / 10.0);
		}
		/* At least that share, because one point of the table may hold more than a
		 * tenth. */
		for (int q = 1; q < 10; q++)
			cr_assert_gt((int)below[q], DRAWS * q / 10 - 800, "%s below %d0 %%: %u",
				     name[i], q, below[q]);
	}
}
