/* cost_probe - see cost_probe.h. A session is measured by calls of a method that no server has,
 * which is answered after all bytes arrived; a node by put, get and release. The minimum of several
 * rounds counts, because other work can only add to the time. */
#include "cn/args/cost_probe.h"

#include <string.h>

#include "cn/deferred_release.h"

#define METHOD 0x4c454e47u           /* "LENG": no server has it */
#define AGAIN  UINT64_C(10000000000) /* pause after a failure */

enum { ROUNDS = 8 };

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
		line->cost[kind].ns[run->point] = run->best[kind];
		line->cost[kind].known = run->point + 1;
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

/* Both ends of a session on shared memory map the other's. */
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
	struct lend_buf *head = lend_buf_take(g->mem->ep, kind == CN_COST_NEXT ? len : 8);

	if (!head)
		return NULL;
	head->len = kind == CN_COST_NEXT ? len : 8;
	memcpy(head->data, g->bytes, head->len);
	if (kind == CN_COST_NEXT || len <= 4096)
		return head;
	head->next = lend_buf_wrap(g->mem->ep, g->bytes, len, wrap_gone, g);
	g->wraps += head->next != NULL;
	if (head->next)
		return head;
	lend_buf_give(g->mem->ep, head);
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

/* The get has ended, with the bytes or without; the reference is released in both cases. */
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

static bool wants_run(const struct cn_probe_run *run, const struct cn_costs *line,
		      enum cn_cost_kind kind, uint32_t points, lend_ns now)
{
	return !run->active && line->cost[kind].known < points && now >= line->again;
}

/* Starts what is needed and not known. */
void cn_probe_start(struct cn_threshold *g, lend_session session, uint16_t node, uint32_t points)
{
	lend_ns now = lend_now(g->mem->ep);
	struct cn_costs *line = cn_probe_session(g, session);

	if (g->mem->closing)
		return;
	if (wants_run(&g->calls, line, CN_COST_FIRST, points, now)) {
		begin_run(&g->calls, CN_COST_FIRST, line->cost[CN_COST_FIRST].known);
		g->called = session;
		start_call(g);
	}
	if (node == CN_NODES_MAX)
		return;
	if (wants_run(&g->puts, &g->node[node], CN_COST_PUT_GET, points, now)) {
		begin_run(&g->puts, CN_COST_PUT_GET, g->node[node].cost[CN_COST_PUT_GET].known);
		g->at = node;
		start_put(g);
	}
}
