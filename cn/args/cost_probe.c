/* cost_probe - see cost_probe.h. A session is measured by calls of a method that no server has,
 * which is answered after all bytes arrived; a node by put, get and release. The minimum of several
 * rounds counts, because other work can only add to the time. */
#include "cn/args/cost_probe.h"

#include <string.h>

#include "cn/args/args.h"
#include "cn/deferred_release.h"
#include "wire/arg.h"

#define METHOD 0x4c454e47u           /* "LENG": no server has it */
#define AGAIN  UINT64_C(10000000000) /* pause after a failure */

/* Shortest and longest pause before a known cost is measured again, and the calls between two reads
 * of the clock for that. */
#define RENEW_MIN UINT64_C(20000000)
#define RENEW_MAX UINT64_C(10000000000)

enum { ROUNDS = 8, RENEW_CALLS = 32 };

static void note_best(struct cn_probe_run *run, lend_ns now)
{
	uint64_t *best = &run->best[run->kind], ns = now - run->since;

	if (!*best || ns < *best)
		*best = ns ? ns : 1;
}

static void begin_run(struct cn_probe_run *run, enum cn_cost_kind kind, uint32_t point)
{
	*run = (struct cn_probe_run){.active = true, .kind = kind, .point = point};
}

/* Moves to the next call of a run. Returns true if the run is over. */
static bool next_round(struct cn_probe_run *run, struct cn_costs *line)
{
	bool calls = run->kind != CN_COST_PUT_GET;

	if (calls)
		run->kind = run->kind == CN_COST_FIRST ? CN_COST_NEXT : CN_COST_FIRST;
	if (run->kind != CN_COST_NEXT && ++run->round < ROUNDS)
		return false;
	if (run->kind == CN_COST_NEXT)
		return false;
	for (int kind = calls ? CN_COST_FIRST : CN_COST_PUT_GET;
	     kind < (calls ? CN_COST_PUT_GET : CN_COST_KINDS); kind++) {
		struct cn_cost *cost = &line->cost[kind];
		uint64_t *ns = &cost->ns[run->point];

		*ns =
		    run->point < cost->known ? lend_min_u64(*ns, run->best[kind]) : run->best[kind];
		cost->known = lend_max_u32(cost->known, run->point + 1);
	}
	run->active = false;
	return true;
}

static void give_up(struct cn_threshold *g, struct cn_probe_run *run, struct cn_costs *line)
{
	run->active = false;
	line->again = lend_now(g->mem->ep) + AGAIN;
}

struct cn_costs *cn_probe_session(struct cn_threshold *g, lend_session session)
{
	uint32_t i = (uint32_t)(session.id * 0x9e3779b97f4a7c15u >> 56);

	if (g->session[i].id != session.id) {
		memset(&g->session[i].line, 0, sizeof(g->session[i].line));
		g->session[i].id = session.id;
	}
	return &g->session[i].line;
}

static void start_call(struct cn_threshold *g);

/* Ends the measurement of a session. in_place: on shared memory each end maps the other's memory,
 * so the peer reads ours in place if its memory is mapped here. */
static void end_calls(struct cn_threshold *g)
{
	struct lend_peer_memory memory;

	cn_probe_session(g, g->called)->in_place =
	    lend_session_memory(g->mem->ep, g->called, &memory) == 0;
	g->version++;
}

static void call_done(struct lend_call *call_of)
{
	struct cn_threshold *g =
	    (struct cn_threshold *)((char *)call_of - offsetof(struct cn_threshold, call));
	struct lend_ep *ep = g->mem->ep;

	g->calling = false;
	if (call_of->request)
		lend_buf_give(ep, call_of->request);
	if (call_of->reply)
		lend_buf_give(ep, call_of->reply);
	if (call_of->status != LEND_UNIMPLEMENTED || g->mem->closing) {
		give_up(g, &g->calls, cn_probe_session(g, g->called));
		return;
	}
	note_best(&g->calls, lend_now(ep));
	if (next_round(&g->calls, cn_probe_session(g, g->called)))
		end_calls(g);
	else
		start_call(g);
}

static void wrap_gone(void *of)
{
	((struct cn_threshold *)of)->wraps--;
}

/* Makes a message as the first service gets it, or as a service passes it on. NULL: no memory. */
static struct lend_buf *make_message(struct cn_threshold *g, enum cn_cost_kind kind, uint32_t len)
{
	bool whole = kind == CN_COST_NEXT || len <= CN_ARGS_COPY_MAX;
	uint32_t copied = LEND_ARG_HEAD + (whole ? len : 0);
	struct lend_buf *buf = lend_buf_take(g->mem->ep, copied);

	if (!buf)
		return NULL;
	buf->len = copied;
	memcpy(buf->data, g->bytes, copied);
	if (whole)
		return buf;
	buf->next = lend_buf_wrap(g->mem->ep, g->bytes, len, wrap_gone, g);
	g->wraps += buf->next != NULL;
	if (buf->next)
		return buf;
	lend_buf_give(g->mem->ep, buf);
	return NULL;
}

