/* Goal: the simulated network follows its plan; all other results of the simulator depend on it.
 * Method: nodes that only count send numbered datagrams. Arrivals are compared with rates, order,
 * times, the switch's buffer, and a ledger of datagrams. Covers: test/sim/net/net.c */
#include "sim/netkit.h"

Test(net, no_faults__all_arrive_in_order_and_time)
{
	struct sim_plan plan = calm();

	begin(&plan);
	/* A burst, so that the sender's link has a queue. */
	for (uint32_t i = 1; i <= 100; i++)
		send(0, 1, i, 1000);
	run_until(1000000);
	cr_assert_eq(got.genuine, 100);
	cr_assert_eq(got.swaps, 0);
	/* 100 Gb/s: 12.5 bytes per ns, rounded up at the switch. */
	cr_assert_lt(got.at - (100 * (1000 + 60) * 80 / 1000 + plan.delay_ns), 2);
	cr_assert_eq(sim.count.faults, 0);
	finish();
	/* One sender to two receivers: now the sender's link is the bottleneck. */
	begin(&plan);
	for (uint32_t i = 1; i <= 100; i++)
		send(0, 1 + i % 2, i, 1000);
	run_until(1000000);
	cr_assert_geq(got.at, 99 * (1000 + 60) * 80 / 1000 + plan.delay_ns);
	finish();
}

Test(net, faults__have_the_drawn_rates)
{
	struct {
		uint64_t *rate;
		const char *what;
	} fault[5];
	struct sim_plan plan = calm();

	fault[0].rate = &plan.loss_ppm;
	fault[1].rate = &plan.dup_ppm;
	fault[2].rate = &plan.corrupt_ppm;
	fault[3].rate = &plan.truncate_ppm;
	fault[4].rate = &plan.reorder_ppm;
	for (int i = 0; i < 5; i++) {
		*fault[i].rate = 100000;
		begin(&plan);
		stream(MANY);
		near(sim.count.faults, 0.1, "faults");
		run_until(sim.now + 1000000);
		near(got.genuine, i == 1 ? 1.1 : i == 4 ? 1 : 0.9, "genuine");
		near(got.forged + (i != 2 && i != 3) * MANY / 10, 0.1, "refused");
		if (i == 4)
			cr_assert_gt(got.swaps, MANY / 20);
		finish();
		*fault[i].rate = 0;
	}
}

Test(net, bursts_and_masks)
{
	struct sim_plan plan = calm();

	plan.loss_mask = 0x5;
	begin(&plan);
	stream(10);
	run_until(sim.now + 1000000);
	cr_assert_eq(got.genuine, 8);
	cr_assert(got.times[1] == 0 && got.times[2] == 1 && got.times[3] == 0);
	finish();
	plan.loss_mask = 0;
	plan.burst_ppm = 10000;
	plan.burst_len = 19;
	begin(&plan);
	stream(MANY);
	near(sim.count.faults, 0.095, "lost in bursts of 10.5");
	finish();
}

Test(net, faults__have_independent_streams)
{
	struct sim_plan plan = calm();
	static uint32_t before[MANY + 1];

	plan.loss_ppm = 100000;
	begin(&plan);
	stream(MANY);
	finish();
	memcpy(before, got.times, sizeof(before));
	plan.reorder_ppm = plan.corrupt_ppm = 50000;
	plan.hostile_ppm = plan.jitter_ns = 3000;
	begin(&plan);
	stream(MANY);
	finish();
	for (uint32_t i = 1; i <= MANY; i++)
		if (!before[i])
			cr_assert_eq(got.times[i], 0, "%u was lost, and is not this time", i);
}

static uint64_t hash_of(uint64_t seed)
{
	struct sim_plan plan = calm();

	plan.seed = seed;
	plan.loss_ppm = plan.dup_ppm = plan.reorder_ppm = plan.corrupt_ppm = plan.truncate_ppm =
	    50000;
	plan.replay_ppm = plan.hostile_ppm = 50000;
	plan.jitter_ns = 10000;
	plan.partition_us = 500;
	begin(&plan);
	stream(MANY / 10);
	finish();
	return sim.hash;
}

