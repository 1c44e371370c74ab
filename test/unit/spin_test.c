/* Goal: an endpoint spins through waits that are short and not before long ones, changes its mind
 * quickly for the former and slowly for the latter, and never spins for longer than it may. Method:
 * a table of waits that repeat, a change of habits, then random waits under seeds. */
#include <criterion/criterion.h>

#include "rpc/spin.h"
#include "util/rng.h"

static lend_ns after(lend_ns spin, lend_ns waited, int times)
{
	while (times-- > 0)
		spin = lend_spin_learn(spin, waited);
	return spin;
}

Test(spin, settles)
{
	static const struct {
		lend_ns waited, want;
	} cases[] = {
	    {0, LEND_SPIN_MIN_NS},
	    {2500, LEND_SPIN_MIN_NS},
	    {2501, 5002},
	    {40000, 80000},
	    {50000, LEND_SPIN_MAX_NS},
	    {50001, LEND_SPIN_MAX_NS},
	    {LEND_SPIN_MAX_NS, LEND_SPIN_MAX_NS},
	    {LEND_SPIN_MAX_NS + 1, LEND_SPIN_MIN_NS},
	    {LEND_NEVER, LEND_SPIN_MIN_NS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(after(LEND_SPIN_NS, cases[i].waited, 200), cases[i].want, "%zu", i);
		cr_assert_eq(after(LEND_SPIN_MAX_NS, cases[i].waited, 200), cases[i].want, "%zu",
			     i);
	}
}

Test(spin, one_short_wait_is_enough_and_one_long_one_is_not)
{
	lend_ns spin = after(LEND_SPIN_NS, LEND_NEVER, 200);

	cr_assert_eq(lend_spin_learn(spin, 30000), 60000);
	cr_assert_geq(lend_spin_learn(60000, LEND_NEVER), 50000);
	cr_assert_leq(after(60000, LEND_NEVER, 20), 10000);
}

/* Whatever came: within bounds, and the next wait like the last one is spun through if it may be.
 */
Test(spin, any_waits)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_rng rng;
		lend_ns spin = LEND_SPIN_NS;

		lend_rng_seed(&rng, seed);
		for (int i = 0; i < 1000; i++) {
			lend_ns waited = lend_rng_next(&rng) >> lend_rng_below(&rng, 64);

			spin = lend_spin_learn(spin, waited);
			cr_assert(spin >= LEND_SPIN_MIN_NS && spin <= LEND_SPIN_MAX_NS, "seed %lu",
				  seed);
			cr_assert(waited > LEND_SPIN_MAX_NS || spin >= waited, "seed %lu", seed);
		}
	}
}
