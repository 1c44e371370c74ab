/* inline_threshold - the length from which an argument is passed by reference, from measurements.
 *
 * Costs (costs.h) are measured as far as arguments need them. A session's costs are measured by
 * calls of a method that no server has, which is answered after all bytes have arrived; a node's by
 * put, get and release. The minimum of several rounds counts, because other work can only add to
 * the time. A threshold moves when the new one differs by more than a tenth. One session and one
 * node are measured at a time, while the endpoint does its other work. Layer: cn. Threads: the
 * endpoint's. */
#include "cn/args/inline_threshold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/args/args.h"
#include "cn/args/cost_probe.h"
#include "cn/deferred_release.h"
#include "lend/alloc.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "wire/arg.h"

#define UNKNOWN (UINT64_C(32) << 10) /* threshold while costs are not known */

enum { PROBE_BYTES = LEND_ARG_HEAD + CN_COST_LEN_MAX };
enum { HOPS_MAX = 32, HOPS_FIRST = 2 };
enum { TRIAL_MIN = 2 * CN_ARGS_COPY_MAX }; /* bytes; shorter ones belong to the first trial, too */

static struct cn_probe_method *method_of(struct cn_threshold *g, lend_session session,
					 uint32_t number)
{
	uint64_t mixed = (session.id ^ (uint64_t)number << 32) * 0x9e3779b97f4a7c15u;
	struct cn_probe_method *m = &g->method[mixed >> 56];

	if (m->session != session.id || m->number != number)
		*m = (struct cn_probe_method){.session = session.id, .number = number};
	return m;
}

/* Returns the points that a decision about len bytes needs. */
static uint32_t points_for(uint64_t len)
{
	return len <= cn_cost_len[1] ? 2 : len <= cn_cost_len[2] ? 3 : CN_COST_POINTS;
}

static bool differs_by_tenth(uint64_t a, uint64_t b)
{
	return a > b ? a - b > b / 10 : b - a > a / 10;
}

/* Computes a method's threshold again; it moves only by more than a tenth. */
static void update_method(const struct cn_threshold *g, struct cn_probe_method *m,
			  const struct cn_costs *line, const struct cn_costs *node)
{
	double hops = m->hops16 ? m->hops16 / 16.0 : HOPS_FIRST;
	uint64_t max = cn_costs_crossing(line, node, hops) - 1;

	if (!m->by[!node].version || differs_by_tenth(max, m->by[!node].inline_max))
		m->by[!node].inline_max = max;
	m->by[!node].hops16 = m->hops16;
	m->by[!node].version = g->version;
}

/* Returns the node that the next put would take; CN_NODES_MAX: none. */
static uint16_t node_of(const struct lend_mem *mem)
{
	return mem->n_named ? (uint16_t)(mem->next_node % mem->n_named) : CN_NODES_MAX;
}

static struct cn_threshold *make_state(struct lend_mem *mem)
{
	struct cn_threshold *g = mem->threshold;

	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (g)
		g->mem = mem;
	return mem->threshold = g;
}

/* As make_state(), with the memory that is sent to measure. */
static struct cn_threshold *make_probes(struct lend_mem *mem)
{
	struct cn_threshold *g = make_state(mem);

	if (!g || g->bytes)
		return g;
	g->bytes = lend_malloc_shared(PROBE_BYTES);
	if (!g->bytes)
		g->bytes = lend_malloc(PROBE_BYTES);
	if (!g->bytes)
		return NULL;
	memset(g->bytes, 0, PROBE_BYTES);
	return g;
}

static bool is_known(const struct cn_costs *line, const struct cn_costs *node)
{
	return line->cost[CN_COST_NEXT].known > 1 &&
	       (!node || node->cost[CN_COST_PUT_GET].known > 1);
}

uint64_t cn_threshold(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
		      bool lent)
{
	struct cn_threshold *g = make_probes(mem);
	uint16_t at = lent ? CN_NODES_MAX : node_of(mem);
	const struct cn_costs *node;
	struct cn_probe_method *m;

	if (!g || (!lent && at == CN_NODES_MAX))
		return g ? LEND_NEVER : UNKNOWN;
	node = lent ? NULL : &g->node[at];
	cn_probe_start(g, session, at, points_for(len));
	m = method_of(g, session, method);
	if (!is_known(cn_probe_session(g, session), node))
		return UNKNOWN;
	if (m->by[lent].hops16 != m->hops16 || m->by[lent].version != g->version)
		update_method(g, m, cn_probe_session(g, session), node);
	return m->by[lent].inline_max;
}