Test(net, seed__repeats_and_each_datagram_ends_once)
{
	for (uint64_t seed = 1; seed <= 40; seed++)
		cr_assert_eq(hash_of(seed), hash_of(seed), "seed %llu", (unsigned long long)seed);
	cr_assert_neq(hash_of(1), hash_of(2));
}

Test(net, foreign__loads_the_link_and_reaches_no_node)
{
	struct sim_plan plan = calm();
	double own;

	plan.mtu = 1472;
	plan.foreign_mbps = plan.mbps / 2;
	begin(&plan);
	sim_net_foreign(&sim, 1);
	run_until(sim.now + 1000000);
	own = (double)sim.net->ledger.foreign * 1472 * 8e-6 / (1000000e-9 * (double)plan.mbps);
	cr_assert(own > 0.47 && own < 0.53, "%g of the link", own);
	cr_assert_eq(got.n, 0);
	/* A node's datagrams wait for it. */
	for (uint32_t i = 1; i <= 100; i++)
		send(2, 1, i, 1000);
	run_until(sim.now + 1000000);
	cr_assert_eq(got.genuine, 100);
	cr_assert_geq(got.at - sim.now + 1000000, 150 * (1000 + 60) * 80 / 1000);
	finish();
}

static uint64_t switch_holds(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sim.net->nodes; i++)
		sum += net_queue(sim.net, i, sim.now);
	return sum;
}

/* All nodes send to node 0, and half as much to node 1, faster than it can receive. */
static uint64_t run_incast(const struct sim_plan *plan)
{
	uint64_t most = 0;

	begin(plan);
	for (uint32_t i = 0; i < 400; i++) {
		for (uint32_t from = 2; from < plan->nodes; from++) {
			send(from, 0, i, 1000);
			if (i % 2)
				send(from, 1, i, 1000);
		}
		for (int k = 0; k < 10; k++) {
			run_until(sim.now + 17);
			if (switch_holds() > most)
				most = switch_holds();
		}
	}
	return most;
}

Test(net, the_switch_never_holds_more_than_its_buffer)
{
	struct sim_plan plan = calm();
	uint64_t most, dropped;

	plan.nodes = 10;
	plan.buffer_kb = 64;
	most = run_incast(&plan);
	dropped = sim.net->ledger.dropped;
	cr_assert(most <= 65536 && most > 60000, "held %llu", (unsigned long long)most);
	cr_assert_gt(dropped, 1000);
	finish();
	cr_assert_eq(got.n + dropped, 8 * 600);
	/* Threshold factor 1 of the free buffer: one port takes at most half. */
	plan.share = 8;
	begin(&plan);
	for (uint32_t i = 0; i < 100; i++)
		for (uint32_t from = 2; from < 10; from++)
			send(from, 0, i, 1000);
	most = 0;
	for (int k = 0; k < 1000; k++) {
		run_until(sim.now + 17);
		most = switch_holds() > most ? switch_holds() : most;
	}
	cr_assert(most <= 32768 + 1100 && most > 30000, "held %llu", (unsigned long long)most);
	finish();
}

Test(net, long_queues_are_marked)
{
	struct sim_plan plan = calm();

	plan.nodes = 10;
	plan.mark_kb = 16;
	run_incast(&plan);
	cr_assert_gt(got.ecn, 100);
	cr_assert_lt(got.ecn, got.n);
	finish();
}

