/* lent_serve - servers: requests whose argument is read early, late, in parts, by copy or as
 * memory, or passed on; and the oracles of these reads. Layer: test/sim. */
#include <stdlib.h>
#include <string.h>

#include "sim/lent/lent.h"
#include "sim/lent/lent_serve.h"
#include "sim/memory/mem_bytes.h"

enum { DEPTH_MAX = 3, ACTS = 4, VIEW_MS = 6, LOOK = 8192 };

/* A read of a request's argument: of bytes [first, first + len) of the call's argument. */
struct lent_read {
	struct lend_op op; /* first */
	struct lend_arg_view view;
	struct lent_read *next;
	struct lent_request *request; /* NULL: it is gone */
	uint32_t node, life, call;
	uint32_t by; /* call that brought the reference */
	uint64_t first, len;
	lend_ns began, until;             /* until: a view is looked at */
	bool busy, by_view, mapped, late; /* late: it began after the end of the loan */
	struct iovec into[2];
	uint8_t bytes[];
};

uint32_t lent_reading = UINT32_MAX;
static struct lent_request *by_number[1 << 14]; /* requests by the number of their event */
static uint32_t numbers;

static bool has_ended(uint32_t call)
{
	return lent->call[call].ended != LEND_NEVER;
}

static void answer_request(struct lent_request *r, enum lend_status status)
{
	struct lent_node *n = &lent->node[r->node];

	if (r->answered)
		return;
	r->answered = true;
	if (n->ep && n->life == r->life && status == LEND_OK)
		lent_call_answer(r->node, r->request);
	else if (n->ep && n->life == r->life)
		(void)lend_reply(n->ep, r->request, status, NULL);
}

/* Replies once nothing is to come. */
static void settle_request(struct lent_request *r)
{
	if (!r->reads && !r->acts)
		answer_request(r, LEND_OK);
}

void lent_serve_passed(struct lent_request *r, enum lend_status status)
{
	(void)status;
	r->acts--;
	settle_request(r);
}

/* Bytes that count must be those of the call, from at on in its argument. */
static void check_bytes(uint32_t call, const void *bytes, uint64_t at, uint64_t len)
{
	uint64_t right = mem_match(bytes, lent->call[call].version, at, len), version = 0,
		 where = 0;

	if (right == len)
		return;
	(void)mem_foreign((const uint8_t *)bytes + right, len - right, &version, &where);
	lent_fail(
	    "call %u: OK with wrong bytes at %lu + %lu of %lu, those of %lx at %lu; its loan %s",
	    call, (unsigned long)at, (unsigned long)right, (unsigned long)len,
	    (unsigned long)version, (unsigned long)where, has_ended(call) ? "has ended" : "lasts");
}

/* Looks at some of a view's bytes, and then whether they count. */
static void look_at(struct lent_read *r)
{
	uint64_t at = lent_below(LENT_SERVER, r->len), len = r->len - at;
	bool late = has_ended(r->call);
	uint8_t *seen = malloc(len = len < LOOK ? len : LOOK);

	LEND_CHECK(seen);
	lent_copy(seen, (const uint8_t *)r->view.bytes + at, len);
	lent_reading = r->call;
	if (lend_arg_intact(&r->view) == 0) {
		LENT_CHECK(!r->mapped || !late, "call %u: a view is intact after the end", r->call);
		check_bytes(r->call, seen, r->first + at, len);
		lent_sums.fine++;
	} else {
		LENT_CHECK(has_ended(r->call), "call %u: a view is not intact before the end",
			   r->call);
		lent_sums.late++;
	}
	lent_reading = UINT32_MAX;
	free(seen);
}

static void free_read(struct lent_read *r)
{
	struct lent_read **at = &lent->reads;

	if (r->by_view && r->op.status == LEND_OK && r->view.bytes)
		lend_arg_unmap(lent->node[r->node].mem, &r->view);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	free(r);
}