static void start_call(struct cn_threshold *g)
{
	struct lend_ep *ep = g->mem->ep;
	struct lend_buf *buf;

	g->calls.since = lend_now(ep);
	buf = make_message(g, g->calls.kind, cn_cost_len[g->calls.point]);
	g->call = (struct lend_call){
	    .method = METHOD, .timeout = CN_PROBE_TIMEOUT, .request = buf, .done = call_done};
	g->calling = buf && lend_call_start(ep, g->called, &g->call) == 0;
	if (g->calling)
		return;
	if (buf)
		lend_buf_give(ep, buf);
	give_up(g, &g->calls, cn_probe_session(g, g->called));
}

static struct cn_threshold *of_op(struct lend_op *op)
{
	return (struct cn_threshold *)((char *)op - offsetof(struct cn_threshold, op));
}

static void stop_puts(struct cn_threshold *g)
{
	give_up(g, &g->puts, &g->node[g->at]);
}

static void start_put(struct cn_threshold *g);

/* Releases the reference after the get, whether it got the bytes or not. */
static void get_done(struct lend_op *op)
{
	struct cn_threshold *g = of_op(op);
	struct lend_mem *mem = g->mem;

	note_best(&g->puts, lend_now(mem->ep));
	cn_deferred_add(mem, &op->ref, true);
	if (op->status != LEND_OK || mem->closing)
		stop_puts(g);
	else if (!next_round(&g->puts, &g->node[g->at]))
		start_put(g);
	else
		g->version++;
	cn_pump(mem);
}

static void put_done(struct lend_op *op)
{
	struct cn_threshold *g = of_op(op);
	struct lend_ref ref = op->ref;

	if (op->status != LEND_OK) {
		cn_deferred_unreserve(g->mem, 1);
		stop_puts(g);
		return;
	}
	*op = (struct lend_op){.timeout = CN_PROBE_TIMEOUT, .done = get_done};
	if (lend_get(g->mem, &ref, 0, &g->iov, 1, op) == 0)
		return;
	cn_deferred_add(g->mem, &ref, true);
	stop_puts(g);
}

static void start_put(struct cn_threshold *g)
{
	bool room = cn_deferred_reserve(g->mem, 1) == 0;

	g->iov = (struct iovec){g->bytes, cn_cost_len[g->puts.point]};
	g->op = (struct lend_op){
	    .timeout = CN_PROBE_TIMEOUT, .node = (uint16_t)(g->at + 1), .done = put_done};
	g->puts.since = lend_now(g->mem->ep);
	if (room && lend_put(g->mem, &g->iov, 1, NULL, &g->op) == 0)
		return;
	if (room)
		cn_deferred_unreserve(g->mem, 1);
	stop_puts(g);
}

/* Returns the point to measure now: the next one that is not known, or from time to time a known
 * one, because other work may have raised its cost. CN_COST_POINTS: none. */
static uint32_t choose_point(const struct cn_probe_run *run, struct cn_costs *line,
			     enum cn_cost_kind kind, uint32_t points, lend_ns now)
{
	uint32_t known = line->cost[kind].known;

	if (run->active || now < line->again)
		return CN_COST_POINTS;
	if (known < points)
		return known;
	if (now < line->renew_at)
		return CN_COST_POINTS;
	line->renew_after =
	    lend_min_u64(lend_max_u64(line->renew_after * 3 / 2, RENEW_MIN), RENEW_MAX);
	line->renew_at = now + line->renew_after;
	return line->renewed++ % known;
}

/* Starts the measurement of a cost that is needed and unknown, or of a known one that is due again.
 */
void cn_probe_start(struct cn_threshold *g, lend_session session, uint16_t node, uint32_t points)
{
	struct cn_costs *line = cn_probe_session(g, session);
	bool lacks = line->cost[CN_COST_FIRST].known < points ||
		     (node != CN_NODES_MAX && g->node[node].cost[CN_COST_PUT_GET].known < points);
	uint32_t point;
	lend_ns now;

	if (g->mem->closing || (!lacks && ++g->asked % RENEW_CALLS))
		return;
	now = lend_now(g->mem->ep);
	point = choose_point(&g->calls, line, CN_COST_FIRST, points, now);
	if (point < CN_COST_POINTS) {
		begin_run(&g->calls, CN_COST_FIRST, point);
		g->called = session;
		start_call(g);
	}
	if (node == CN_NODES_MAX)
		return;
	point = choose_point(&g->puts, &g->node[node], CN_COST_PUT_GET, points, now);
	if (point < CN_COST_POINTS) {
		begin_run(&g->puts, CN_COST_PUT_GET, point);
		g->at = node;
		start_put(g);
	}
}