Test(net, a_partition_has_one_direction)
{
	struct sim_plan plan = calm();
	uint32_t cut = 0;

	plan.nodes = 2;
	plan.partition_us = 1000;
	begin(&plan);
	for (uint32_t i = 0; i < 20000; i++) {
		bool there = sim.net->cut[0 * 2 + 1], back = sim.net->cut[1 * 2 + 0];
		uint32_t before = got.n;

		send(0, 1, 1, 64);
		send(1, 0, 1, 64);
		cut += there != back;
		run_until(sim.now + 100);
		run_until(sim.now + plan.delay_ns);
		cr_assert_eq(got.n - before, !there + !back);
	}
	cr_assert_gt(cut, 1000);
	finish();
}

Test(net, old_datagrams__are_replayed)
{
	struct sim_plan plan = calm();
	uint32_t again = 0;

	plan.replay_ppm = 100000;
	begin(&plan);
	stream(MANY);
	run_until(sim.now + 1000000);
	near(sim.net->ledger.replayed, 0.1, "replayed");
	near(got.forged, 0.025, "from a wrong address");
	for (uint32_t i = 1; i <= MANY / 20; i++)
		again += got.times[i] > 1 && got.times[i] < 20;
	cr_assert_gt(again, 5, "the oldest are never replayed");
	for (uint64_t third = 0; third < 3; third++) {
		uint32_t kept = 0;

		for (uint32_t i = 0; i < NET_TAPE / 2; i++)
			kept += sim.net->tape.entry[i].at * 3 / sim.now == third;
		cr_assert_gt(kept, 8, "of third %llu only %u", (unsigned long long)third, kept);
	}
	nodes[1].life++;
	sim_net_replay(&sim, 1, 100);
	cr_assert_eq(sim.marks.earlier_life_to, 100);
	finish();
}

Test(net, too_old__is_not_replayed)
{
	struct sim_plan plan = calm();

	plan.replay_ppm = 1;
	begin(&plan);
	stream(10);
	run_until(sim.now + NET_REPLAY_NS + 1000000);
	sim_net_replay(&sim, 1, 100);
	cr_assert_eq(sim.net->ledger.replayed, 0);
	finish();
}

Test(net, hostile_datagrams__accompany_live_ones)
{
	struct sim_plan plan = calm();

	for (int checked = 0; checked < 2; checked++) {
		plan.hostile_ppm = 100000;
		plan.checked = checked;
		plan.mtu = checked ? 256 : 1472;
		begin(&plan);
		stream(MANY);
		run_until(sim.now + 1000000);
		near(sim.net->ledger.forged, 1.25, "hostile");
		near(got.forged, 1.25, "hostile");
		near(got.sound, 0.5, "valid");
		cr_assert_gt(got.strange, MANY / 50);
		finish();
	}
}

Test(net, lossless__loses_nothing_and_reports_a_death)
{
	struct sim_plan plan = calm();

	plan.lossless = plan.checked = plan.proven = 1;
	plan.loss_ppm = plan.dup_ppm = plan.reorder_ppm = plan.partition_us = plan.replay_ppm =
	    500000;
	plan.jitter_ns = 30000;
	plan.buffer_kb = 1;
	plan.ring = 50;
	begin(&plan);
	for (uint32_t i = 1; i <= 50; i++)
		cr_assert_eq(send(0, 1, i, 1000), LEND_SENT);
	cr_assert_eq(send(0, 1, 51, 1000), LEND_SENT_FULL);
	run_until(sim.now + 10000000);
	cr_assert(got.genuine == 50 && got.swaps == 0 && sim.count.faults == 0);
	/* Node 0 dies with datagrams in both directions; node 1 gets its hang-up behind them. */
	send(0, 1, 60, 100);
	send(1, 0, 61, 100);
	nodes[0].up = false;
	sim_net_crash(&sim, 0);
	cr_assert_eq(send(1, 0, 62, 0), LEND_SENT_DEAD);
	nodes[0].up = true;
	nodes[0].life++;
	cr_assert_eq(send(1, 0, 63, 0), LEND_SENT_DEAD);
	run_until(sim.now + 10000000);
	cr_assert_eq(got.gone, 3);
	cr_assert_eq(got.times[60], 1);
	cr_assert_eq(got.times[61], 0, "a datagram for the dead node reached its next life");
	cr_assert_eq(send(1, 0, 64, 0), LEND_SENT);
	finish();
}