/* Returns whether a call that passed the reference on has ended: it relays no read any more. */
static bool pass_has_ended(const struct lent_read *r)
{
	uint32_t by = r->by;

	while (by != r->call && lent->call[by].open)
		by = lent->call[by].before;
	return by != r->call;
}

static void check_status(const struct lent_read *r)
{
	static const uint32_t fine = 1 << LEND_OK | 1 << LEND_CANCELLED | 1 << LEND_NOT_FOUND |
				     1 << LEND_DEADLINE_EXCEEDED | 1 << LEND_RESOURCE_EXHAUSTED |
				     1 << LEND_UNAVAILABLE;

	LENT_CHECK(fine >> r->op.status & 1, "call %u: a read ends with %d", r->call, r->op.status);
	LENT_CHECK(r->op.status != LEND_OK || !r->late,
		   "call %u: a read that began after the end is OK", r->call);
	LENT_CHECK(r->op.status != LEND_NOT_FOUND || has_ended(r->call) || pass_has_ended(r),
		   "call %u: a read is NOT_FOUND before the end", r->call);
}

static void read_done(struct lend_op *op)
{
	struct lent_read *r = (struct lent_read *)op;
	struct lent_request *request = r->request;

	LENT_CHECK(r->busy, "a read ends twice");
	r->busy = false;
	lent_trace("node %u: a read of call %u ends with %d", r->node, r->call, op->status);
	check_status(r);
	lent_sums.fine += op->status == LEND_OK;
	lent_sums.late += op->status == LEND_NOT_FOUND;
	lent_sums.withdrawn += op->status == LEND_RESOURCE_EXHAUSTED && op->ran == LEND_RAN_MAYBE;
	if (op->status == LEND_OK && !r->by_view)
		check_bytes(r->call, r->bytes, r->first, r->len);
	r->mapped = r->by_view && op->status == LEND_OK && r->view.reserved[0];
	lent_sums.mapped += r->mapped;
	if (!r->by_view || op->status != LEND_OK || lent->node[r->node].dying)
		free_read(r);
	if (!request)
		return;
	request->reads--;
	settle_request(request);
}

/* Makes a read of a part of an argument, which is that of the call from first on. */
static struct lent_read *make_read(enum lent_stream stream, uint32_t node, uint32_t call,
				   uint64_t first, uint64_t len)
{
	bool by_view = lent_below(stream, 2) == 0;
	uint64_t at = by_view ? 0 : lent_below(stream, len);
	struct lent_read *r;

	len = by_view ? len : 1 + lent_below(stream, len - at);
	r = calloc(1, sizeof(*r) + len);
	LEND_CHECK(r);
	r->node = node;
	r->life = lent->node[node].life;
	r->call = r->by = call;
	r->first = first + at;
	r->len = len;
	r->by_view = by_view;
	r->busy = true;
	r->began = lent->now;
	r->until = lent->now + lent_below(stream, VIEW_MS * LENT_MS);
	r->late = has_ended(call);
	r->into[0] = (struct iovec){r->bytes, lent_below(stream, len + 1)};
	r->into[1] = (struct iovec){r->bytes + r->into[0].iov_len, len - r->into[0].iov_len};
	r->op.done = read_done;
	r->next = lent->reads;
	return lent->reads = r;
}

/* Starts a read of the bytes from at on. Returns the library's result. */
static int start_one(struct lent_read *r, const struct lend_arg *arg, uint64_t at)
{
	struct lend_mem *mem = lent->node[r->node].mem;
	uint32_t outer = lent_reading;
	int rc;

	lent_reading = r->call;
	rc = r->by_view ? lend_arg_map(mem, arg, &r->view, &r->op)
			: lend_arg_get(mem, arg, at, r->into, 2, &r->op);
	lent_reading = outer;
	return rc;
}

