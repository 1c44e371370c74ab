/* Goal: an endpoint spins through short waits and sleeps before long ones. It adapts quickly to
 * short waits and slowly to long ones, and never spins beyond its limit. If most spins end with a
 * sleep, few waits spin. Next to threads that compute it rarely yields the core, and yields again
 * soon after they end. Method: a table of repeated waits, a change of length, then random waits
 * under seeds; for the credit, a table of histories and many waits of one length; for the core, a
 * table of histories, and long histories of a core that is shared for a time. Covers:
 * src/rpc/adaptive_spin.h */
#include <criterion/criterion.h>

#include "rpc/adaptive_spin.h"
#include "util/rng.h"

static lend_ns after(lend_ns spin, lend_ns waited, int times)
{
	while (times-- > 0)
		spin = lend_spin_adapt(spin, waited);
	return spin;
}

Test(adaptive_spin, settles)
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

Test(adaptive_spin, one_short_wait_is_enough_and_one_long_one_is_not)
{
	lend_ns spin = after(LEND_SPIN_NS, LEND_NEVER, 200);

	cr_assert_eq(lend_spin_adapt(spin, 30000), 60000);
	cr_assert_geq(lend_spin_adapt(60000, LEND_NEVER), 50000);
	cr_assert_leq(after(60000, LEND_NEVER, 20), 10000);
}

/* After any wait the spin is within bounds, and covers another wait of the same length if the limit
 * allows. */
Test(adaptive_spin, any_waits)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_rng rng;
		lend_ns spin = LEND_SPIN_NS;

		lend_rng_seed(&rng, seed);
		for (int i = 0; i < 1000; i++) {
			lend_ns waited = lend_rng_next(&rng) >> lend_rng_below(&rng, 64);

			spin = lend_spin_adapt(spin, waited);
			cr_assert(spin >= LEND_SPIN_MIN_NS && spin <= LEND_SPIN_MAX_NS, "seed %lu",
				  seed);
			cr_assert(waited > LEND_SPIN_MAX_NS || spin >= waited, "seed %lu", seed);
		}
	}
}

/* Spins in order: 's' slept after 100 us, 'm' after the minimum; 'w' worked after 40 us, 'l' after
 * 80 us, '.' at once. */
static struct lend_spin_credit after_spins(const char *spins)
{
	struct lend_spin_credit c;

	lend_spin_credit_init(&c);
	for (; *spins; spins++) {
		if (*spins == 's' || *spins == 'm')
			lend_spin_credit_slept(&c, *spins == 's' ? 100000 : LEND_SPIN_MIN_NS);
		else
			lend_spin_credit_worked(&c, *spins == 'w'   ? 40000
						    : *spins == 'l' ? 80000
								    : LEND_SPIN_MIN_NS);
	}
	return c;
}

Test(adaptive_spin, credit__spins_end_with_sleeps__spins_less)
{
	static const struct {
		const char *spins;
		lend_ns left;
		uint32_t skip, next;
	} cases[] = {
	    {"", 200000, 0, 8},
	    {"wwwwwwww", 200000, 0, 8},
	    {"........", 200000, 0, 8},
	    {"s", 105000, 0, 8},
	    {"sw", 110000, 0, 8},
	    {"s.", 105000, 0, 8},
	    {"ss", 10000, 0, 8},
	    {"sm", 105000, 0, 8},
	    {"sss", 200000, 8, 16},
	    {"llllllll", 200000, 8, 16},
	    {"ssswl.", 200000, 8, 16},
	    {"sssssssssss", 200000, 0, 16},
	    {"sssssssssssw", 200000, 0, 8},
	    {"sssssssssss.", 200000, 0, 16},
	    {"sssmmmmmmmmm", 200000, 0, 16},
	    {"ssssssssssssss", 200000, 16, 32},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lend_spin_credit c = after_spins(cases[i].spins);

		cr_assert_eq(c.left, cases[i].left, "%zu: %lu", i, c.left);
		cr_assert_eq(c.skip, cases[i].skip, "%zu: %u", i, c.skip);
		cr_assert_eq(c.next, cases[i].next, "%zu: %u", i, c.next);
	}
}

/* Waits of one length, each with a spin that covers it if the length allows. Returns how many spun
 * longer than the minimum. */
static uint32_t spin_for(lend_ns wait, uint32_t waits)
{
	struct lend_contention alone;
	struct lend_spin_credit c;
	uint32_t spun = 0;

	lend_contention_init(&alone);
	lend_spin_credit_init(&c);
	while (waits-- > 0) {
		lend_ns limit = lend_spin_limit(&alone, &c, LEND_SPIN_MAX_NS);

		spun += limit > LEND_SPIN_MIN_NS;
		if (wait < limit)
			lend_spin_credit_worked(&c, wait);
		else
			lend_spin_credit_slept(&c, limit);
	}
	return spun;
}

