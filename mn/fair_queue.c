#include "mn/fair_queue.h"

void mn_fair_open(struct mn_fair *fair)
{
	*fair = (struct mn_fair){.round = 1, .busy = MN_FAIR_MEMORY};
	TAILQ_INIT(&fair->flows);
}

void mn_flow_open(struct mn_flow *flow)
{
	*flow = (struct mn_flow){.credit = MN_FAIR_QUANTUM};
	STAILQ_INIT(&flow->waits);
}

void mn_flow_close(struct mn_fair *fair, struct mn_flow *flow,
		   void (*drop)(struct mn_wait *wait, void *arg), void *arg)
{
	struct mn_wait *wait;

	if (flow->queued)
		TAILQ_REMOVE(&fair->flows, flow, link);
	flow->queued = false;
	if (fair->last == flow)
		fair->last = NULL;
	while ((wait = STAILQ_FIRST(&flow->waits))) {
		STAILQ_REMOVE_HEAD(&flow->waits, link);
		drop(wait, arg);
	}
}

/* Gives a flow the credit of the rounds since its last operation. That pays its debt, but is never
 * saved up beyond one quantum. */
static void join_round(struct mn_fair *fair, struct mn_flow *flow)
{
	uint64_t rounds = fair->round - flow->round;

	if (!rounds)
		return;
	if (fair->last && fair->last != flow)
		fair->mixed = fair->busy;
	fair->last = flow;
	flow->round = fair->round;
	if (rounds > (uint64_t)(MN_FAIR_QUANTUM - flow->credit) / MN_FAIR_QUANTUM)
		flow->credit = MN_FAIR_QUANTUM;
	else
		flow->credit += (int64_t)rounds * MN_FAIR_QUANTUM;
}

bool mn_fair_may(struct mn_fair *fair, struct mn_flow *flow)
{
	join_round(fair, flow);
	flow->alone = fair->busy - fair->mixed >= MN_FAIR_MEMORY && !mn_fair_waits(fair);
	return !flow->queued && (flow->credit > 0 || flow->alone);
}

void mn_fair_charge(struct mn_flow *flow, uint64_t cost)
{
	if (!flow->alone)
		flow->credit -= (int64_t)cost;
}

void mn_fair_wait(struct mn_fair *fair, struct mn_flow *flow, struct mn_wait *wait)
{
	STAILQ_INSERT_TAIL(&flow->waits, wait, link);
	if (!flow->queued)
		TAILQ_INSERT_TAIL(&fair->flows, flow, link);
	flow->queued = true;
}

void mn_fair_round(struct mn_fair *fair, uint64_t (*run)(struct mn_wait *wait, void *arg),
		   void *arg)
{
	struct mn_flow *flow, *next;

	fair->busy += fair->last && fair->last->round == fair->round;
	fair->round++;
	for (flow = TAILQ_FIRST(&fair->flows); flow; flow = next) {
		struct mn_wait *wait;

		next = TAILQ_NEXT(flow, link);
		join_round(fair, flow);
		flow->alone = false;
		while (flow->credit > 0 && (wait = STAILQ_FIRST(&flow->waits))) {
			STAILQ_REMOVE_HEAD(&flow->waits, link);
			mn_fair_charge(flow, run(wait, arg));
		}
		if (!STAILQ_EMPTY(&flow->waits))
			continue;
		TAILQ_REMOVE(&fair->flows, flow, link);
		flow->queued = false;
	}
}
