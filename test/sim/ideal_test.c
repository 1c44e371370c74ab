/* Goal: the ideal schedule is computed as documented, because all slowdowns are compared with it.
 * Method: cases that can be solved by hand, then a naive version that decides again at each tick,
 * under seeds.
 * Covers: test/sim/experiments/ideal.c */
#include "sim/experiments/ideal.h"

#include <criterion/criterion.h>

#include "util/rng.h"

Test(ideal, by_hand)
{
	struct ideal_message one[] = {{5, 10, 0, 1, 0}};
	/* The short message preempts the long one, which then continues. */
	struct ideal_message stop[] = {{0, 100, 0, 2, 0}, {10, 20, 1, 2, 0}};
	/* A message that needs longer than the rest of the running one waits; another pair of hosts
	 * is not affected. */
	struct ideal_message wait[] = {{0, 100, 0, 2, 0}, {90, 20, 1, 2, 0}, {90, 7, 3, 0, 0}};
	/* A sender has one link, as a receiver has. */
	struct ideal_message send[] = {{0, 30, 0, 1, 0}, {0, 20, 0, 2, 0}, {0, 10, 0, 3, 0}};

	ideal_run(one, 1, 2);
	cr_assert_float_eq(one[0].done, 15, 1e-6);
	ideal_run(stop, 2, 3);
	cr_assert_float_eq(stop[1].done, 30, 1e-6);
	cr_assert_float_eq(stop[0].done, 120, 1e-6);
	ideal_run(wait, 3, 4);
	cr_assert_float_eq(wait[0].done, 100, 1e-6);
	cr_assert_float_eq(wait[1].done, 120, 1e-6);
	cr_assert_float_eq(wait[2].done, 97, 1e-6);
	ideal_run(send, 3, 4);
	cr_assert_float_eq(send[2].done, 10, 1e-6);
	cr_assert_float_eq(send[1].done, 30, 1e-6);
	cr_assert_float_eq(send[0].done, 60, 1e-6);
}

enum { N = 40, HOSTS = 5 };

/* In each tick of 1 the message with the least remaining time goes first. All times are odd
 * fractions of a tick, which avoids ties. */
static double naive_time(const struct ideal_message *m)
{
	double left[N], sum = 0;
	uint32_t ended = 0;

	for (int i = 0; i < N; i++)
		left[i] = m[i].need;
	for (double now = 0; ended < N; now += 1) {
		bool sends[HOSTS] = {0}, receives[HOSTS] = {0}, looked[N] = {0};

		for (int round = 0; round < N; round++) {
			int best = -1;

			for (int i = 0; i < N; i++)
				if (!looked[i] && left[i] > 0 && m[i].at <= now &&
				    (best < 0 || left[i] < left[best]))
					best = i;
			if (best < 0)
				break;
			looked[best] = true;
			if (sends[m[best].from] || receives[m[best].to])
				continue;
			sends[m[best].from] = receives[m[best].to] = true;
			left[best] -= 1;
			if (left[best] <= 0) {
				sum += now + 1 + left[best] - m[best].at;
				ended++;
			}
		}
	}
	return sum;
}

Test(ideal, equals_a_naive_schedule)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct ideal_message m[N];
		struct lend_rng rng;
		double sum = 0, want, at = 0;

		lend_rng_seed(&rng, seed);
		for (int i = 0; i < N; i++) {
			at += (double)lend_rng_below(&rng, 300);
			m[i].at = at;
			m[i].need = (double)(1 + lend_rng_below(&rng, 2000)) - i / 64.0;
			m[i].from = (uint32_t)lend_rng_below(&rng, HOSTS);
			m[i].to =
			    (m[i].from + 1 + (uint32_t)lend_rng_below(&rng, HOSTS - 1)) % HOSTS;
		}
		want = naive_time(m);
		ideal_run(m, N, HOSTS);
		for (int i = 0; i < N; i++) {
			cr_assert_geq(m[i].done - m[i].at, m[i].need - 1e-6);
			sum += m[i].done - m[i].at;
		}
		cr_assert_float_eq(sum, want, 0.01 * want, "seed %llu: %.1f, not %.1f",
				   (unsigned long long)seed, sum, want);
	}
}
