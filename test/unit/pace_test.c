/* Goal: a session on the pacing wheel fires when its time has come: never early, and at most two
 * slots late, even if the clock jumps or the wait exceeds one revolution. Method: a table of waits,
 * then seeded histories against a naive model that searches an array. Covers: src/core/pace.c */
#include "core/pace.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/rng.h"
#include "wheelkit.h"

enum { SESSIONS = WHEEL_SESSIONS, SLOT = 1024, TURN = 1024 * SLOT };

static struct lend_core *c;

static void open_core(lend_ns now)
{
	c = wheel_open(LEND_CC_SWIFT, now);
}

static void wait_until(uint32_t i, lend_ns at)
{
	lend_sess_at(c, i)->pace = at;
	lend_pace_add(c, lend_sess_at(c, i));
}

static bool is_waiting(uint32_t i)
{
	return lend_sess_at(c, i)->paced.in;
}

/* How late the wheel fires when it is polled at each deadline that it reports. */
static lend_ns lateness(lend_ns now, lend_ns wait)
{
	open_core(now);
	c->now = now;
	wait_until(0, now + wait);
	while (is_waiting(0)) {
		lend_ns at = lend_pace_next(c);

		cr_assert_neq(at, LEND_NEVER);
		c->now = at > c->now ? at : c->now;
		lend_pace_fire(c);
	}
	cr_assert_eq(lend_pace_next(c), LEND_NEVER);
	wait = c->now - (now + wait);
	free(c);
	return wait;
}

Test(pace, is_never_early_and_hardly_late)
{
	static const lend_ns wait[] = {1,    SLOT - 1, SLOT,     SLOT + 1, TURN - 1,
				       TURN, TURN + 1, 3 * TURN, 99999,    LEND_CC_GAP_MAX};

	for (size_t i = 0; i < sizeof(wait) / sizeof(wait[0]); i++)
		for (lend_ns now = LEND_MS; now < LEND_MS + 3 * SLOT; now += 511)
			cr_expect_leq(lateness(now, wait[i]), 2 * SLOT, "%llu from %llu",
				      (unsigned long long)wait[i], (unsigned long long)now);
}

/* Sessions leave at ticks only, and then all that are due. */
static void check_fired(const lend_ns *due, uint64_t seed)
{
	lend_ns first = LEND_NEVER, next = lend_pace_next(c);

	for (uint32_t i = 0; i < SESSIONS; i++) {
		bool want = due[i] != LEND_NEVER;

		cr_assert(!is_waiting(i) || want, "seed %llu: %u waits for nothing",
			  (unsigned long long)seed, i);
		cr_assert(is_waiting(i) || !want || due[i] <= c->now, "seed %llu: %u is early",
			  (unsigned long long)seed, i);
		cr_assert(!is_waiting(i) || due[i] + 2 * SLOT > c->now, "seed %llu: %u is late",
			  (unsigned long long)seed, i);
		if (is_waiting(i) && due[i] < first)
			first = due[i];
	}
	cr_assert_eq(next == LEND_NEVER, first == LEND_NEVER);
	cr_assert(first == LEND_NEVER || next <= first + 2 * SLOT);
}

static void run_history(uint64_t seed)
{
	lend_ns due[SESSIONS];
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	open_core(lend_rng_below(&rng, 1 << 30));
	for (uint32_t i = 0; i < SESSIONS; i++)
		due[i] = LEND_NEVER;
	for (int step = 0; step < 2000; step++) {
		uint32_t i = (uint32_t)lend_rng_below(&rng, SESSIONS);

		switch (lend_rng_below(&rng, 4)) {
		case 0:
			lend_pace_remove(c, lend_sess_at(c, i));
			due[i] = LEND_NEVER;
			break;
		case 1:
		case 2:
			if (is_waiting(i))
				break;
			due[i] = c->now + 1 + lend_rng_below(&rng, step % 2 ? 9000 : 4 * TURN);
			wait_until(i, due[i]);
			break;
		default:
			c->now += lend_rng_below(&rng, step % 50 ? 20000 : 9 * TURN);
			lend_pace_fire(c);
			check_fired(due, seed);
			for (i = 0; i < SESSIONS; i++)
				if (!is_waiting(i))
					due[i] = LEND_NEVER;
		}
	}
	free(c);
}

Test(pace, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		run_history(seed);
}