/* Two racks of two nodes with spines. */
static struct sim_plan set_racks(uint64_t spines)
{
	struct sim_plan plan = calm();

	plan.racks = 2;
	plan.spines = spines;
	plan.speed = 4;
	return plan;
}

Test(net, same_rack__has_less_delay)
{
	struct sim_plan plan = set_racks(2);
	uint64_t ps = (1000 + 60) * 80;

	begin(&plan);
	send(0, 1, 1, 1000);
	run_until(1000000);
	cr_assert_eq(got.at, ps / 1000 + plan.delay_ns);
	finish();
	begin(&plan);
	send(0, 2, 1, 1000);
	run_until(1000000);
	cr_assert_leq(got.at - (ps / 4 / 1000 * 2 + ps / 1000 + 3 * plan.delay_ns), 2);
	cr_assert(sim.net->deepest[0] == ps && sim.net->deepest[1] == ps);
	finish();
}

Test(net, spread_uses_all_spines_and_a_flow_one)
{
	struct sim_plan plan = set_racks(4);

	for (plan.spread = 0; plan.spread < 2; plan.spread++) {
		uint32_t used = 0;

		begin(&plan);
		for (uint32_t i = 1; i <= 200; i++)
			send(0, 2, i, 1000);
		run_until(1000000000);
		for (uint32_t s = 0; s < 4; s++)
			used += sim.net->port[NODES + s].free > 0;
		cr_assert_eq(used, plan.spread ? 4 : 1, "%u spines", used);
		if (!plan.spread)
			cr_assert_eq(got.swaps, 0);
		finish();
	}
}

/* Two full links into one of the same rate: half of the datagrams are queued or dropped. */
Test(net, narrow_spine__has_the_queue)
{
	struct sim_plan plan = set_racks(1);

	plan.speed = 1;
	plan.buffer_kb = 64;
	begin(&plan);
	for (uint32_t i = 1; i <= 200; i++) {
		send(0, 2, 2 * i, 1000);
		send(1, 3, 2 * i + 1, 1000);
	}
	run_until(1000000000);
	cr_assert_lt(64 * 1024 - sim.net->deepest[1] / sim.net->byte_ps, 2048);
	cr_assert_leq(sim.net->deepest[0], (1000 + 60) * 80 + 1000, "no queue behind it");
	cr_assert_eq(got.genuine + sim.net->ledger.dropped, 400);
	finish();
}

Test(net, a_broken_link_loses_until_it_is_known)
{
	struct sim_plan plan = set_racks(2);

	plan.spread = 1;
	begin(&plan);
	sim_net_link(&sim, 1, 0, false, false); /* the far end, for half of them */
	for (uint32_t i = 1; i <= 1000; i++) {
		send(i % 2 * 2, 2 - i % 2 * 2, i, 64);
		run_until(sim.now + 100);
	}
	run_until(sim.now + 100000);
	cr_assert(got.genuine < 600 && got.genuine + sim.net->ledger.cut == 1000);
	sim_net_link(&sim, 1, 0, false, true);
	for (uint32_t i = 1; i <= 1000; i++)
		send(2, 1, i, 64);
	run_until(sim.now + 1000000);
	cr_assert_eq(sim.net->ledger.cut + got.genuine, 2000, "no more losses");
	cr_assert_geq(got.genuine, 1400);
	sim_net_link(&sim, 1, 1, false, true); /* no spine is left */
	send(0, 2, 1, 64);
	sim_net_link(&sim, 1, 0, true, true);
	sim_net_link(&sim, 1, 0, true, false);
	send(0, 2, 5000, 64);
	finish();
	cr_assert_eq(got.times[5000], 1);
}
