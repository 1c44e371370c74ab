/* lent_call - callers: calls that lend memory, which is used for something else once they are done,
 * and calls that pass a received argument on. Layer: test/sim. */
#include <string.h>

#include "sim/lent/lent.h"
#include "sim/lent/lent_serve.h"
#include "sim/memory/mem_bytes.h"

#define NEVER_US UINT64_C(30000) /* the timeout of calls without a deadline of their own */

static struct lent_block *take_block(enum lent_stream stream, uint32_t *index)
{
	uint32_t first = (uint32_t)lent_below(stream, LENT_BLOCKS);

	for (uint32_t i = 0; i < LENT_BLOCKS; i++) {
		*index = (first + i) % LENT_BLOCKS;
		if (lent->block[*index].used)
			continue;
		lent->block[*index].used = true;
		return &lent->block[*index];
	}
	return NULL;
}

/* Gives back the memory, with other bytes: the next use of it. */
static void reuse_block(const struct lent_call *c)
{
	struct lent_block *b = &lent->block[c->block];

	mem_fill(b->at, c->version | UINT64_C(1) << 39, 0, c->len);
	b->used = false;
}

static void check_status(const struct lent_call *c)
{
	static const uint32_t fine = 1 << LEND_OK | 1 << LEND_CANCELLED | 1 << LEND_NOT_FOUND |
				     1 << LEND_DEADLINE_EXCEEDED | 1 << LEND_RESOURCE_EXHAUSTED |
				     1 << LEND_UNAVAILABLE;

	LENT_CHECK(fine >> c->call.status & 1, "call %u ends with %d", c->id, c->call.status);
	LENT_CHECK(c->call.status != LEND_OK || !c->torn,
		   "call %u is OK, and its server saw other bytes", c->id);
	LENT_CHECK(!c->lent || c->ended != LEND_NEVER, "call %u is done, and its loan lasts",
		   c->id);
}

/* Finds the result in a reply, whose caller uses it later on, or never. */
static void take_result(const struct lent_call *c, const struct lend_buf *reply)
{
	struct lend_arg head, bytes;
	struct lent_head of;
	struct lent_call *result;
	uint32_t cursor = 0;

	if (lend_arg_next(reply, &cursor, &head) != 1)
		return;
	LENT_CHECK(lend_arg_next(reply, &cursor, &bytes) == 1 && head.len == sizeof(of),
		   "call %u: its reply is no result", c->id);
	memcpy(&of, head.bytes, sizeof(of));
	LENT_CHECK(of.call < lent->calls && lent->call[of.call].result,
		   "call %u: a result of no reply", c->id);
	result = &lent->call[of.call];
	if (bytes.bytes) {
		LENT_CHECK(mem_match(bytes.bytes, result->version, 0, bytes.len) == bytes.len,
			   "result %u: wrong bytes in the reply", of.call);
		return;
	}
	result->reader = c->node;
	result->reader_life = c->life;
	result->arg = bytes;
	result->arg.session = c->session;
	for (uint64_t i = lent_below(LENT_RESULT, 5); i; i--)
		lent_at(lent->now + lent_below(LENT_RESULT, LENT_TTL / 2), LENT_USE, of.call, 0);
}

static void call_done(struct lend_call *call)
{
	struct lent_call *c = (struct lent_call *)call;
	struct lent_node *n = &lent->node[c->node];

	LENT_CHECK(c->open, "call %u is done twice", c->id);
	lent_trace("call %u of node %u: done, status %d", c->id, c->node, call->status);
	if (call->status == LEND_OK)
		take_result(c, call->reply);
	if (call->reply)
		lend_buf_give(n->ep, call->reply);
	c->open = false;
	if (c->parent) {
		lent_serve_passed(c->parent, call->status);
		return;
	}
	check_status(c);
	reuse_block(c);
}

static struct lent_call *make_call(uint32_t node, uint32_t to)
{
	struct lent_call *c;

	LEND_CHECK(lent->calls < LENT_CALLS);
	c = &lent->call[lent->calls];
	memset(c, 0, sizeof(*c));
	c->id = lent->calls++;
	c->node = node;
	c->life = lent->node[node].life;
	c->to = to;
	c->ended = c->due = LEND_NEVER;
	c->open = true;
	c->call.timeout = NEVER_US * LENT_US;
	c->call.done = call_done;
	return c;
}

static uint32_t draw_other(enum lent_stream stream, uint32_t node)
{
	return (node + 1 + (uint32_t)lent_below(stream, lent->plan.nodes - 1)) % lent->plan.nodes;
}

