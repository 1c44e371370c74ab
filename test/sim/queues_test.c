/* Goal: a switch sends urgent datagrams first, keeps the order within a class, and its link is
 * never idle while a datagram waits. With one queue it ignores classes.
 * Method: a call through a full queue, then seeded arrivals compared with a naive model that checks
 * all waiting datagrams.
 * Covers: test/sim/net/net_switch.c */
#include "sim/netkit.h"
#include "util/rng.h"

enum { SENDERS = 3, TO = 3, BYTES = 1000, SOME = 300 };

/* Queue of a class, by class. Class 4 and all below share one, as on networks. */
static const uint8_t place[] = {0, 1, 3, 4, 5, 5, 5, 5};

static void fill_queues(const struct sim_plan *plan)
{
	begin(plan);
	for (uint32_t i = 1; i <= 100; i++) {
		sending = 7;
		send(i % 2, TO, i, BYTES);
	}
	run_until(2000);
	sending = 0;
	send(2, TO, 500, 64);
	run_until(1000000);
}

Test(queues, urgent__overtakes)
{
	struct sim_plan plan = calm();
	lend_ns each = (BYTES + 60) * 80 / 1000;

	plan.queues = 8;
	fill_queues(&plan);
	cr_assert_leq(got.when[500], 2000 + 2 * each + plan.delay_ns);
	cr_assert_geq(got.at, 100 * each + plan.delay_ns, "the others take as long as before");
	finish();
	plan.queues = 1;
	fill_queues(&plan);
	cr_assert_geq(got.when[500], 2000 + 20 * each + plan.delay_ns);
	finish();
}

/* A datagram is not marked for the queue behind it. */
Test(queues, marks__depend_on_the_queue_ahead)
{
	struct sim_plan plan = calm();

	plan.queues = 8;
	plan.mark_kb = 4;
	fill_queues(&plan);
	cr_assert(got.ecn > 20 && got.ecn < 100);
	cr_assert(!got.marked[500]);
	finish();
	plan.queues = 1;
	fill_queues(&plan);
	cr_assert(got.marked[500]);
	finish();
}

struct waiting {
	uint64_t at, ps, done;
	uint32_t class;
	bool gone;
};

/* Computes when each leaves, by checking all of them whenever the link is free. */
static void model_queues(struct waiting *w, uint32_t n)
{
	uint64_t now = 0;
	bool idle = true;

	for (uint32_t left = n; left > 0;) {
		uint64_t soonest = UINT64_MAX;
		int best = -1;

		/* At equal times the link takes its next datagram before another one arrives. */
		for (uint32_t i = 0; i < n; i++) {
			if (w[i].gone)
				continue;
			soonest = lend_min_u64(soonest, w[i].at);
			if ((w[i].at < now || (idle && w[i].at == now)) &&
			    (best < 0 || place[w[i].class] < place[w[best].class]))
				best = (int)i;
		}
		idle = best < 0;
		if (idle) {
			now = soonest;
			continue;
		}
		now += w[best].ps;
		w[best].done = now;
		w[best].gone = true;
		left--;
	}
}

static void run_history(uint64_t seed)
{
	static struct waiting w[SOME];
	struct sim_plan plan = calm();
	struct lend_rng rng;
	uint64_t at = 0;

	plan.queues = 8;
	begin(&plan);
	lend_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < SOME; i++) {
		uint32_t len = 65 + 25 * (uint32_t)lend_rng_below(&rng, BYTES / 25); /* whole ns */

		/* Each sender's own link is free again before its next datagram. */
		at += 30 + lend_rng_below(&rng, i % 100 < 50 ? 10 : 150);
		run_until(at);
		sending = (uint8_t)lend_rng_below(&rng, 8);
		w[i] = (struct waiting){
		    .at = at * 1000, .ps = (len + 60) * UINT64_C(80), .class = sending};
		/* Straight into the switch; another test covers the senders' links. */
		sim.net->nic[i % SENDERS].free = 0;
		send(i % SENDERS, TO, i + 1, len);
	}
	run_until(at + 10000000);
	model_queues(w, SOME);
	for (uint32_t i = 0; i < SOME; i++)
		cr_assert_eq(got.when[i + 1], w[i].done / 1000 + plan.delay_ns,
			     "seed %llu: datagram %u at %llu, not %llu", (unsigned long long)seed,
			     i, (unsigned long long)got.when[i + 1],
			     (unsigned long long)(w[i].done / 1000 + plan.delay_ns));
	finish();
}

Test(queues, agree_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_history(seed);
}
