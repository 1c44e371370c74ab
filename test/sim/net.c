#include "sim/net.h"

#include <stdlib.h>
#include <string.h>

#include "sim/node.h"
#include "util/list.h"

struct sim_net {
	struct sim_flight *flight;
	uint32_t n, cap, free, out;
};

void sim_net_open(struct sim *sim)
{
	sim->net = calloc(1, sizeof(*sim->net));
	LEND_CHECK(sim->net);
	sim->net->free = LEND_NONE;
}

void sim_net_close(struct sim *sim)
{
	struct sim_net *n = sim->net;

	for (uint32_t i = 0; n && i < n->n; i++)
		free(n->flight[i].data);
	if (n)
		free(n->flight);
	free(n);
	sim->net = NULL;
}

static uint32_t take(struct sim *sim)
{
	struct sim_net *n = sim->net;
	uint32_t i = n->free;

	n->out++;
	if (i != LEND_NONE) {
		n->free = n->flight[i].next;
		return i;
	}
	if (n->n == n->cap) {
		n->cap = n->cap ? 2 * n->cap : 256;
		n->flight = realloc(n->flight, n->cap * sizeof(*n->flight));
		LEND_CHECK(n->flight);
	}
	n->flight[n->n].data = malloc(sim->plan.mtu + 1);
	LEND_CHECK(n->flight[n->n].data);
	return n->n++;
}

struct sim_flight *sim_net_flight(struct sim *sim, uint32_t flight)
{
	return &sim->net->flight[flight];
}

void sim_net_free(struct sim *sim, uint32_t flight)
{
	sim->net->flight[flight].next = sim->net->free;
	sim->net->free = flight;
	sim->net->out--;
}

static void append(struct sim_flight *f, const void *data, uint32_t len)
{
	memcpy(f->data + f->len, data, len);
	f->len += len;
}

enum lend_sent sim_net_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			    const struct lend_out *out)
{
	uint32_t i, to = LEND_PEER_INDEX(out->peer);
	struct sim_flight *f;

	sim->count.datagrams++;
	if (sim->plan.lossless && !sim->node[to].up)
		return LEND_SENT_DEAD;
	if (sim_odds(sim, SIM_RNG_LOSS, sim->healing ? 0 : sim->plan.loss_ppm)) {
		sim->count.faults++;
		return LEND_SENT;
	}
	i = take(sim);
	f = sim_net_flight(sim, i);
	*f = (struct sim_flight){.from = from, .to = to, .data = f->data};
	append(f, out->head, out->head_len);
	for (uint32_t p = 0; p < out->n; p++)
		append(f, (const uint8_t *)bufs->seg[out->piece[p].buf].data + out->piece[p].offset,
		       out->piece[p].len);
	if (out->tail_len)
		append(f, out->tail, out->tail_len);
	sim_at(sim, sim->now + sim->plan.delay_ns, SIM_ARRIVE, i, 0);
	return LEND_SENT;
}

void sim_net_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b)
{
	(void)what, (void)b;
	sim_node_arrive(sim, sim_net_flight(sim, a)->to, a);
}

void sim_net_replay(struct sim *sim, uint32_t to, uint32_t n)
{
	(void)sim, (void)to, (void)n;
}

void sim_net_crash(struct sim *sim, uint32_t node)
{
	(void)sim, (void)node;
}

void sim_net_heal(struct sim *sim)
{
	(void)sim;
}

bool sim_net_idle(const struct sim *sim)
{
	return sim->net->out == 0;
}