/* Starts a call with two arguments: what it is, and its bytes, or a reference. */
static bool start_call(struct lent_call *c, enum lent_kind kind, const struct lend_argument *bytes)
{
	struct lent_node *n = &lent->node[c->node];
	struct iovec iov = {&c->head, sizeof(c->head)};
	struct lend_argument arg[2] = {{.data = &iov, .n = 1, .way = LEND_ARG_VALUE}, *bytes};
	lend_session session = lent_node_session(c->node, c->to, kind);
	struct lent_call *outer = lent->lending;
	int rc;

	if (!session.id)
		return false;
	c->session = session;
	lent->lending = c;
	n->busy++;
	rc = lend_call_start_argv(n->mem, session, &c->call, arg, 2);
	n->busy--;
	lent->lending = outer;
	return rc == 0;
}

static void draw_bytes(enum lent_stream stream, struct lent_call *c, struct lent_block *b)
{
	uint64_t most = lent_below(stream, 4) ? 8192 : lent->plan.len_max;
	uint64_t cut;

	c->len = 1 + lent_below(stream, most);
	c->version = c->id + 1;
	cut = lent_below(stream, 4) ? c->len : lent_below(stream, c->len);
	c->piece[0] = (struct iovec){b->at, cut};
	c->piece[1] = (struct iovec){b->at + cut, c->len - cut};
	mem_fill(b->at, c->version, 0, c->len);
}

static void draw_end(struct lent_call *c)
{
	if (lent_odds(LENT_CALLER, lent->plan.deadline_ppm))
		c->call.timeout = 1 + lent_below(LENT_CALLER, 3 * LENT_MS);
	if (lent_odds(LENT_CALLER, lent->plan.cancel_ppm))
		lent_at(lent->now + lent_below(LENT_CALLER, 2 * LENT_MS), LENT_CANCEL, c->id, 0);
	c->due = lent->now + c->call.timeout;
}

void lent_call_start(void)
{
	uint32_t node = (uint32_t)lent_below(LENT_CALLER, lent->plan.nodes), index;
	enum lent_kind kind = lent_odds(LENT_CALLER, lent->plan.udp_ppm) ? LENT_UDP : LENT_SHM;
	struct lent_block *b;
	struct lend_argument bytes = {.way = LEND_ARG_CALLER};
	struct lent_call *c;

	if (!lent->node[node].ep || lent->node[node].busy || lent->calls == LENT_CALLS)
		return;
	b = take_block(LENT_CALLER, &index);
	if (!b)
		return;
	c = make_call(node, draw_other(LENT_CALLER, node));
	c->call.method = LENT_METHOD + (uint32_t)lent_below(LENT_CALLER, LENT_METHODS);
	c->block = index;
	draw_bytes(LENT_CALLER, c, b);
	draw_end(c);
	bytes.data = c->piece;
	bytes.n = c->piece[1].iov_len ? 2 : 1;
	c->head.call = c->head.by = c->id;
	lent_trace("call %u of node %u to node %u over %s: %lu bytes", c->id, node, c->to,
		   kind == LENT_UDP ? "udp" : "shm", (unsigned long)c->len);
	if (start_call(c, kind, &bytes))
		return;
	LENT_CHECK(!c->lent || c->ended != LEND_NEVER, "a call that did not start lends");
	c->open = false;
	b->used = false;
}

/* Passes on the whole argument, or a slice of it. */
bool lent_call_pass(struct lent_request *r)
{
	uint64_t first = r->head.first;
	enum lent_kind kind = strncmp(r->arg.home, "udp", 3) == 0 ? LENT_UDP : LENT_SHM;
	uint64_t cut = lent_below(LENT_SERVER, r->arg.len);
	struct lend_ref ref = r->arg.ref;
	struct lend_argument bytes = {.ref = &ref, .home = r->arg.home};
	struct lent_call *c;

	if (lent->calls == LENT_CALLS)
		return false;
	if (lent_below(LENT_SERVER, 2) &&
	    lend_ref_slice(&r->arg.ref, cut, r->arg.len - cut, LEND_READ, &ref) == 0)
		first += cut;
	c = make_call(r->node, draw_other(LENT_SERVER, r->node));
	c->call.method = LENT_METHOD + (uint32_t)lent_below(LENT_CALLER, LENT_METHODS);
	c->call.parent = r->request;
	c->call.timeout = 0;
	c->head = (struct lent_head){r->head.call, c->id, r->head.depth + 1, first};
	c->parent = r;
	c->before = r->head.by;
	if (c->id % 4 == 0) /* not drawn; its reads are relayed */
		kind = kind == LENT_UDP ? LENT_SHM : LENT_UDP;
	lent_trace("call %u: node %u passes the argument of call %u on to node %u", c->id, r->node,
		   r->head.call, c->to);
	lent_sums.passed++;
	c->open = start_call(c, kind, &bytes);
	return c->open;
}