static void start_read(struct lent_request *request)
{
	struct lent_read *r = make_read(LENT_SERVER, request->node, request->head.call,
					request->head.first, request->arg.len);

	request->reads++;
	r->by = request->head.by;
	r->request = request;
	r->op.parent = request->request;
	if (start_one(r, &request->arg, r->first - request->head.first) == 0)
		return;
	LENT_CHECK(!lend_request_session(lent->node[request->node].ep, request->request).id,
		   "call %u: a read of a request that lasts is refused: %s", r->call, lend_why());
	request->reads--;
	r->by_view = false;
	free_read(r);
}

/* A release, in memory of its own. */
static void release_done(struct lend_op *op)
{
	lent_sums.released += op->status == LEND_OK;
	free(op);
}

static void release_result(const struct lent_call *result)
{
	struct lend_op *op = calloc(1, sizeof(*op));

	LEND_CHECK(op);
	op->done = release_done;
	op->timeout = VIEW_MS * LENT_MS;
	LENT_CHECK(lend_arg_release(lent->node[result->reader].mem, &result->arg, op) == 0,
		   "result %u: a release is refused: %s", result->id, lend_why());
}

void lent_serve_use(uint32_t result)
{
	const struct lent_call *c = &lent->call[result];
	struct lent_node *n = &lent->node[c->reader];
	struct lent_read *r;

	if (!n->ep || n->life != c->reader_life || n->busy || n->paused > lent->now)
		return;
	n->busy++;
	if (lent_below(LENT_RESULT, 3) == 0) {
		release_result(c);
	} else {
		r = make_read(LENT_RESULT, c->reader, result, 0, c->len);
		r->op.timeout = VIEW_MS * LENT_MS;
		LENT_CHECK(start_one(r, &c->arg, r->first) == 0, "result %u: a read is refused: %s",
			   result, lend_why());
	}
	n->busy--;
}

/* Does one thing with a request: reads, or passes it on. */
static void run_act(struct lent_request *r)
{
	if (r->head.depth < DEPTH_MAX && lent_below(LENT_SERVER, 3) == 0 && !r->answered) {
		r->acts++;
		if (!lent_call_pass(r))
			r->acts--;
	} else if (!r->answered) {
		start_read(r);
	}
}

void lent_serve_act(uint32_t number)
{
	struct lent_request *r = by_number[number];
	struct lent_node *n = r ? &lent->node[r->node] : NULL;

	by_number[number] = NULL;
	if (!r)
		return;
	if (n->busy || n->paused > lent->now) { /* later */
		by_number[number] = r;
		lent_at(lent->now + LENT_STEP, LENT_ACT, number, 0);
		return;
	}
	n->busy++;
	run_act(r);
	r->acts--;
	if (lent_below(LENT_SERVER, 8) == 0)
		answer_request(r, LEND_OK); /* while reads are under way */
	settle_request(r);
	n->busy--;
}

static void plan_acts(struct lent_request *r)
{
	uint32_t n = 1 + (uint32_t)lent_below(LENT_SERVER, ACTS);

	for (uint32_t i = 0; i < n && numbers < sizeof(by_number) / sizeof(by_number[0]); i++) {
		lend_ns after = lent_below(LENT_SERVER, 3) ? lent_below(LENT_SERVER, 200 * LENT_US)
							   : lent_below(LENT_SERVER, 4 * LENT_MS);

		by_number[numbers] = r;
		r->acts++;
		lent_at(lent->now + after, LENT_ACT, numbers++, 0);
	}
	settle_request(r);
}

static struct lent_head head_of(const struct lend_arg *arg, int n)
{
	struct lent_head head;

	LENT_CHECK(n == 2 && arg[0].bytes && arg[0].len == sizeof(head),
		   "a request of %d arguments", n);
	memcpy(&head, arg[0].bytes, sizeof(head));
	LENT_CHECK(head.call < lent->calls && head.by < lent->calls, "a request of no call");
	return head;
}