Test(adaptive_spin, waits_shorter_than_a_sleep_is_dear_always_spin)
{
	cr_assert_eq(spin_for(6000, 100000), 100000);
	cr_assert_eq(spin_for(LEND_SLEEP_COST_NS, 100000), 100000);
	cr_assert_leq(spin_for(70000, 100000), 100000 / 10);
	cr_assert_leq(spin_for(LEND_SPIN_MAX_NS, 100000), 100000 / 50);
	cr_assert_geq(spin_for(LEND_SPIN_MAX_NS, 100000), 100000 / LEND_UNPAID_MAX);
}

/* Yields that give the core to others for 30 us each are no reason to sleep. */
Test(adaptive_spin, time_of_other_threads_is_free)
{
	struct lend_spin_credit c;
	lend_ns spun = 0;

	lend_spin_credit_init(&c);
	for (int poll = 0; poll < 10; poll++)
		spun = lend_spin_polled(spun, 30000);
	cr_assert_eq(spun, 10 * LEND_POLL_NS);
	cr_assert_eq(lend_spin_polled(0, 1000), 1000);
	for (int wait = 0; wait < 100; wait++)
		lend_spin_credit_worked(&c, spun);
	cr_assert_eq(c.skip, 0);
}

static lend_ns spin_next_to(const struct lend_contention *c, lend_ns spin)
{
	struct lend_spin_credit full;

	lend_spin_credit_init(&full);
	return lend_spin_limit(c, &full, spin);
}

/* Waits in order: 'L' lost the core, '.' did not. */
static struct lend_contention after_waits(const char *waits)
{
	struct lend_contention c;

	lend_contention_init(&c);
	for (; *waits; waits++) {
		if (*waits == 'L')
			lend_contention_lost(&c);
		else
			lend_contention_waited(&c);
	}
	return c;
}

Test(adaptive_spin, yield__core_lost__yields_less)
{
	static const struct {
		const char *waits;
		lend_ns spin, want;
		uint32_t next;
	} cases[] = {
	    {"", 80000, 80000, 8},
	    {"........", 80000, 80000, 8},
	    {"L", 80000, LEND_SPIN_MIN_NS, 16},
	    {"L", LEND_SPIN_MIN_NS, LEND_SPIN_MIN_NS, 16},
	    {"L.......", 80000, LEND_SPIN_MIN_NS, 16},
	    {"L........", 80000, 80000, 16},
	    {"L.........", 80000, 80000, 14},
	    {"L........L", 80000, LEND_SPIN_MIN_NS, 32},
	    {"L........L...............", 80000, LEND_SPIN_MIN_NS, 32},
	    {"L........L................", 80000, 80000, 32},
	    {"LLLLLLLLLLLL", 80000, LEND_SPIN_MIN_NS, 1024},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lend_contention c = after_waits(cases[i].waits);

		cr_assert_eq(spin_next_to(&c, cases[i].spin), cases[i].want, "%zu", i);
		cr_assert_eq(c.next, cases[i].next, "%zu: %u", i, c.next);
	}
}

/* The kernel's count of context switches never falls, and each loss counts once. */
Test(adaptive_spin, a_switch_is_one_loss)
{
	static const struct {
		long switches;
		bool lost;
		uint32_t next;
	} look[] = {{0, false, 8},  {3, true, 16}, {3, false, 16},
		    {3, false, 16}, {4, true, 32}, {4, false, 32}};
	struct lend_contention c;

	lend_contention_init(&c);
	for (size_t i = 0; i < sizeof(look) / sizeof(look[0]); i++) {
		cr_assert_eq(lend_contention_switched(&c, look[i].switches), look[i].lost, "%zu",
			     i);
		cr_assert_eq(c.next, look[i].next, "%zu: %u", i, c.next);
	}
}

/* One wait; on a core that another thread shares, each yield loses the core. */
static bool wait_once(struct lend_contention *c, bool shared)
{
	bool loses = shared && !c->skip;

	if (loses)
		lend_contention_lost(c);
	else
		lend_contention_waited(c);
	return loses;
}

Test(adaptive_spin, a_shared_core_is_lost_once_in_a_thousand_waits)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_contention c;
		struct lend_rng rng;
		uint32_t lost = 0, alone;

		lend_rng_seed(&rng, seed);
		lend_contention_init(&c);
		for (uint32_t n = lend_rng_below(&rng, 5000); n > 0; n--)
			(void)wait_once(&c, lend_rng_below(&rng, 2));
		for (int i = 0; i < 3 * LEND_SKIP_MAX; i++)
			(void)wait_once(&c, true);
		for (int i = 0; i < 100000; i++)
			lost += wait_once(&c, true);
		cr_assert_leq(lost, 100000 / LEND_SKIP_MAX + 1, "seed %lu", seed);
		for (alone = 0; c.skip; alone++)
			(void)wait_once(&c, false);
		cr_assert_leq(alone, LEND_SKIP_MAX, "seed %lu", seed);
		for (int i = 0; i < 100; i++)
			(void)wait_once(&c, false);
		cr_assert(c.next < 2 * LEND_SKIP_MIN && spin_next_to(&c, 80000) == 80000,
			  "seed %lu: %u", seed, c.next);
	}
}
