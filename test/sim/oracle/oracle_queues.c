/* oracle_queues - checks of the queues for memory and budget: freed budget goes to the head of its
 * queue, and an evicted message is evicted less and less often. Part of oracle.h. Layer:
 * test/sim. */
#include "core/fair_share.h"
#include "core/arena.h"
#include "sim/oracle/oracle.h"
#include "util/bits.h"

/* Turns in which lower classes may get budget before the head of a class, for their guaranteed
 * shares. */
enum { PATIENCE = 64 };

static uint32_t class_of(const struct lend_core *c, const struct lend_call_rec *k)
{
	return c->cfg.order == LEND_ORDER_FIFO ? 0 : k->class;
}

/* Checks the head of a class's queue: it must not keep its old grant for long while a lower class
 * gets budget. least: one more than the lowest class that got some. */
static void look(struct sim *sim, struct sim_node *n, uint32_t class, uint32_t least)
{
	struct sim_queue_head *l = &n->line[class];
	uint32_t head = n->core->budget_queue.of[class].head;
	const struct lend_call_rec *k = head == LEND_NONE ? NULL : lend_call_at(n->core, head);

	if (!k || l->head != head || l->gen != k->gen || l->granted != k->rx.granted)
		*l = (struct sim_queue_head){
		    .head = head, .gen = k ? k->gen : 0, .granted = k ? k->rx.granted : 0};
	else
		l->passed += least > class;
	SIM_CHECK(sim, l->passed <= PATIENCE,
		  "node %u: budget goes past the head of its queue, %u times", n->id, l->passed);
}

/* The time before the next eviction doubles, so that all messages complete, however slow their
 * senders are. */
static void look_back(struct sim *sim, struct sim_node *n)
{
	struct lend_core *c = n->core;

	if (lend_core_stats(c)->evicted == n->evicted)
		return;
	n->evicted = lend_core_stats(c)->evicted;
	for (uint32_t i = 0; i < c->records; i++) {
		const struct lend_call_rec *k = lend_call_at(c, i);
		struct sim_was *w = &n->was[i];

		if (k->state == LEND_CALL_FREE || (k->gen == w->gen && k->rx.evictions == w->gave))
			continue;
		if (k->gen == w->gen && w->gave > 0) {
			lend_ns least = 2 * LEND_RTO_MIN << lend_min_u32(w->gave, 12);

			SIM_MARK(sim, gave_way);
			SIM_CHECK(sim, sim->now - w->at > least,
				  "node %u: a message is evicted for the %uth time, after %llu ns",
				  n->id, k->rx.evictions, (unsigned long long)(sim->now - w->at));
		}
		w->gen = k->gen;
		w->gave = k->rx.evictions;
		w->at = sim->now;
	}
}

void sim_oracle_queues(struct sim *sim, struct sim_node *n)
{
	struct lend_core *c = n->core;
	uint32_t least = 0;

	look_back(sim, n);
	if (!c->budget_queue.n && !n->no_budget)
		return;
	for (uint32_t i = 0; i < c->records; i++) {
		const struct lend_call_rec *k = lend_call_at(c, i);

		if (k->state != LEND_CALL_FREE && k->rx.charged > n->was[i].charged)
			least = lend_max_u32(least, class_of(c, k) + 1);
		n->was[i].charged = k->state != LEND_CALL_FREE ? k->rx.charged : 0;
	}
	for (uint32_t i = 0; i < LEND_CLASSES; i++)
		look(sim, n, i, least);
	n->no_budget = c->budget_queue.n;
}
