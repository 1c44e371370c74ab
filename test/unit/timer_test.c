/* Goal: a session's timer fires at its time, not early and not late, however far ahead that is, and
 * the wheel asks to be polled when the first timer is due. Method: a table of times around the
 * edges of slots and levels, then seeded histories against a naive model that searches an array.
 * Covers: src/core/timer.c */
#include "core/timer.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/rng.h"
#include "wheelkit.h"

enum { SESSIONS = WHEEL_SESSIONS, SLOT = 1024 };

static struct lend_core *c;

static void open_core(lend_ns now)
{
	c = wheel_open(LEND_CC_NONE, now);
}

/* How late the timer fires when the wheel is polled at each deadline it reports, and the number of
 * polls. */
static lend_ns lateness(lend_ns now, lend_ns wait, int *turns)
{
	struct lend_sess *s;

	open_core(now);
	lend_timer_set(c, lend_sess_at(c, 0), now + wait);
	for (*turns = 1;; ++*turns) {
		c->now = lend_max_u64(now, lend_timer_next(c));
		cr_assert_neq(c->now, LEND_NEVER);
		s = lend_timer_due(c);
		if (s)
			break;
	}
	cr_assert_eq(s, lend_sess_at(c, 0));
	cr_assert_null(lend_timer_due(c));
	cr_assert_eq(lend_timer_next(c), LEND_NEVER);
	wait = c->now - (now + wait);
	free(c);
	return wait;
}

Test(timer, wakes_on_time_and_once)
{
	static const lend_ns start[] = {
	    0, 1, SLOT - 1, 64 * SLOT - 1, 1000000007, UINT64_C(1) << 50};
	lend_ns wait = 1;
	int turns;

	for (int bit = 0; bit < 62; bit++, wait *= 2)
		for (lend_ns off = 0; off < 3; off++)
			for (size_t i = 0; i < sizeof(start) / sizeof(start[0]); i++) {
				cr_assert_eq(lateness(start[i], wait + off - 1, &turns), 0, "2^%d",
					     bit);
				cr_assert_eq(turns, 1, "2^%d: woken without work", bit);
			}
}

static lend_ns earliest_due(const lend_ns *due)
{
	lend_ns at = LEND_NEVER;

	for (uint32_t i = 0; i < SESSIONS; i++)
		at = lend_min_u64(at, due[i]);
	return at;
}

/* Fires all that is due, each once. */
static void run_due(lend_ns *due, uint64_t seed)
{
	struct lend_sess *s;

	while ((s = lend_timer_due(c))) {
		uint32_t i = lend_sess_index(c, s);

		cr_assert(due[i] <= c->now, "seed %llu: %u is early, or twice",
			  (unsigned long long)seed, i);
		s->timer = due[i] = LEND_NEVER;
	}
	cr_assert(earliest_due(due) > c->now, "seed %llu: somebody is late",
		  (unsigned long long)seed);
}

/* Spans of about the widths of the first six levels. */
static lend_ns draw_span(struct lend_rng *rng)
{
	return lend_rng_below(rng, UINT64_C(1) << (6 + lend_rng_below(rng, 36)));
}

static void run_step(struct lend_rng *rng, lend_ns *due, uint64_t seed)
{
	uint32_t i = (uint32_t)lend_rng_below(rng, SESSIONS);

	switch (lend_rng_below(rng, 8)) {
	case 0:
		due[i] = LEND_NEVER;
		break;
	case 1: /* a time that has passed is due at once */
		due[i] = c->now - lend_min_u64(c->now, lend_rng_below(rng, 3 * SLOT));
		break;
	case 2:
		c->now += draw_span(rng);
		run_due(due, seed);
		return;
	case 3:
		c->now =
		    lend_max_u64(c->now, earliest_due(due) == LEND_NEVER ? 0 : earliest_due(due));
		run_due(due, seed);
		return;
	default:
		due[i] = c->now + draw_span(rng);
	}
	lend_timer_set(c, lend_sess_at(c, i), due[i]);
}

static void run_history(uint64_t seed)
{
	lend_ns due[SESSIONS];
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	open_core(draw_span(&rng));
	for (uint32_t i = 0; i < SESSIONS; i++)
		due[i] = LEND_NEVER;
	for (int n = 0; n < 1000; n++) {
		const char *why;

		run_step(&rng, due, seed);
		why = lend_timer_audit(c);
		cr_assert_null(why, "seed %llu: %s", (unsigned long long)seed, why);
		cr_assert(lend_timer_next(c) <= earliest_due(due), "seed %llu: it sleeps too long",
			  (unsigned long long)seed);
	}
	free(c);
}

Test(timer, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		run_history(seed);
}
