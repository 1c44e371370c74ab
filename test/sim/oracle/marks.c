#include "sim/oracle/marks.h"

#include "core/arena.h"
#include "core/memory_queue.h"
#include "sim/sim_node.h"

static const struct {
	const char *name, *text;
} mark[] = {
#define X(name, text) {#name, text},
    SIM_MARKS(X)
#undef X
#define X(name, text) {"core_" #name, "counted by a core: " text},
	LEND_CORE_STATS(X)
#undef X
};
_Static_assert(sizeof(struct sim_marks) == sizeof(mark) / sizeof(mark[0]) * sizeof(uint64_t),
	       "counters without a mark of their own");

const char *sim_marks_name(size_t i, const char **text)
{
	if (i >= SIM_MARKS_N)
		return NULL;
	*text = mark[i].text;
	return mark[i].name;
}

static unsigned call_phase(const struct lend_call_rec *k)
{
	switch ((enum lend_call_state)k->state) {
	case LEND_CALL_FREE:
		return 0;
	case LEND_CALL_QUEUED:
		return 1;
	case LEND_CALL_OPEN:
		return k->rx.frags != LEND_NONE ? 4 : k->tx.low < k->tx.total ? 2 : 3;
	case LEND_CALL_DRAINING:
		return 5;
	case LEND_CALL_PARTIAL:
		return 6;
	case LEND_CALL_RUNNING:
		return 7;
	case LEND_CALL_REPLYING:
		return 8;
	case LEND_CALL_ORPHAN:
		break;
	}
	return 9;
}

void sim_marks_fault(struct sim_marks *m, size_t group, const struct sim_node *n)
{
	struct lend_core *c = n->core;
	unsigned phase;

	if (c->used[0] + c->used[1] == 0)
		sim_mark_at(m, group, 0);
	for (uint32_t i = 0; i < c->records; i++) {
		phase = call_phase(lend_call_at(c, i));
		if (phase)
			sim_mark_at(m, group, phase);
	}
}

void sim_marks_want(struct sim_marks *m, const struct sim_node *n)
{
	struct lend_core *c = n->core;

	for (uint32_t i = 0; lend_memq_waiting(c) && i < c->records; i++) {
		const struct lend_call_rec *k = lend_call_at(c, i);

		if (k->state == LEND_CALL_FREE || !k->rx.memq_link.in)
			continue;
		m->reply_unfunded += !k->server && k->rx.frags == LEND_NONE;
		m->reply_partial_unfunded += !k->server && k->rx.frags != LEND_NONE;
		m->request_partial_unfunded += k->server;
	}
	for (uint32_t i = 0; i < c->cfg.sessions; i++)
		m->credit_out +=
		    lend_sess_at(c, i)->state == LEND_SESS_UP && lend_sess_at(c, i)->waiting.n > 0;
	m->pool_out += c->supply_n == 0;
	m->reassemblies_out += c->free_frags.free == 0;
	m->records_out += c->used[0] == c->cfg.inflight || c->used[1] == c->cfg.inflight;
	m->budget_out += c->cfg.receive_budget - c->budget_used < 4096;
}

void sim_marks_life(struct sim_marks *m, const struct sim_node *n)
{
	const struct lend_core_stats *s = lend_core_stats(n->core);

#define X(name, text) m->core_##name += s->name;
	LEND_CORE_STATS(X)
#undef X
	m->core_rx_window++; /* these need a peer that violates the protocol: scen.hostile */
	m->core_greedy++;
	m->core_rx_full++; /* this one needs a program that never takes its events */
}
