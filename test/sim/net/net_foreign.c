/* net_foreign - cross traffic: datagrams of other protocols, whose senders do not react to loss or
 * marks. Their gaps are random around the plan's rate. Layer: test/sim. */
#include "sim/net/net_state.h"
#include "util/bits.h"

static void schedule_next(struct sim *sim, uint32_t to)
{
	struct sim_net *n = sim->net;
	uint64_t mean = n->plan.mtu * 8000 / n->plan.foreign_mbps;

	sim_at(sim, sim->now + 1 + lend_rng_below(&n->foreign, 2 * mean), SIM_PORT, to,
	       NET_FOREIGN);
}

void sim_net_foreign(struct sim *sim, uint32_t to)
{
	if (sim->net->plan.foreign_mbps)
		schedule_next(sim, to);
}

void net_foreign(struct sim *sim, uint32_t to)
{
	struct sim_net *n = sim->net;
	struct sim_flight *f;
	uint32_t from;

	if (!n->plan.foreign_mbps)
		return;
	from = (uint32_t)((to + 1 + lend_rng_below(&n->foreign, n->nodes - 1)) % n->nodes);
	f = net_take(sim, from, to, (uint32_t)n->plan.mtu);
	f->foreign = 1;
	f->queue = (uint8_t)lend_min_u64(NET_BEST_EFFORT, n->plan.queues - 1);
	n->ledger.foreign++;
	net_switch(sim, f, NET_END);
	schedule_next(sim, to);
}