/* The bytes came in the message, or were fetched. */
static void check_here(struct lent_head head, const struct lend_arg *arg)
{
	struct lent_call *c = &lent->call[head.call];
	bool late = has_ended(head.call), intact;
	bool right = mem_match(arg->bytes, c->version, head.first, arg->len) == arg->len;

	lent_reading = head.call;
	intact = !arg->view || lend_arg_intact(arg->view) == 0;
	lent_reading = UINT32_MAX;
	if (intact)
		check_bytes(head.call, arg->bytes, head.first, arg->len);
	LENT_CHECK(intact || has_ended(head.call), "call %u: not intact before the end", head.call);
	LENT_CHECK(!intact || !late || !arg->view || !arg->view->reserved[0],
		   "call %u: intact after the end", head.call);
	c->torn |= !right;
	lent_sums.fetched += intact;
}

static void serve_fetched(lend_request request, const struct lend_arg *arg, int n, void *of)
{
	struct lent_node *node = of;
	struct lent_head head = head_of(arg, n);

	check_here(head, &arg[1]);
	lent_call_answer((uint32_t)(node - lent->node), request);
}

static void serve_part(lend_request request, const struct lend_arg *arg, int n, void *of)
{
	struct lent_node *node = of;
	struct lent_head head = head_of(arg, n);
	struct lent_request *r;

	if (arg[1].bytes) {
		check_here(head, &arg[1]);
		lent_call_answer((uint32_t)(node - lent->node), request);
		return;
	}
	r = calloc(1, sizeof(*r));
	LEND_CHECK(r);
	r->node = (uint32_t)(node - lent->node);
	r->life = node->life;
	r->request = request;
	r->arg = arg[1];
	r->head = head;
	r->next = lent->requests;
	lent->requests = r;
	plan_acts(r);
}

int lent_serve_open(uint32_t node)
{
	struct lent_node *n = &lent->node[node];
	int rc = lend_serve_args(n->mem, LENT_METHOD, serve_part, n, LEND_ARGS_PART);

	if (rc == 0)
		rc = lend_serve_args(n->mem, LENT_METHOD + 1, serve_fetched, n, LEND_ARGS_MAP);
	return rc < 0 ? rc
		      : lend_serve_args(n->mem, LENT_METHOD + 2, serve_fetched, n, LEND_ARGS_COPY);
}

void lent_serve_check(void)
{
	for (struct lent_read *r = lent->reads, *next; r; r = next) {
		struct lent_node *n = &lent->node[r->node];

		next = r->next;
		if (r->busy || n->busy || n->paused > lent->now)
			continue;
		n->busy++;
		if (lent_below(LENT_SERVER, 4) == 0)
			look_at(r);
		n->busy--;
		if (lent->now >= r->until || lent->healing)
			free_read(r);
	}
}

static void drop_views(uint32_t node)
{
	for (struct lent_read *r = lent->reads, *next; r; r = next) {
		next = r->next;
		if (r->node == node && !r->busy)
			free_read(r);
	}
}

static void drop_request(struct lent_request *gone)
{
	for (uint32_t i = 0; i < numbers; i++)
		if (by_number[i] == gone)
			by_number[i] = NULL;
	for (uint32_t i = 0; i < lent->calls; i++)
		LENT_CHECK(!lent->call[i].open || lent->call[i].parent != gone,
			   "call %u lasts longer than its client", i);
	for (struct lent_read *r = lent->reads; r; r = r->next)
		LENT_CHECK(r->request != gone, "call %u: a read lasts longer than its client",
			   r->call);
	free(gone);
}

void lent_serve_drop(uint32_t node, bool views)
{
	struct lent_request **at = &lent->requests;

	drop_views(node);
	while (!views && *at) {
		struct lent_request *r = *at;

		if (r->node != node) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		drop_request(r);
	}
	if (!lent->requests)
		numbers = 0;
}

uint32_t lent_serve_open_reads(void)
{
	uint32_t n = 0;

	for (const struct lent_read *r = lent->reads; r; r = r->next)
		n++;
	return n;
}
