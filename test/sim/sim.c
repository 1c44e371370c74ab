#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "sim/hoard.h"
#include "sim/memory/sim_mem.h"
#include "sim/oracle/oracle.h"
#include "sim/work.h"
#include "util/bits.h"

enum { EVENTS_MAX = 40000000 };
#define MS UINT64_C(1000000)

bool sim_print_cores;
static struct sim *running; /* owner of the core that lend_panic() stops */

_Noreturn void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sim->why, sizeof(sim->why), format, args);
	va_end(args);
	longjmp(sim->out, 1);
}

/* The library's own checks are oracles, too. */
_Noreturn void lend_panic(const char *file, int line, const char *what)
{
	if (running)
		sim_fail(running, "%s:%d: check failed: %s", file, line, what);
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
	abort();
}

static void trace_nodes(struct sim *sim)
{
	for (uint32_t i = 0; sim->node && i < sim->plan.nodes; i++) {
		fprintf(stderr, "node %u %s\n", i, sim->node[i].up ? "is up" : "is down");
		if (sim->node[i].up)
			sim_core_print(sim->node[i].core, stderr);
	}
}

/* Returns the time after the last fault by which everything must have ended. It is the sum of the
 * detection of dead peers, the longest deadline, the longest delayed answer, retransmissions, and
 * all bytes over the slowest link. The bytes take one round trip per receive budget, several
 * times. */
static lend_ns settle_bound(const struct sim_plan *p)
{
	uint64_t bytes = (p->calls + p->memops) * 2 * (p->len_max + 2048) + p->memops * 65536;
	lend_ns delay = p->delay_ns + p->spines * p->skew_ns + p->jitter_ns + p->turn_ns;
	lend_ns trip = 2 * delay + 20000;
	lend_ns wire = (p->mbps ? bytes * 8000 / p->mbps : 0) + bytes / p->budget * trip;

	/* The slowest sender sends one datagram per gap, and the smallest payload is 160 bytes. */
	if (p->cc)
		wire += bytes / 160 * LEND_CC_GAP_MAX;
	return 3 * p->dead_us * 1000 + 4 * (p->stores ? p->lease_us : 0) * 1000 +
	       1000 * (p->deadline_us + p->later_us) + 4000 * MS + 8 * wire +
	       400 * (delay + p->reorder_ns);
}

static void open_streams(struct sim *sim)
{
	for (uint64_t i = 0; i < SIM_STREAMS; i++)
		lend_rng_seed(&sim->rng[i],
			      sim->plan.seed * UINT64_C(0x2545f4914f6cdd1d) + (i << 56) + i);
}

/* Draws the next occurrence of a fault with a mean interval of mean_us. */
static lend_ns next_fault(struct sim *sim, enum sim_stream stream, uint64_t mean_us)
{
	return sim->now + 1 + sim_below(sim, stream, 2000 * mean_us);
}

/* In half of the plans, a memory node that restarts with its pages is delayed until a reply needs
 * some of them. By chance alone that is too rare. */
static bool is_met_later(struct sim *sim, uint32_t node)
{
	const struct sim_plan *p = &sim->plan;

	return p->keep_ppm && p->seed / 4 % 2 && sim->node[node].store &&
	       !sim_mem_lends(sim, node) && sim_below(sim, SIM_RNG_CRASH, 32) != 0;
}

static void on_crash(struct sim *sim, uint32_t node, uint32_t birth)
{
	static const uint32_t down_us[] = {1, 100, 10000, 1000000, 0};
	lend_ns down;

	if (birth) {
		sim_node_birth(sim, node);
		sim_net_replay(sim, node, 16);
		return;
	}
	if (sim->healing)
		return;
	if (is_met_later(sim, node)) {
		sim_at(sim, next_fault(sim, SIM_RNG_CRASH, sim->plan.crash_us / 32 + 1), SIM_CRASH,
		       node, 0);
		return;
	}
	sim->count.faults++;
	sim_node_crash(sim, node);
	down = down_us[sim_below(sim, SIM_RNG_CRASH, 5)];
	down = down ? down * 1000 : sim->plan.dead_us * 1000;
	sim_at(sim, sim->now + sim_below(sim, SIM_RNG_CRASH, down), SIM_CRASH, node, 1);
	sim_at(sim, next_fault(sim, SIM_RNG_CRASH, sim->plan.crash_us), SIM_CRASH,
	       (uint32_t)sim_below(sim, SIM_RNG_CRASH, sim->plan.nodes), 0);
}

