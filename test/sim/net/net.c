#include "sim/net/net.h"

#include <string.h>

#include "sim/net/net_state.h"
#include "util/bits.h"

static void *zero_array(size_t n, size_t each)
{
	void *p = calloc(n, each);

	LEND_CHECK(p);
	return p;
}

static bool any_fault(const struct sim_plan *p)
{
	return !p->lossless &&
	       (p->loss_ppm || p->loss_mask || p->burst_ppm || p->dup_ppm || p->reorder_ppm ||
		p->corrupt_ppm || p->truncate_ppm || p->replay_ppm || p->partition_us);
}

void sim_net_open(struct sim *sim)
{
	struct sim_net *n = sim->net = zero_array(1, sizeof(*n));

	n->plan = sim->plan;
	n->nodes = (uint32_t)sim->plan.nodes;
	n->deliver = sim_node_arrive;
	n->free = NET_END;
	n->stride = (uint32_t)lend_align_up(sim->plan.mtu + 1, 64);
	n->byte_ps = 8000000 / (sim->plan.mbps ? sim->plan.mbps : 1);
	n->nic_ps = n->byte_ps / lend_max_u64(sim->plan.nic_speed, 1);
	n->nic = zero_array(n->nodes, sizeof(*n->nic));
	n->under_way = zero_array(n->nodes, sizeof(*n->under_way));
	for (uint32_t i = 0; i < n->nodes; i++)
		n->nic[i].head = NET_END;
	lend_rng_seed(&n->foreign, ~sim->plan.seed);
	net_topo_open(n);
	n->faulty = any_fault(&sim->plan);
	if (sim->plan.lossless)
		n->hung = zero_array(n->nodes, n->nodes);
	if (n->faulty && sim->plan.replay_ppm)
		net_tape_open(n);
	if (n->faulty && sim->plan.partition_us && n->nodes > 1) {
		n->cut = zero_array(n->nodes, n->nodes);
		net_partition_next(sim);
	}
}

void sim_net_deliver(struct sim *sim, void (*deliver)(struct sim *, uint32_t node, uint32_t flight))
{
	sim->net->deliver = deliver;
}

void sim_net_close(struct sim *sim)
{
	struct sim_net *n = sim->net;

	if (!n)
		return;
	for (uint32_t i = 0; i < n->chunks; i++)
		free(n->chunk[i]);
	net_tape_close(n);
	net_topo_close(n);
	free(n->chunk);
	free(n->nic);
	free(n->under_way);
	free(n->cut);
	free(n->hung);
	free(n);
	sim->net = NULL;
}

struct sim_flight *sim_net_flight(struct sim *sim, uint32_t flight)
{
	return &sim->net->chunk[flight / NET_CHUNK][flight % NET_CHUNK];
}

static void more_flights(struct sim_net *n)
{
	size_t heads = lend_align_up(NET_CHUNK * sizeof(struct sim_flight), 64);
	struct sim_flight *f = aligned_alloc(64, heads + (size_t)NET_CHUNK * n->stride);

	n->chunk = realloc(n->chunk, (n->chunks + 1) * sizeof(struct sim_flight *));
	LEND_CHECK(f && n->chunk);
	n->chunk[n->chunks] = f;
	for (uint32_t i = NET_CHUNK; i-- > 0;) {
		f[i].index = n->chunks * NET_CHUNK + i;
		f[i].data = (uint8_t *)f + heads + (size_t)i * n->stride;
		f[i].next = n->free;
		n->free = f[i].index;
	}
	n->chunks++;
}

struct sim_flight *net_take(struct sim *sim, uint32_t from, uint32_t to, uint32_t len)
{
	struct sim_net *n = sim->net;
	struct sim_flight *f;

	if (n->free == NET_END)
		more_flights(n);
	f = sim_net_flight(sim, n->free);
	n->free = f->next;
	n->out++;
	n->under_way[to]++;
	f->from = from;
	f->to = to;
	f->len = len;
	f->ecn = f->gone = f->forged = f->queue = f->foreign = 0;
	f->body = NULL;
	f->body_len = 0;
	f->parts = 0;
	f->life = sim->node[to].life;
	return f;
}

void net_give_body(struct sim_flight *f, const void *bytes, uint32_t len)
{
	f->body = zero_array(1, len);
	f->body_len = len;
	memcpy(f->body, bytes, len);
}

struct sim_flight *net_copy(struct sim *sim, const struct sim_flight *f)
{
	struct sim_flight *g = net_take(sim, f->from, f->to, f->len);

	g->forged = f->forged;
	g->queue = f->queue;
	memcpy(g->data, f->data, f->len);
	if (f->body)
		net_give_body(g, f->body, f->body_len);
	g->parts = f->parts;
	for (uint32_t i = 0; i < f->parts; i++) {
		size_t at = (size_t)((const uint8_t *)f->part[i].data - f->body);

		g->part[i] = (struct lend_part){g->body + at, f->part[i].len};
	}
	return g;
}

