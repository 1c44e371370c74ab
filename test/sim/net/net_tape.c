/* net_tape - records a sample of past datagrams and replays them.
 *
 * They also come after either end died and was restarted, from the right address or from a wrong
 * one. Half of the tape is a uniform sample of all datagrams, so that old ones remain; the other
 * half is recent. Layer: test/sim. */
#include "sim/net/net_state.h"

void net_tape_open(struct sim_net *n)
{
	struct net_tape *t = &n->tape;

	t->entry = calloc(NET_TAPE, sizeof(*t->entry));
	LEND_CHECK(t->entry);
	t->data = malloc((size_t)NET_TAPE * n->stride);
	LEND_CHECK(t->data);
}

void net_tape_close(struct sim_net *n)
{
	free(n->tape.entry);
	free(n->tape.data);
}

/* Returns the entry that records this datagram; NET_TAPE: none. */
static uint32_t tape_slot(struct sim *sim, struct net_tape *t)
{
	uint64_t r;

	if (t->n < NET_TAPE)
		return t->n++;
	r = sim_below(sim, SIM_RNG_REPLAY, t->seen);
	if (r < NET_TAPE / 2)
		return (uint32_t)r;
	return r % 4 ? NET_TAPE : NET_TAPE / 2 + (uint32_t)(r / 4 % (NET_TAPE / 2));
}

void net_record(struct sim *sim, const struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	struct net_tape *t = &n->tape;
	uint32_t i;

	t->seen++;
	i = tape_slot(sim, t);
	if (i == NET_TAPE)
		return;
	t->entry[i] = (struct net_tape_entry){
	    f->from, f->to, f->len, sim->node[f->from].life, sim->node[f->to].life, sim->now};
	memcpy(t->data + (size_t)i * n->stride, f->data, f->len);
}

/* Replaces the sender's address by another one. */
static void disguise_address(struct sim *sim, struct sim_flight *f)
{
	uint32_t all = sim->net->nodes + SIM_STRANGERS, was = f->from;
	bool reset = f->data[offsetof(struct lend_pkt, kind)] == LEND_PKT_RESET;

	/* A RESET does not show to which address its session belongs, so a node's address would be
	 * believed. */
	do
		f->from = (uint32_t)sim_below(sim, SIM_RNG_REPLAY, all);
	while (f->from == f->to || f->from == was || (reset && f->from < sim->net->nodes));
	f->forged = true;
	net_mark(sim, f, "from a wrong address", SIM_MARK_OF(spoofed));
}

static void replay_entry(struct sim *sim, uint32_t i)
{
	struct sim_net *n = sim->net;
	const struct net_tape_entry *e = &n->tape.entry[i];
	struct sim_flight *f = net_take(sim, e->from, e->to, e->len);

	memcpy(f->data, n->tape.data + (size_t)i * n->stride, e->len);
	n->ledger.replayed++;
	sim->count.faults++;
	net_mark(sim, f, "replayed", SIM_MARK_OF(replayed));
	if (e->life_from != sim->node[e->from].life)
		SIM_MARK(sim, earlier_life_from);
	if (e->life_to != sim->node[e->to].life)
		SIM_MARK(sim, earlier_life_to);
	if (!n->plan.proven && sim_below(sim, SIM_RNG_REPLAY, 4) == 0)
		disguise_address(sim, f);
	net_later(sim, f,
		  sim->now + n->plan.delay_ns +
		      sim_below(sim, SIM_RNG_REPLAY, n->plan.reorder_ns + 1));
}

void net_replay_one(struct sim *sim, uint32_t to)
{
	struct net_tape *t = &sim->net->tape;
	uint32_t i;

	if (!sim->net->faulty || t->n == 0)
		return;
	i = (uint32_t)sim_below(sim, SIM_RNG_REPLAY, t->n);
	if (sim->now - t->entry[i].at <= NET_REPLAY_NS && (to == NET_END || t->entry[i].to == to))
		replay_entry(sim, i);
}

void sim_net_replay(struct sim *sim, uint32_t to, uint32_t n)
{
	while (n-- > 0)
		net_replay_one(sim, to);
}
