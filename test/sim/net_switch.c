/* net_switch - the switches: a queue per port, all of a switch in one buffer. Each port lets its
 * queue out at the rate of its line, so a queue is known by when it will be empty, and no event is
 * needed to empty it. One switch, or a leaf per rack and spines that join all leaves.
 * Layer: test/sim. */
#include "sim/net_state.h"
#include "util/bits.h"

/* What waits for a port, as time on a node's line: a faster line holds more in the same time. */
static uint64_t backlog(const struct net_port *p, uint64_t now)
{
	return p->free > now ? (p->free - now) * p->speed : 0;
}

/* What all queues of a switch hold. */
static uint64_t held(struct sim_net *n, struct net_box *box, uint64_t now)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < box->busy_n;) {
		struct net_port *p = &n->port[box->busy[i]];

		sum += backlog(p, now);
		if (p->free > now) {
			i++;
		} else {
			p->busy = false;
			box->busy[i] = box->busy[--box->busy_n];
		}
	}
	return sum;
}

uint64_t net_queue(const struct sim_net *n, uint32_t port, lend_ns now)
{
	return n->byte_ps ? backlog(&n->port[port], now * 1000) / n->byte_ps : 0;
}

static bool admits(struct sim_net *n, const struct net_port *p, uint64_t now, uint64_t ps)
{
	uint64_t all = n->plan.buffer_kb * 1024 * n->byte_ps, used = held(n, &n->box[p->box], now);

	if (used + ps > all)
		return false;
	/* Dynamic threshold: a queue may be as long as what is left is large. */
	return n->plan.share == 0 || backlog(p, now) + ps <= (all - used) * n->plan.share / 8;
}

/* At the end of a port's queue. */
static void enqueue(struct sim *sim, struct net_port *p, struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	uint64_t now = sim->now * 1000, ps = f->len * n->byte_ps, *deep;
	struct net_box *box = &n->box[p->box];

	if (n->plan.mark_kb && backlog(p, now) > n->plan.mark_kb * 1024 * n->byte_ps) {
		SIM_MARK(sim, switch_marked);
		f->ecn = 1;
	}
	p->free = lend_max_u64(p->free, now) + ps / p->speed;
	deep = &n->deepest[p >= n->port + n->nodes];
	*deep = lend_max_u64(*deep, backlog(p, now));
	if (!p->busy && ps) {
		p->busy = true;
		box->busy[box->busy_n++] = (uint32_t)(p - n->port);
	}
	f->at = p->free / 1000 + n->plan.delay_ns;
}

void net_switch(struct sim *sim, struct sim_flight *f, uint32_t from)
{
	struct sim_net *n = sim->net;
	uint32_t to = net_next(sim, f, from);
	struct net_port *p;
	lend_ns jitter =
	    n->plan.jitter_ns ? sim_below(sim, SIM_RNG_DELAY, n->plan.jitter_ns + 1) : 0;

	if (to == NET_END) {
		n->ledger.cut++;
		net_lose(sim, f);
		return;
	}
	p = &n->port[to];
	if (!n->plan.lossless && !admits(n, p, sim->now * 1000, f->len * n->byte_ps)) {
		n->ledger.dropped++;
		SIM_MARK(sim, switch_full);
		net_lose(sim, f);
		return;
	}
	enqueue(sim, p, f);
	f->at += jitter;
	/* Between switches lines keep the order. */
	if (jitter && !n->plan.lossless && to < n->nodes)
		net_later(sim, f, f->at);
	else
		net_line(sim, p, f, false);
}
