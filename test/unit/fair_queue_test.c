/* Goal: a flow with many operations gets no more of a node than a flow with few. No flow starves,
 * order is kept within one process, and a lone flow is not held back, and not charged for it later.
 * Method: flows with scripted operations; rounds are counted and costs are summed. Covers:
 * mn/fair_queue.c */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "mn/fair_queue.h"
#include "util/rng.h"

struct work {
	struct mn_wait link;
	uint64_t cost;
	uint32_t flow, number;
};
enum { FLOWS = 8 };
static struct mn_fair fair;
static struct mn_flow flow[FLOWS];
static uint64_t done[FLOWS]; /* cost of the operations that ran */
static uint32_t arrived[FLOWS], ran[FLOWS], dropped;

static void setup(void)
{
	mn_fair_open(&fair);
	for (int i = 0; i < FLOWS; i++)
		mn_flow_open(&flow[i]);
}

static uint64_t run(struct mn_wait *wait, void *arg)
{
	struct work *w = (struct work *)(void *)wait;
	uint64_t cost = w->cost;

	(void)arg;
	cr_assert_eq(w->number, ran[w->flow], "order within a process");
	ran[w->flow]++;
	done[w->flow] += cost;
	free(w);
	return cost;
}

static void drop(struct mn_wait *wait, void *arg)
{
	(void)arg;
	dropped++;
	free(wait);
}

/* True: the operation ran at once. */
static bool ask(uint32_t i, uint64_t cost)
{
	struct work *w = malloc(sizeof(*w));

	*w = (struct work){.cost = cost, .flow = i, .number = arrived[i]++};
	if (!mn_fair_may(&fair, &flow[i])) {
		mn_fair_wait(&fair, &flow[i], &w->link);
		return false;
	}
	mn_fair_charge(&flow[i], run(&w->link, NULL));
	return true;
}

static void turn(void)
{
	mn_fair_round(&fair, run, NULL);
}

TestSuite(fair_queue, .init = setup);

Test(fair_queue, fair__single_flow__is_not_held_back)
{
	for (int i = 0; i < 1000; i++) {
		cr_assert(ask(0, 8 << 20));
		if (i % 10 == 0)
			turn();
	}
	/* The work it did while it was alone is not charged now. */
	turn();
	cr_assert(ask(1, 4096));
	cr_assert(ask(0, 4096));
}

Test(fair_queue, fair__backlogged_flow__gets_half)
{
	for (int r = 0; r < 2000; r++) {
		for (int i = 0; i < 64; i++)
			ask(0, 64 << 10);
		ask(1, MN_FAIR_QUANTUM);
		turn();
	}
	cr_assert_lt(done[0], done[1] * 21 / 20 + (1 << 23));
	cr_assert_gt(ran[1], 1990, "%u", ran[1]);
	mn_flow_close(&fair, &flow[0], drop, NULL);
	mn_flow_close(&fair, &flow[1], drop, NULL);
	cr_assert_eq(dropped, arrived[0] + arrived[1] - ran[0] - ran[1]);
	cr_assert_not(mn_fair_waits(&fair));
}

/* With hundreds of sessions, a flow has operations in some rounds only: it is active in between. */
Test(fair_queue, fair__rarely_polled_flow__keeps_its_share)
{
	enum { ROUNDS = 4000, EACH = MN_FAIR_QUANTUM / MN_FAIR_OPERATION };
	int r;

	for (r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < 2 * EACH; i++)
			ask(0, MN_FAIR_OPERATION);
		if (r % (MN_FAIR_MEMORY - 1) == 0)
			cr_assert(ask(1, MN_FAIR_OPERATION));
		turn();
	}
	cr_assert_leq(ran[0], (ROUNDS + 2) * EACH, "%u", ran[0]);
	mn_flow_close(&fair, &flow[0], drop, NULL);
	mn_flow_open(&flow[0]);
	arrived[0] = ran[0] = 0;
	for (r = 0; r < MN_FAIR_MEMORY; r++) {
		ask(0, 1);
		turn();
	}
	for (r = 0; r < 1000; r++)
		cr_assert(ask(0, 8 << 20), "the other flow is idle");
}

Test(fair_queue, one_with_little_runs_at_once)
{
	for (int r = 0; r < 1000; r++) {
		for (int i = 0; i < 64; i++)
			ask(0, 64 << 10);
		if (r)
			cr_assert(ask(1, 6144), "round %d", r);
		turn();
	}
	mn_flow_close(&fair, &flow[0], drop, NULL);
}

Test(fair_queue, sizes_do_not_matter)
{
	static const uint64_t size[] = {2100, 6000, 70000, 1 << 20, 8 << 20};
	uint64_t least = UINT64_MAX, most = 0;

	for (uint32_t f = 0; f < 5; f++)
		ask(f, size[f]); /* keep every flow backlogged */
	for (uint32_t f = 0; f < 5; f++)
		for (uint64_t n = 0; n < (UINT64_C(1) << 30) / size[f]; n++)
			ask(f, size[f]);
	for (int r = 0; r < 4000; r++)
		turn();
	for (uint32_t f = 0; f < 5; f++) {
		least = done[f] < least ? done[f] : least;
		most = done[f] > most ? done[f] : most;
		mn_flow_close(&fair, &flow[f], drop, NULL);
	}
	cr_assert_lt(most - least, 2 * (8 << 20) + 2 * MN_FAIR_QUANTUM, "%llu to %llu",
		     (unsigned long long)least, (unsigned long long)most);
}

Test(fair_queue, fair__any_order__all_operations_end)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct lend_rng rng;

		lend_rng_seed(&rng, seed);
		for (int i = 0; i < 3000; i++)
			if (lend_rng_below(&rng, 10))
				ask((uint32_t)lend_rng_below(&rng, FLOWS),
				    1 + lend_rng_below(&rng, 1 << 20));
			else
				turn();
		for (int i = 0; mn_fair_waits(&fair); i++) {
			cr_assert_lt(i, 20000, "seed %llu", (unsigned long long)seed);
			turn();
		}
		for (int i = 0; i < FLOWS; i++)
			cr_assert_eq(ran[i], arrived[i], "seed %llu", (unsigned long long)seed);
	}
}