static void on_pause(struct sim *sim, uint32_t node)
{
	static const uint32_t us[] = {10, 1000, 100000, 1000000, 0};
	struct sim_node *n = &sim->node[node];
	lend_ns t;

	if (sim->healing)
		return;
	sim->count.faults++;
	t = us[sim_below(sim, SIM_RNG_PAUSE, 5)];
	t = 1 + sim_below(sim, SIM_RNG_PAUSE, (t ? t : sim->plan.dead_us * 5 / 4) * 1000);
	if (n->up) {
		sim_marks_fault(&sim->marks, offsetof(struct sim_marks, paused_none), n);
		sim_trace_add(&sim->trace, sim->now, "pauses for ns", node, node, t, 0);
		n->paused = sim->now + t;
		n->turn = LEND_NEVER;
		sim_node_kick(sim, node);
	}
	sim_at(sim, next_fault(sim, SIM_RNG_PAUSE, sim->plan.pause_us), SIM_PAUSE,
	       (uint32_t)sim_below(sim, SIM_RNG_PAUSE, sim->plan.nodes), 0);
}

static void audit_nodes(struct sim *sim)
{
	sim->count.audits++;
	for (uint32_t i = 0; i < sim->plan.nodes; i++) {
		const char *why = sim->node[i].up ? sim_core_audit(sim->node[i].core) : NULL;

		SIM_CHECK(sim, !why, "node %u: audit: %s", i, why);
		if (sim->node[i].up)
			sim_marks_want(&sim->marks, &sim->node[i]);
	}
	sim_mem_audit(sim);
}

static void heal_all(struct sim *sim)
{
	sim->healing = true;
	sim_trace_add(&sim->trace, sim->now, "heals", 0, 0, 0, 0);
	sim_net_heal(sim);
	for (uint32_t i = 0; i < sim->plan.nodes; i++) {
		sim_node_birth(sim, i);
		sim->node[i].paused = lend_min_u64(sim->node[i].paused, sim->now);
		sim->node[i].turn = LEND_NEVER;
		sim_node_kick(sim, i);
	}
	sim_work_heal(sim);
	sim_hoard_heal(sim);
	sim->calm_since = sim->now;
	sim_at(sim, sim->now + MS, SIM_DONE, 0, 0);
}

/* Returns NULL when all calls have ended and only sessions are left; else what is still held. */
static const char *find_held(struct sim *sim)
{
	const char *why = sim_work_unfinished(sim);

	if (!why)
		why = sim_mem_unfinished(sim);
	for (uint32_t i = 0; i < sim->plan.nodes && !why; i++)
		why = sim_core_quiet(sim->node[i].core);
	return why;
}

static void calls_ended(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->plan.nodes; i++) {
		struct sim_node *n = &sim->node[i];

		SIM_CHECK(sim, n->bufs_out == n->core->supply_n,
			  "node %u: %u buffers are in use, %u of them in the core's pool", i,
			  n->bufs_out, n->core->supply_n);
	}
	audit_nodes(sim);
}

static void hang_up(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->plan.nodes; i++) {
		for (uint32_t k = 0; k < sim->plan.nodes; k++)
			lend_core_disconnect(sim->node[i].core, sim->node[i].link[k].session);
		sim_node_kick(sim, i);
	}
}

/* Returns NULL when sessions are closed too and nothing is left; else what is. */
static const char *open_still(struct sim *sim)
{
	const char *why = find_held(sim);

	for (uint32_t i = 0; i < sim->plan.nodes && !why; i++) {
		const struct sim_node *n = &sim->node[i];

		if (n->core->free_sess.free != n->cfg.sessions || n->core->timers)
			why = "a session or a timer is left";
		for (uint32_t k = 0; k < sim->plan.nodes + SIM_STRANGERS && !why; k++)
			why = n->link[k].kept ? "a peer is still kept" : NULL;
	}
	return why || sim_net_idle(sim) ? why : "a datagram is still on its way";
}

/* Checks again and again at growing intervals. When all calls have ended it closes the sessions;
 * when these are gone the run ends. */