static void result_done(void *of)
{
	struct lent_call *c = of;

	LENT_CHECK(c->open, "result %u ends twice", c->id);
	LENT_CHECK(!c->lent || c->ended != LEND_NEVER,
		   "result %u: its memory is back, and its loan lasts", c->id);
	lent_trace("result %u of node %u ends", c->id, c->node);
	c->open = false;
	reuse_block(c);
}

/* Answers with a result. False: it did not. */
static bool answer_with(struct lent_node *n, struct lent_call *c, lend_request request)
{
	struct iovec iov = {&c->head, sizeof(c->head)};
	struct lend_argument arg[2] = {
	    {.data = &iov, .n = 1, .way = LEND_ARG_VALUE},
	    {.data = c->piece, .n = c->piece[1].iov_len ? 2 : 1, .way = LEND_ARG_CALLER}};
	struct lent_call *outer = lent->lending;
	int rc;

	lent->lending = c;
	rc = lend_reply_argv(n->mem, request, LEND_OK, arg, 2, result_done, c);
	lent->lending = outer;
	lent_sums.results += rc == 0 && c->lent;
	return rc == 0;
}

void lent_call_answer(uint32_t node, lend_request request)
{
	struct lent_node *n = &lent->node[node];
	struct lent_block *b = NULL;
	struct lent_call *c;
	uint32_t index;

	/* A node that closes may have no client of memory nodes any more. */
	if (!n->dying && lent->calls < LENT_CALLS && lent_odds(LENT_RESULT, lent->plan.result_ppm))
		b = take_block(LENT_RESULT, &index);
	if (!b) {
		(void)lend_reply(n->ep, request, LEND_OK, NULL);
		return;
	}
	c = make_call(node, node);
	c->result = true;
	c->block = index;
	draw_bytes(LENT_RESULT, c, b);
	c->head.call = c->head.by = c->id;
	c->due = lent->now + LENT_TTL;
	if (answer_with(n, c, request))
		return;
	LENT_CHECK(!c->lent || c->ended != LEND_NEVER, "a result that was not sent lends");
	c->open = b->used = false;
	(void)lend_reply(n->ep, request, LEND_OK, NULL);
}

static bool is_cancellable(const struct lent_call *c)
{
	return c->open && !c->parent && !c->result && lent->node[c->node].life == c->life &&
	       !lent->node[c->node].busy && lent->node[c->node].ep;
}

void lent_call_cancel(uint32_t call)
{
	struct lent_call *c = &lent->call[call];
	struct lent_node *n = &lent->node[c->node];

	if (!is_cancellable(c) || n->paused > lent->now)
		return;
	lent_trace("call %u is cancelled", call);
	lent_sums.cancels++;
	c->due = lent->now;
	n->busy++;
	lend_call_cancel_args(n->mem, &c->call);
	n->busy--;
}

void lent_call_race(void)
{
	static uint32_t depth;
	uint32_t call = lent && lent->calls ? (uint32_t)lent_below(LENT_RACE, lent->calls) : 0;

	if (!lent || depth || !lent->calls || !lent_odds(LENT_RACE, lent->plan.race_ppm))
		return;
	depth++;
	if (lent_reading < lent->calls && lent_below(LENT_RACE, 2))
		call = lent_reading;
	if (lent->plan.cancel_ppm)
		lent_call_cancel(call);
	lent_node_others();
	lent_sums.races++;
	depth--;
}

/* A call whose time is over is done soon, unless its own process is stopped. */
void lent_call_check(void)
{
	for (uint32_t i = 0; i < lent->calls; i++) {
		struct lent_call *c = &lent->call[i];
		lend_ns since = c->ended < c->due ? c->ended : c->due;
		lend_ns paused = lent->node[c->node].paused;

		if (!c->open || c->parent || since == LEND_NEVER || lent->node[c->node].busy ||
		    lent->now < since + LENT_PATIENT)
			continue;
		since = paused > since ? paused : since;
		LENT_CHECK(lent->now < since + LENT_PATIENT, "call %u ended and is not done: %s", i,
			   c->ended == LEND_NEVER ? "its loan lasts" : "its loan has ended");
	}
}

uint32_t lent_call_open(void)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < lent->calls; i++)
		open += lent->call[i].open;
	return open;
}
