/* net_switch - the switches.
 *
 * A port has up to eight queues and serves the first that is not empty. All ports of a switch share
 * one buffer. A port has an event only while something is queued. One switch, or a leaf per rack
 * and spines that connect all leaves. Layer: test/sim. */
#include "sim/net/net_state.h"
#include "util/bits.h"

/* Returns what a port sends before a datagram that enters this queue, as time on a node's link: a
 * faster link holds more in the same time. */
static uint64_t bytes_ahead(const struct net_port *p, uint64_t now, uint32_t queue)
{
	uint64_t sum = p->free > now ? (p->free - now) * p->speed : 0;

	for (uint32_t m = p->waiting & ((2u << queue) - 1); m; m &= m - 1)
		sum += p->queue[__builtin_ctz(m)].ps;
	return sum;
}

/* Returns the sum of a port's queues. */
static uint64_t port_backlog(const struct net_port *p, uint64_t now)
{
	return bytes_ahead(p, now, NET_QUEUES - 1);
}

/* Returns the sum of all queues of a switch. */
static uint64_t switch_held(struct sim_net *n, struct net_box *box, uint64_t now)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < box->busy_n;) {
		struct net_port *p = &n->port[box->busy[i]];

		sum += port_backlog(p, now);
		if (p->free > now || p->waiting) {
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
	return n->byte_ps ? port_backlog(&n->port[port], now * 1000) / n->byte_ps : 0;
}

static bool switch_admits(struct sim_net *n, const struct net_port *p, uint64_t now, uint64_t ps)
{
	uint64_t all = n->plan.buffer_kb * 1024 * n->byte_ps,
		 used = switch_held(n, &n->box[p->box], now);

	if (used + ps > all)
		return false;
	/* Dynamic threshold: the limit of a queue is proportional to the free buffer. */
	return n->plan.share == 0 || port_backlog(p, now) + ps <= (all - used) * n->plan.share / 8;
}

/* Puts a flight onto the port's link. */
static void leave_queue(struct sim *sim, struct net_port *p, struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	lend_ns jitter =
	    n->plan.jitter_ns ? sim_below(sim, SIM_RNG_DELAY, n->plan.jitter_ns + 1) : 0;

	p->free += f->len * n->byte_ps / p->speed;
	f->at = p->free / 1000 + n->plan.delay_ns + jitter +
		net_spine(n, (uint32_t)(p - n->port)) * n->plan.skew_ns;
	/* Links between switches keep the order. */
	if (jitter && !n->plan.lossless && p < n->port + n->nodes)
		net_later(sim, f, f->at);
	else
		net_line(sim, p, f, false);
}

static void call_next(struct sim *sim, const struct net_port *p)
{
	sim_at(sim, (p->free + 999) / 1000, SIM_PORT, (uint32_t)(p - sim->net->port), NET_NEXT);
}

static void wait_in(struct sim *sim, struct net_port *p, struct sim_flight *f)
{
	struct net_queue *q = &p->queue[f->queue];
	bool first = !(p->waiting >> f->queue & 1);

	if (!p->waiting)
		call_next(sim, p);
	if (first)
		q->head = f->index;
	else
		sim_net_flight(sim, q->tail)->next = f->index;
	q->tail = f->index;
	q->ps += f->len * sim->net->byte_ps;
	f->next = NET_END;
	p->waiting = (uint8_t)(p->waiting | 1u << f->queue);
}

void net_switch_next(struct sim *sim, uint32_t port)
{
	struct net_port *p = &sim->net->port[port];
	uint32_t i = (uint32_t)__builtin_ctz(p->waiting);
	struct net_queue *q = &p->queue[i];
	struct sim_flight *f = sim_net_flight(sim, q->head);

	q->head = f->next;
	q->ps -= f->len * sim->net->byte_ps;
	if (q->head == NET_END)
		p->waiting = (uint8_t)(p->waiting & ~(1u << i));
	leave_queue(sim, p, f);
	if (p->waiting)
		call_next(sim, p);
}

static void enqueue_flight(struct sim *sim, struct net_port *p, struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	uint64_t now = sim->now * 1000, *deep = &n->deepest[p >= n->port + n->nodes];
	struct net_box *box = &n->box[p->box];

	if (n->plan.mark_kb && !f->foreign &&
	    bytes_ahead(p, now, f->queue) > n->plan.mark_kb * 1024 * n->byte_ps) {
		SIM_MARK(sim, switch_marked);
		f->ecn = 1;
	}
	*deep = lend_max_u64(*deep, port_backlog(p, now) + f->len * n->byte_ps);
	if (!p->busy && n->byte_ps) {
		p->busy = true;
		box->busy[box->busy_n++] = (uint32_t)(p - n->port);
	}
	if (p->free > now || p->waiting) {
		wait_in(sim, p, f);
	} else {
		p->free = now;
		leave_queue(sim, p, f);
	}
}

void net_switch(struct sim *sim, struct sim_flight *f, uint32_t from)
{
	struct sim_net *n = sim->net;
	uint32_t to = net_next(sim, f, from);
	struct net_port *p;

	if (to == NET_END) {
		n->ledger.cut++;
		net_lose(sim, f);
		return;
	}
	p = &n->port[to];
	if (!n->plan.lossless && !switch_admits(n, p, sim->now * 1000, f->len * n->byte_ps)) {
		n->ledger.dropped += !f->foreign;
		SIM_MARK(sim, switch_full);
		net_lose(sim, f);
		return;
	}
	enqueue_flight(sim, p, f);
}
