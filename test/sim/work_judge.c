/* work_judge - checks calls that ended with another status than their handler's. Part of work.h.
 * Layer: test/sim. */
#include "core/arena.h"
#include "sim/work_state.h"

static bool may_be_unavailable(const struct sim_plan *p)
{
	return p->crash_us || p->pause_us || p->partition_us || p->hangup_ppm || p->loss_ppm ||
	       p->burst_ppm || p->loss_mask || p->corrupt_ppm || p->truncate_ppm ||
	       p->hostile_ppm || p->full_ppm || p->ring < 64 || p->buffer_kb < 1024 ||
	       p->sessions < 2 * p->nodes || p->dead_us < 1000000 || p->zero_rtt_ppm;
}

/* True when the server ran out of records or dropped a reply for other calls. Handlers saw nothing
 * of refused calls. */
static bool was_full(struct sim *sim, const struct sim_call *k, uint8_t ran)
{
	const struct sim_node *n = &sim->node[k->to];
	const struct lend_core_stats *st = n->up ? lend_core_stats(n->core) : NULL;

	if (!st || n->life != 1)
		return true;
	return ran == RAN_NO ? st->no_record > 0 : ran == RAN_MAYBE && st->released > 0;
}

/* Checks a call that ended with another status than its handler's. */
void sim_work_judge_failure(struct sim *sim, uint32_t call, const struct sim_call *k,
			    const struct lend_event *e)
{
	const struct sim_plan *p = &sim->plan;

	if (!e->maybe_queued && e->ran == RAN_NO)
		SIM_MARK(sim, ended_unsent);
	SIM_CHECK(sim, e->ran != RAN_YES || k->runs, "call %u: reported as run, but it did not run",
		  call);
	SIM_CHECK(sim, e->ran != RAN_NO || !k->runs || k->code & LEND_REPLY_NOT_RUN,
		  "call %u: reported as not run, but it ran", call);
	switch (e->status) {
	case CANCELLED:
		SIM_CHECK(sim, k->cancelled || p->hangup_ppm,
			  "call %u: cancelled without a request", call);
		SIM_MARK(sim, call_cancelled);
		return;
	case DEADLINE_EXCEEDED:
		SIM_CHECK(sim, sim->now >= k->due, "call %u: ended before its deadline", call);
		SIM_MARK(sim, call_deadline);
		return;
	case UNAVAILABLE:
		SIM_CHECK(sim, may_be_unavailable(p),
			  "call %u: unavailable in a run without faults", call);
		SIM_MARK(sim, call_unavailable);
		return;
	case RESOURCE_EXHAUSTED:
		SIM_CHECK(sim,
			  p->refuse_ppm || (sim->refused && e->ran != RAN_YES) ||
			      k->len > p->message_max || k->reply_len > p->message_max ||
			      was_full(sim, k, e->ran) || (k->named && k->reply_len >= k->named),
			  "call %u: exhausted, but there was memory for it", call);
		SIM_MARK(sim, call_exhausted);
		return;
	default:
		sim_fail(sim, "call %u: ended with status %u", call, e->status);
	}
}
