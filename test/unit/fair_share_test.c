/* Goal: of eight classes the most urgent is next, except that a class which waits is owed its share
 * after a bounded number of others; no class gets more than its share. Method: seeded histories
 * against a naive model that counts in a loop; a counter at its maximum does not wrap. Covers:
 * src/core/fair_share.h */
#include <criterion/criterion.h>

#include "core/fair_share.h"
#include "util/rng.h"

enum { TURN = LEND_SCHED_BURST * LEND_FAIR_UNITS }; /* most units of a turn */

struct model {
	uint32_t passed[8];
	bool waits[8];
};

static uint32_t model_pick(const struct model *m)
{
	uint32_t best = 8;

	for (uint32_t i = 0; i < 8; i++)
		if (m->waits[i] && (best == 8 || m->passed[i] >= LEND_FAIR_SHARE_DUE))
			best = i;
	return best;
}

static bool model_passes(const struct model *m, uint32_t queue)
{
	for (uint32_t i = 0; i < 8; i++)
		if (m->waits[i] && (i <= queue || m->passed[i] >= LEND_FAIR_SHARE_DUE))
			return false;
	return true;
}

static void model_sent(struct model *m, uint32_t queue, uint32_t n)
{
	m->passed[queue] -= m->passed[queue] < n * LEND_FLOOR ? m->passed[queue] : n * LEND_FLOOR;
	for (uint32_t i = queue + 1; i < 8; i++)
		m->passed[i] += m->waits[i] ? n : 0;
}

static void run_history(uint64_t seed)
{
	struct lend_fair_share s = {0};
	struct model m = {0};
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (int step = 0; step < 3000; step++) {
		uint32_t i = (uint32_t)lend_rng_below(&rng, 8), n;

		switch (lend_rng_below(&rng, 4)) {
		case 0:
			m.waits[i] = true;
			lend_fair_share_enter(&s, i);
			break;
		case 1:
			m.waits[i] = seed % 2;
			if (!m.waits[i])
				lend_fair_share_leave(&s, i);
			else
				lend_fair_share_enter(&s, i);
			break;
		default:
			i = s.waiting ? model_pick(&m) : i;
			cr_assert(!s.waiting || lend_fair_share_pick(&s) == i, "seed %llu, step %d",
				  (unsigned long long)seed, step);
			n = 1 + (uint32_t)lend_rng_below(&rng, TURN);
			lend_fair_share_sent(&s, i, n);
			model_sent(&m, i, n);
		}
		for (i = 0; i < 8; i++)
			cr_assert(s.passed[i] == (int)m.passed[i] &&
				      lend_fair_share_may_bypass(&s, i) == model_passes(&m, i),
				  "seed %llu, step %d: %u", (unsigned long long)seed, step, i);
	}
}

Test(fair_share, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_history(seed);
}

Test(fair_share, counter__at_maximum__does_not_wrap)
{
	struct lend_fair_share s = {0};

	lend_fair_share_enter(&s, 7);
	for (int i = 0; i < 100000; i++)
		lend_fair_share_sent(&s, 0, TURN);
	cr_assert_geq(s.passed[7], LEND_FAIR_SHARE_FULL);
	cr_assert_lt(s.passed[7], LEND_FAIR_SHARE_FULL + TURN);
	lend_fair_share_enter(&s, 0);
	cr_assert_eq(lend_fair_share_pick(&s), 7);
}
