/* inline_threshold - the length from which an argument is passed by reference, from measurements.
 *
 * Sent inline, an argument costs a call and its bytes at each hop. By reference, it costs a put and
 * a get, once. Both costs are nearly linear in the length, so two lengths determine each. A session
 * is measured by calls of a method that no server has (answered UNIMPLEMENTED, after all bytes
 * arrived); a node by put, get and release. The minimum of ROUNDS counts, because other work can
 * only add to the time. An argument is assumed to take HOPS hops before it is read. One session and
 * one node are measured at a time, while the endpoint does its other work.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/args/inline_threshold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/deferred_release.h"
#include "sys/last_error.h"
#include "util/bits.h"

#define METHOD    0x4c454e47u /* "LENG": no server has it */
#define TIMEOUT   UINT64_C(1000000000)
#define AGAIN     UINT64_C(10000000000) /* pause after a failure */
#define FIRST     (UINT64_C(32) << 10)  /* used until it is known */
#define LIMIT_MIN (UINT64_C(1) << 10)
#define LIMIT_MAX (UINT64_C(512) << 10)

enum { SMALL = 64, BULK = 60000, ROUNDS = 16, HOPS = 4, SESSIONS = 256 };

/* Nanoseconds for SMALL and for BULK bytes; 0: unknown. */
struct line {
	uint64_t ns[2];
	lend_ns again; /* no measurement before this time */
};

/* One measurement: SMALL and BULK alternate, ROUNDS of each. */
struct run {
	bool active;
	uint32_t round;
	lend_ns since;
	uint64_t best[2];
};

struct cn_threshold {
	struct lend_mem *mem;
	struct {
		uint64_t id;
		struct line line;
	} session[SESSIONS];
	struct line node[CN_NODES_MAX];
	struct run calls, puts;
	lend_session called; /* the session that calls measure */
	bool calling;
	uint16_t at; /* the node that puts measure */
	struct lend_call call;
	struct lend_op op;
	struct iovec iov;
	char bytes[BULK];
};

static uint64_t len_of(const struct run *run)
{
	return run->round % 2 ? BULK : SMALL;
}

static void note_best(struct run *run, lend_ns now)
{
	uint64_t *best = &run->best[run->round % 2], ns = now - run->since;

	if (!*best || ns < *best)
		*best = ns ? ns : 1;
}

/* Returns true if the measurement is over. */
static bool next_round(struct run *run, struct line *line)
{
	if (++run->round < 2 * ROUNDS)
		return false;
	memcpy(line->ns, run->best, sizeof(line->ns));
	run->active = false;
	return true;
}

static void give_up(struct cn_threshold *g, struct run *run, struct line *line)
{
	run->active = false;
	line->again = lend_now(g->mem->ep) + AGAIN;
}

static struct line *line_of(struct cn_threshold *g, lend_session session)
{
	uint32_t i = (uint32_t)(session.id * 0x9e3779b97f4a7c15u >> 56);

	if (g->session[i].id != session.id) {
		memset(&g->session[i].line, 0, sizeof(g->session[i].line));
		g->session[i].id = session.id;
	}
	return &g->session[i].line;
}

static void start_call(struct cn_threshold *g);

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
		give_up(g, &g->calls, line_of(g, g->called));
		return;
	}
	note_best(&g->calls, lend_now(ep));
	if (!next_round(&g->calls, line_of(g, g->called)))
		start_call(g);
}

static void start_call(struct cn_threshold *g)
{
	struct lend_ep *ep = g->mem->ep;
	struct lend_buf *buf = lend_buf_take(ep, (uint32_t)len_of(&g->calls));

	g->call = (struct lend_call){
	    .method = METHOD, .timeout = TIMEOUT, .request = buf, .done = call_done};
	if (buf) {
		buf->len = (uint32_t)len_of(&g->calls);
		memset(buf->data, 0, buf->len);
	}
	g->calls.since = lend_now(ep);
	g->calling = buf && lend_call_start(ep, g->called, &g->call) == 0;
	if (g->calling)
		return;
	if (buf)
		lend_buf_give(ep, buf);
	give_up(g, &g->calls, line_of(g, g->called));
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
	*op = (struct lend_op){.timeout = TIMEOUT, .done = get_done};
	if (lend_get(g->mem, &ref, 0, &g->iov, 1, op) == 0)
		return;
	cn_deferred_add(g->mem, &ref, true);
	stop_puts(g);
}

