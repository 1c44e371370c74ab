/* net_topo - the ports, and which of them a flight passes.
 *
 * One switch, or racks with leaves that spines connect. Ports by index: to each node, from each
 * leaf up to each spine, from each spine down to each leaf. Layer: test/sim. */
#include "sim/net/net_state.h"
#include "util/bits.h"

static uint32_t port_up(const struct sim_net *n, uint32_t rack, uint32_t spine)
{
	return n->nodes + rack * n->spines + spine;
}

static uint32_t port_down(const struct sim_net *n, uint32_t spine, uint32_t rack)
{
	return n->nodes + n->racks * n->spines + spine * n->racks + rack;
}

/* If the sizes differ, the first racks have one node more. */
uint32_t net_rack(const struct sim_net *n, uint32_t node)
{
	return n->racks ? (uint32_t)((uint64_t)node * n->racks / n->nodes) : 0;
}

static void *zero_array(size_t n, size_t each)
{
	void *p = calloc(n + !n, each);

	LEND_CHECK(p);
	return p;
}

static void place_port(struct sim_net *n, uint32_t port, uint32_t box, uint64_t speed)
{
	n->port[port].box = box;
	n->port[port].speed = (uint32_t)speed;
	n->port[port].head = NET_END;
	n->box[box].ports++;
}

/* A lossless carrier is one link, not a network. */
void net_topo_open(struct sim_net *n)
{
	const struct sim_plan *p = &n->plan;
	uint32_t boxes;

	n->racks = p->lossless ? 0 : (uint32_t)lend_min_u64(p->racks, n->nodes);
	n->spines = n->racks ? (uint32_t)lend_max_u64(lend_min_u64(p->spines, 64), 1) : 0;
	boxes = n->racks ? n->racks + n->spines : 1;
	n->ports = n->nodes + 2 * n->racks * n->spines;
	n->port = zero_array(n->ports, sizeof(*n->port));
	n->box = zero_array(boxes, sizeof(*n->box));
	n->link = zero_array(n->racks, sizeof(*n->link));
	n->routed = zero_array(n->racks, sizeof(*n->routed));
	for (uint32_t i = 0; i < n->nodes; i++)
		place_port(n, i, net_rack(n, i), 1);
	for (uint32_t r = 0; r < n->racks; r++) {
		n->link[r] = n->routed[r] = UINT64_MAX >> (64 - n->spines);
		for (uint32_t s = 0; s < n->spines; s++) {
			place_port(n, port_up(n, r, s), r, lend_max_u64(p->speed, 1));
			place_port(n, port_down(n, s, r), n->racks + s, lend_max_u64(p->speed, 1));
		}
	}
	for (uint32_t i = 0; i < boxes; i++)
		n->box[i].busy = zero_array(n->box[i].ports, sizeof(*n->box[i].busy));
	n->boxes = boxes;
}

void net_topo_close(struct sim_net *n)
{
	for (uint32_t i = 0; i < n->boxes; i++)
		free(n->box[i].busy);
	free(n->box);
	free(n->port);
	free(n->link);
	free(n->routed);
}

void sim_net_link(struct sim *sim, uint32_t rack, uint32_t spine, bool works, bool known)
{
	struct sim_net *n = sim->net;
	uint64_t bit = UINT64_C(1) << spine;
	uint64_t *map = known ? n->routed : n->link;

	LEND_CHECK(rack < n->racks && spine < n->spines);
	map[rack] = works ? map[rack] | bit : map[rack] & ~bit;
}

/* Returns the k-th spine that both leaves believe to reach. */
static uint32_t choose_spine(struct sim *sim, const struct sim_flight *f, uint32_t from,
			     uint32_t to)
{
	struct sim_net *n = sim->net;
	uint64_t both = n->routed[from] & n->routed[to], k;
	uint32_t ways = (uint32_t)__builtin_popcountll(both);

	if (!ways)
		return NET_END;
	if (n->plan.spread)
		k = sim_below(sim, SIM_RNG_ROUTE, ways);
	else
		k = (((uint64_t)f->from << 32 | f->to) * UINT64_C(0x9e3779b97f4a7c15) >> 33) % ways;
	while (k--)
		both &= both - 1;
	return (uint32_t)__builtin_ctzll(both);
}

uint32_t net_spine(const struct sim_net *n, uint32_t port)
{
	return port >= n->nodes && port < port_up(n, n->racks, 0) ? (port - n->nodes) % n->spines
								  : 0;
}

uint32_t net_next(struct sim *sim, const struct sim_flight *f, uint32_t from)
{
	struct sim_net *n = sim->net;
	uint32_t to = net_rack(n, f->to), rack, spine, ups = n->nodes + n->racks * n->spines;

	if (from != NET_END && from >= ups)
		return f->to; /* down from a spine */
	if (from != NET_END) {
		spine = (from - n->nodes) % n->spines;
		return n->link[to] >> spine & 1 ? port_down(n, spine, to) : NET_END;
	}
	/* Attackers are in the rack of their target. */
	rack = f->from < n->nodes ? net_rack(n, f->from) : to;
	if (rack == to)
		return f->to;
	spine = choose_spine(sim, f, rack, to);
	if (spine == NET_END || !(n->link[rack] >> spine & 1))
		return NET_END;
	return port_up(n, rack, spine);
}
