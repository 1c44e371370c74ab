/* net_switch - one switch: a queue per port, all in one buffer. Each port lets its queue out at the
 * rate of the links, so a queue is known by when it will be empty, and no event is needed to empty
 * it. Layer: test/sim. */
#include "sim/net_state.h"
#include "util/bits.h"

static uint64_t backlog(const struct net_port *p, uint64_t now)
{
	return p->free > now ? p->free - now : 0;
}

/* What all queues hold, as time on a line. */
static uint64_t held(struct sim_net *n, uint64_t now)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n->busy_n;) {
		struct net_port *p = &n->port[n->busy[i]];

		sum += backlog(p, now);
		if (p->free > now) {
			i++;
		} else {
			p->busy = false;
			n->busy[i] = n->busy[--n->busy_n];
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
	uint64_t all = n->plan.buffer_kb * 1024 * n->byte_ps, used = held(n, now);

	if (used + ps > all)
		return false;
	/* Dynamic threshold: a queue may be as long as what is left is large. */
	return n->plan.share == 0 || backlog(p, now) + ps <= (all - used) * n->plan.share / 8;
}

void net_switch(struct sim *sim, struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	struct net_port *p = &n->port[f->to];
	uint64_t now = sim->now * 1000, ps = f->len * n->byte_ps;
	lend_ns jitter =
	    n->plan.jitter_ns ? sim_below(sim, SIM_RNG_DELAY, n->plan.jitter_ns + 1) : 0;

	if (!n->plan.lossless && !admits(n, p, now, ps)) {
		n->ledger.dropped++;
		SIM_MARK(sim, switch_full);
		net_lose(sim, f);
		return;
	}
	if (n->plan.mark_kb && backlog(p, now) > n->plan.mark_kb * 1024 * n->byte_ps) {
		SIM_MARK(sim, switch_marked);
		f->ecn = 1;
	}
	p->free = lend_max_u64(p->free, now) + ps;
	if (!p->busy && ps) {
		p->busy = true;
		n->busy[n->busy_n++] = f->to;
	}
	f->at = p->free / 1000 + n->plan.delay_ns + jitter;
	if (jitter && !n->plan.lossless)
		net_later(sim, f, f->at);
	else
		net_line(sim, p, f, false);
}