static void start_put(struct cn_threshold *g)
{
	bool room = cn_deferred_reserve(g->mem, 1) == 0;

	g->iov = (struct iovec){g->bytes, len_of(&g->puts)};
	g->op =
	    (struct lend_op){.timeout = TIMEOUT, .node = (uint16_t)(g->at + 1), .done = put_done};
	g->puts.since = lend_now(g->mem->ep);
	if (room && lend_put(g->mem, &g->iov, 1, NULL, &g->op) == 0)
		return;
	if (room)
		cn_deferred_unreserve(g->mem, 1);
	stop_puts(g);
}

static bool wants_run(const struct run *run, const struct line *line, lend_ns now)
{
	return !run->active && !line->ns[0] && now >= line->again;
}

static void start_measure(struct cn_threshold *g, lend_session session, uint16_t node)
{
	lend_ns now = lend_now(g->mem->ep);

	if (g->mem->closing)
		return;
	if (wants_run(&g->calls, line_of(g, session), now)) {
		g->calls = (struct run){.active = true};
		g->called = session;
		start_call(g);
	}
	if (wants_run(&g->puts, &g->node[node], now)) {
		g->puts = (struct run){.active = true};
		g->at = node;
		start_put(g);
	}
}

/* Returns the length at which HOPS * (call + bytes) is put + get + HOPS * call: the calls cancel
 * out. */
static uint64_t crossing_len(const struct line *hop, const struct line *node)
{
	const double span = BULK - SMALL;
	double sent = hop->ns[1] > hop->ns[0] ? (double)(hop->ns[1] - hop->ns[0]) / span : 0;
	double lent = node->ns[1] > node->ns[0] ? (double)(node->ns[1] - node->ns[0]) / span : 0;
	double gain = HOPS * sent - lent, bytes;

	if (gain <= 0) /* the bytes cost nothing to send if they are read in place */
		return LIMIT_MAX;
	bytes = (double)node->ns[0] / gain;
	return bytes >= (double)LIMIT_MAX ? LIMIT_MAX : lend_max_u64((uint64_t)bytes, LIMIT_MIN);
}

uint64_t cn_threshold(struct lend_mem *mem, lend_session session, uint16_t node)
{
	struct cn_threshold *g = mem->threshold;
	const struct line *hop;

	if (!g) {
		g = mem->threshold = calloc(1, sizeof(*g));
		if (!g)
			return FIRST;
		g->mem = mem;
	}
	start_measure(g, session, node);
	hop = line_of(g, session);
	return hop->ns[0] && g->node[node].ns[0] ? crossing_len(hop, &g->node[node]) : FIRST;
}

/* Measures one node after the other, and the session together with the first. */
int lend_args_measure(struct lend_mem *mem, lend_session session)
{
	lend_ns until = lend_now(mem->ep) + TIMEOUT;
	int rc = lend_poll(mem->ep);

	for (uint16_t i = 0; i < mem->n_named && rc >= 0; i++) {
		(void)cn_threshold(mem, session, i);
		if (!mem->threshold)
			return lend_fail(ENOMEM, "no memory to measure with");
		memset(&mem->threshold->node[i], 0, sizeof(mem->threshold->node[i]));
		if (!i)
			memset(line_of(mem->threshold, session), 0, sizeof(struct line));
		(void)cn_threshold(mem, session, i);
		while (rc >= 0 && (mem->threshold->calls.active || mem->threshold->puts.active) &&
		       lend_now(mem->ep) < until)
			rc = lend_wait(mem->ep, until);
	}
	return rc < 0 ? rc : 0;
}

bool cn_threshold_busy(const struct lend_mem *mem)
{
	return mem->threshold && mem->threshold->calling;
}

void cn_threshold_cancel(struct lend_mem *mem)
{
	if (cn_threshold_busy(mem))
		lend_call_cancel(mem->ep, &mem->threshold->call);
}

void cn_threshold_drop(struct lend_mem *mem)
{
	free(mem->threshold);
}
