/* Goal: urgent calls pause bulk traffic for about as long as such calls take. Slow calls pause
 * nothing, and the pauses never exceed a quarter of the time. Method: a table of repeated calls;
 * then calls of random lengths at random times, with the pauses summed up tick by tick. Covers:
 * src/rpc/bulk_pause.h */
#include <criterion/criterion.h>

#include "rpc/bulk_pause.h"
#include "util/rng.h"

/* A call at this time that completes after `took`. */
static void call(struct lend_bulk_pause *h, lend_ns at, lend_ns took)
{
	lend_bulk_pause_begin(h, at);
	lend_bulk_pause_end(h, at + took);
}

Test(bulk_pause_length, is_as_long_as_calls_take)
{
	static const struct {
		lend_ns took, silence;
	} cases[] = {{800, 1600}, {4000, 8000}, {25000, 50000}, {25400, 0}, {500000, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lend_bulk_pause h = {0};
		lend_ns now = 1000000000;

		for (int k = 0; k < 200; k++, now += 1000000)
			call(&h, now, cases[i].took);
		lend_bulk_pause_begin(&h, now);
		if (cases[i].silence == 0)
			cr_assert_leq(h.until, now, "%zu", i);
		else
			cr_assert_lt(h.until - now - cases[i].silence + 64, 128, "%zu", i);
	}
}

Test(bulk_pause_length, ends_with_the_answer_and_rests)
{
	struct lend_bulk_pause h = {0};
	lend_ns now = 1000000000;

	lend_bulk_pause_begin(&h, now);
	cr_assert_eq(h.until, now + LEND_BULK_PAUSE_MAX_NS);
	lend_bulk_pause_end(&h, now + 2000);
	cr_assert_eq(h.until, now + 2000);
	lend_bulk_pause_begin(&h, now + 7999);
	cr_assert_leq(h.until, now + 7999, "three times as long as the pause");
	lend_bulk_pause_end(&h, now + 7999);
	lend_bulk_pause_begin(&h, now + 8000);
	cr_assert_gt(h.until, now + 8000);
}

/* A call that is still open when the next one begins is not measured. */
Test(bulk_pause_length, is_at_most_a_quarter_of_the_time)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct lend_bulk_pause h = {0};
		struct lend_rng rng;
		lend_ns now = 1000000000, silent = 0, first = now;

		lend_rng_seed(&rng, seed);
		while (now < first + 20000000) {
			lend_ns step = 1 + lend_rng_below(&rng, 4000);

			if (lend_rng_below(&rng, 2))
				lend_bulk_pause_begin(&h, now);
			else if (lend_rng_below(&rng, 2))
				lend_bulk_pause_end(&h, now);
			silent += h.until > now ? lend_min_u64(step, h.until - now) : 0;
			now += step;
		}
		cr_assert_leq(silent, (now - first) / 4 + LEND_BULK_PAUSE_MAX_NS, "seed %llu",
			      (unsigned long long)seed);
		cr_assert_gt(silent, (now - first) / 100, "seed %llu", (unsigned long long)seed);
	}
}