static bool check_quiet(struct sim *sim, uint32_t closing)
{
	lend_ns since = sim->now - sim->calm_since, most = settle_bound(&sim->plan);
	const char *why = closing ? open_still(sim) : find_held(sim);

	if (!why) {
		calls_ended(sim);
		for (uint32_t i = 0; closing && i < sim->plan.nodes; i++)
			sim_marks_life(&sim->marks, &sim->node[i]);
		if (closing) {
			sim_oracle_end(sim);
			return false;
		}
		hang_up(sim);
		sim->calm_since = sim->now;
		sim_at(sim, sim->now + MS, SIM_DONE, 0, 1);
		return true;
	}
	SIM_CHECK(sim, since < most, "after the bound: %s", why);
	sim_at(sim, sim->now + lend_min_u64(since / 2 + MS, most - since), SIM_DONE, 0, closing);
	return true;
}

/* False: the run is over. */
static bool run_step(struct sim *sim, const struct sim_event *e)
{
	uint8_t what = (uint8_t)e->order;

	switch ((enum sim_what)what) {
	case SIM_ARRIVE:
	case SIM_PORT:
	case SIM_PARTITION:
		sim_net_event(sim, what, e->a, e->b);
		return true;
	case SIM_TURN:
		sim_node_wake(sim, e->a, e->b);
		return true;
	case SIM_WORK:
	case SIM_ANSWER:
	case SIM_CANCEL:
		sim_work_event(sim, what, e->a, e->b);
		return true;
	case SIM_MEM:
		sim_mem_event(sim, e->a);
		return true;
	case SIM_CRASH:
		on_crash(sim, e->a, e->b);
		return true;
	case SIM_PAUSE:
		on_pause(sim, e->a);
		return true;
	case SIM_HOARD:
		sim_hoard_event(sim);
		return true;
	case SIM_HEAL:
		heal_all(sim);
		return true;
	case SIM_DONE:
		return check_quiet(sim, e->b);
	case SIM_AUDIT:
	case SIM_WHATS:
		break;
	}
	sim_fail(sim, "an event of kind %u", what);
}

static void begin_run(struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;

	sim_net_open(sim);
	sim_oracle_seals_open(sim);
	sim_node_open(sim);
	sim_mem_open(sim);
	sim_work_open(sim);
	sim_hoard_open(sim);
	for (uint32_t i = 0; i < p->nodes; i++)
		sim_net_foreign(sim, i);
	if (p->crash_us)
		sim_at(sim, next_fault(sim, SIM_RNG_CRASH, p->crash_us), SIM_CRASH,
		       (uint32_t)sim_below(sim, SIM_RNG_CRASH, p->nodes), 0);
	if (p->pause_us)
		sim_at(sim, next_fault(sim, SIM_RNG_PAUSE, p->pause_us), SIM_PAUSE,
		       (uint32_t)sim_below(sim, SIM_RNG_PAUSE, p->nodes), 0);
	sim_at(sim, SIM_START + (p->span_us + p->idle_us) * 1000, SIM_HEAL, 0, 0);
}

static void run_all(struct sim *sim)
{
	uint64_t every = sim->plan.audit, next = every;
	struct sim_event e;

	begin_run(sim);
	do {
		SIM_CHECK(sim, sim->heap.n > 0, "no event is left");
		SIM_CHECK(sim, sim->count.events < EVENTS_MAX, "it does not end");
		if (every && ++sim->count.events == next) {
			next += every;
			audit_nodes(sim);
		}
		e = sim_heap_pop(&sim->heap);
		sim->now = e.at;
	} while (run_step(sim, &e));
}

bool sim_run(struct sim *sim, const struct sim_plan *plan)
{
	memset(sim, 0, sizeof(*sim));
	sim->plan = *plan;
	sim->now = SIM_START;
	open_streams(sim);
	running = sim;
	if (setjmp(sim->out) == 0)
		run_all(sim);
	running = NULL;
	if (sim->why[0] && sim_print_cores)
		trace_nodes(sim);
	sim_hoard_close(sim);
	sim_work_close(sim);
	sim_mem_close(sim);
	sim_node_close(sim);
	sim_oracle_seals_close(sim);
	sim_net_close(sim);
	free(sim->heap.e);
	sim->heap = (struct sim_heap){0};
	return !sim->why[0];
}