/* Returns the trial that a length belongs to. */
static struct cn_way_trial *trial_of(struct cn_threshold *g, lend_session session, uint32_t method,
				     uint64_t len)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(len | TRIAL_MIN);
	uint32_t range = bits - (63 - (uint32_t)__builtin_clzll(TRIAL_MIN));

	return &method_of(g, session, method)->trial[lend_min_u32(range, CN_PROBE_TRIALS - 1)];
}

bool cn_threshold_lends(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
			uint8_t *tag)
{
	bool lends = len > cn_threshold(mem, session, method, len, true);

	*tag = 0;
	if (!lends || cn_threshold_passed_on(mem, session, method) ||
	    !cn_probe_session(mem->threshold, session)->in_place ||
	    len + LEND_ARG_HEAD > lend_session_message_max(mem->ep, session))
		return lends;
	return cn_trial_choose(trial_of(mem->threshold, session, method, len), tag);
}

void cn_threshold_tried(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
			uint8_t tag, lend_ns time)
{
	if (mem->threshold)
		cn_trial_ended(trial_of(mem->threshold, session, method, len), tag, time);
}

void cn_threshold_learn(struct lend_mem *mem, lend_session session, uint32_t method, uint8_t hops)
{
	uint32_t now16 = 16 * lend_min_u32(hops, HOPS_MAX);
	struct cn_probe_method *m;

	if (!make_state(mem))
		return;
	m = method_of(mem->threshold, session, method);
	m->hops16 = m->hops16 ? (7 * m->hops16 + now16 + 4) / 8 : now16;
}

bool cn_threshold_passed_on(struct lend_mem *mem, lend_session session, uint32_t method)
{
	uint32_t hops16 = make_state(mem) ? method_of(mem->threshold, session, method)->hops16 : 0;

	return !hops16 || hops16 >= 16 * HOPS_FIRST;
}

uint64_t lend_args_threshold(struct lend_mem *mem, lend_session session, uint32_t method)
{
	bool lent;

	if (mem->inline_max != LEND_NEVER)
		return mem->inline_max;
	lent = mem->lender && mem->way != LEND_ARG_NODE;
	return cn_threshold(mem, session, method, 0, lent);
}

/* Measures all cn_cost_len on the session, and on one node after the other. */
int lend_args_measure(struct lend_mem *mem, lend_session session)
{
	lend_ns until = lend_now(mem->ep) + CN_PROBE_TIMEOUT;
	struct cn_threshold *g = make_probes(mem);
	int rc = lend_poll(mem->ep);

	if (rc >= 0 && !g)
		return lend_fail(ENOMEM, "no memory to measure with");
	if (rc >= 0)
		memset(cn_probe_session(g, session), 0, sizeof(struct cn_costs));
	for (uint16_t i = 0; rc >= 0 && i <= mem->n_named; i++) {
		uint16_t node = i < mem->n_named ? i : CN_NODES_MAX;

		for (uint32_t points = 2; points <= CN_COST_POINTS && rc >= 0; points++) {
			cn_probe_start(g, session, node, points);
			while (rc >= 0 && (g->calls.active || g->puts.active) &&
			       lend_now(mem->ep) < until)
				rc = lend_wait(mem->ep, until);
		}
	}
	return rc < 0 ? rc : 0;
}

bool cn_threshold_busy(const struct lend_mem *mem)
{
	return mem->threshold && (mem->threshold->calling || mem->threshold->wraps);
}

void cn_threshold_cancel(struct lend_mem *mem)
{
	if (mem->threshold && mem->threshold->calling)
		lend_call_cancel(mem->ep, &mem->threshold->call);
}

void cn_threshold_drop(struct lend_mem *mem)
{
	if (mem->threshold && mem->threshold->wraps)
		return; /* a carrier may still read it */
	if (mem->threshold)
		lend_free(mem->threshold->bytes);
	free(mem->threshold);
}