void sim_net_free(struct sim *sim, uint32_t flight)
{
	struct sim_net *n = sim->net;
	struct sim_flight *f = sim_net_flight(sim, flight);

	n->under_way[f->to]--;
	n->out--;
	free(f->body);
	f->next = n->free;
	n->free = flight;
}

void net_lose(struct sim *sim, struct sim_flight *f)
{
	sim->net->ledger.lost++;
	sim_net_free(sim, f->index);
}

/* True when a hang-up ended the connection: its datagrams do not reach the node's next life. */
static bool connection_ended(struct sim *sim, const struct sim_flight *f)
{
	const struct sim_node *to = &sim->node[f->to];

	return !to->up || (sim->net->hung && to->life != f->life);
}

static void handle_arrival(struct sim *sim, struct sim_flight *f)
{
	struct sim_net *n = sim->net;

	if (f->foreign || connection_ended(sim, f)) {
		net_lose(sim, f);
		return;
	}
	if (f->gone) {
		n->hung[f->to * n->nodes + f->from] = 0;
		SIM_MARK(sim, hung_up);
	}
	n->ledger.arrived++;
	sim_note(sim, sim->now, (uint64_t)f->from << 48 ^ (uint64_t)f->to << 32 ^ f->len);
	n->deliver(sim, f->to, f->index);
}

void net_later(struct sim *sim, struct sim_flight *f, lend_ns at)
{
	f->at = at;
	sim_at(sim, at, SIM_ARRIVE, f->index, 0);
}

void net_line(struct sim *sim, struct net_port *p, struct sim_flight *f, bool nic)
{
	struct sim_net *n = sim->net;

	f->next = NET_END;
	if (p->head != NET_END) {
		struct sim_flight *last = sim_net_flight(sim, p->tail);

		f->at = lend_max_u64(f->at, last->at);
		last->next = f->index;
	} else {
		p->head = f->index;
		sim_at(sim, f->at, SIM_PORT, (uint32_t)(p - (nic ? n->nic : n->port)), nic);
	}
	p->tail = f->index;
}

static void on_port(struct sim *sim, uint32_t port, bool nic)
{
	struct net_port *p = nic ? &sim->net->nic[port] : &sim->net->port[port];

	while (p->head != NET_END) {
		struct sim_flight *f = sim_net_flight(sim, p->head);

		if (f->at > sim->now) {
			sim_at(sim, f->at, SIM_PORT, port, nic);
			return;
		}
		p->head = f->next;
		if (!nic && port < sim->net->nodes)
			handle_arrival(sim, f);
		else
			net_switch(sim, f, nic ? NET_END : port);
	}
}

void net_launch(struct sim *sim, struct sim_flight *f)
{
	struct net_port *nic;
	uint64_t now = sim->now * 1000;

	if (f->from >= sim->net->nodes) {
		net_switch(sim, f, NET_END);
		return;
	}
	nic = &sim->net->nic[f->from];
	f->at = (lend_max_u64(nic->free, now) + 999) / 1000;
	nic->free = lend_max_u64(nic->free, now) + f->len * sim->net->nic_ps;
	if (f->at <= sim->now && nic->head == NET_END)
		net_switch(sim, f, NET_END);
	else
		net_line(sim, nic, f, true);
}

void sim_net_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b)
{
	if (what == SIM_PORT && b == NET_NEXT)
		net_switch_next(sim, a);
	else if (what == SIM_PORT && b == NET_FOREIGN)
		net_foreign(sim, a);
	else if (what == SIM_PORT)
		on_port(sim, a, b == NET_FROM_NIC);
	else if (what == SIM_ARRIVE)
		handle_arrival(sim, sim_net_flight(sim, a));
	else
		net_partition(sim, a, b);
}

static void hang_up(struct sim *sim, uint32_t of, uint32_t at)
{
	struct sim_net *n = sim->net;
	struct sim_flight *f = net_take(sim, of, at, 0);

	f->gone = 1;
	n->hung[at * n->nodes + of] = 1;
	n->ledger.gone++;
	net_launch(sim, f);
}

void sim_net_crash(struct sim *sim, uint32_t node)
{
	struct sim_net *n = sim->net;

	if (!n->hung)
		return;
	memset(n->hung + node * n->nodes, 0, n->nodes);
	for (uint32_t at = 0; at < n->nodes; at++)
		if (at != node && sim->node[at].up)
			hang_up(sim, node, at);
}

void sim_net_heal(struct sim *sim)
{
	struct sim_net *n = sim->net;

	n->faulty = false;
	n->plan.full_ppm = 0;
	n->plan.hostile_ppm = 0;
	n->plan.foreign_mbps = 0;
	n->plan.buffer_kb = UINT32_MAX;
	if (n->cut)
		memset(n->cut, 0, n->nodes * n->nodes);
}

/* Every flight that began has ended, once. */
bool sim_net_idle(const struct sim *sim)
{
	const struct net_ledger *l = &sim->net->ledger;

	return sim->net->out == 0 &&
	       l->sent + l->copied + l->replayed + l->forged + l->gone + l->foreign ==
		   l->arrived + l->lost;
}
