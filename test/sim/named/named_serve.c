/* named_serve - handlers: by name, for every name and by number. Layer: test/sim. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/bufs.h"
#include "rpc/endpoint.h"
#include "sim/memory/mem_bytes.h"
#include "sim/named/named_call.h"
#include "sys/last_error.h"
#include "wire/head.h"

enum { FLAGS = LEND_CHAIN | LEND_ANY_ENCODING };

/* The argument of a handler. */
struct method {
	uint32_t node, name;
};
static struct method methods[LENT_NODES][NAMED_METHODS];
/* Methods that a node serves in this life. */
static struct served {
	bool on[NAMED_METHODS];
	unsigned flags[NAMED_METHODS];
	lend_ns since[NAMED_NAMES];
} served[LENT_NODES];

lend_ns named_served_since(uint32_t node, uint32_t name)
{
	return served[node].since[name];
}

/* Returns the chain's bytes as one piece, which the caller frees. */
static uint8_t *copy_chain(const struct lend_buf *in, uint32_t *len)
{
	uint8_t *all = malloc(2 * NAMED_LEN_MAX);

	LEND_CHECK(all);
	for (*len = 0; in; *len += in->len, in = in->next) {
		LENT_CHECK(*len + in->len <= 2 * NAMED_LEN_MAX, "a request that is too long");
		if (in->len)
			memcpy(all + *len, in->data, in->len);
	}
	return all;
}

/* Finds the call of a request, and checks its bytes. */
static struct named_call *find_call(const struct lend_buf *in)
{
	uint32_t len, id;
	uint8_t *all = copy_chain(in, &len);
	struct named_call *c;

	LENT_CHECK(len >= sizeof(id), "a request of %u bytes", len);
	memcpy(&id, all, sizeof(id));
	LENT_CHECK(id < named_calls_n, "a request of no call");
	c = &named_calls[id];
	LENT_CHECK(c->len == len &&
		       mem_match(all + 4, named_number(c, PART_REQUEST), 4, len - 4) == len - 4,
		   "call %u: wrong bytes in the request", id);
	free(all);
	return c;
}

static bool is_text(struct lend_ep *ep, lend_request request, enum lend_text text, const char *want)
{
	const char *got = lend_request_text(ep, request, text);

	return got && want ? strcmp(got, want) == 0 : got == want;
}

/* The handler is that of the name which the caller meant, and its head is that of the call. */
static void check_request(const struct named_call *c, const struct method *m, lend_request request)
{
	struct lend_ep *ep = lent->node[m->node].ep;
	const struct named_source pairs = {.ep = ep, .request = request};

	LENT_CHECK(c->to == m->node, "call %u reaches node %u", c->id, m->node);
	LENT_CHECK(m->name == c->name || (m->name == NAMED_ANY && c->name < NAMED_NAMES),
		   "call %u of method %u reaches the handler of method %u", c->id, c->name,
		   m->name);
	LENT_CHECK(served[m->node].on[m->name], "call %u reaches a handler that was removed",
		   c->id);
	LENT_CHECK(is_text(ep, request, LEND_TEXT_METHOD, c->head.name), "call %u: its name is %s",
		   c->id, lend_request_text(ep, request, LEND_TEXT_METHOD));
	LENT_CHECK(is_text(ep, request, LEND_TEXT_AUTHORITY, c->head.authority) &&
		       is_text(ep, request, LEND_TEXT_ENCODING, c->head.encoding) &&
		       is_text(ep, request, LEND_TEXT_COMPRESSED, c->head.compress ? "" : NULL),
		   "call %u: other texts", c->id);
	LENT_CHECK(!c->head.encoding || strcmp(c->head.encoding, "identity") == 0 ||
		       served[m->node].flags[m->name] & LEND_ANY_ENCODING,
		   "call %u: its handler does not decode", c->id);
	named_metadata_check(&pairs, c->metadata ? named_number(c, PART_REQUEST) : 0);
}

static void count_request(const struct named_call *c, const struct method *m, lend_request request)
{
	struct lent_node *n = &lent->node[m->node];
	bool head = n->ep->req[(uint32_t)request.id].head != NULL;

	LENT_CHECK(!head || !n->head_max || !c->metadata ||
		       named_metadata_len(named_number(c, PART_REQUEST)) <= n->head_max,
		   "call %u: a head that is too long", c->id);
	named_sums.heads += head;
	named_sums.bare += !head && c->name < NAMED_NAMES;
	named_sums.again += head && c->name < NAMED_NAMES && n->life > 1;
	named_sums.any += m->name == NAMED_ANY;
}

/* Draws how the call will be answered. RESOURCE_EXHAUSTED and the like are the runtime's. */
static void draw_answer(struct named_call *c)
{
	static const enum lend_status status[] = {LEND_OK, LEND_OK, LEND_ABORTED, LEND_DATA_LOSS};

	c->way =
	    (enum named_way)lent_below(LENT_NAMED, lent_below(LENT_NAMED, 4) ? WAY_BUSY : WAYS);
	c->status = status[lent_below(LENT_NAMED, 4)];
	c->reply_len = (uint32_t)lent_below(LENT_NAMED, lent_below(LENT_NAMED, 8) ? 100 : 20000);
	if (c->way == WAY_WHY || c->way == WAY_REFUSE || c->way == WAY_BUSY)
		c->reply_len = 0;
	if (c->way == WAY_REFUSE && c->status == LEND_OK)
		c->status = LEND_ABORTED;
	if (c->way == WAY_COPY)
		c->reply_len %= 200;
}

/* A tenth of the handlers are slow: some of them answer after the deadline. */
static void serve_named(lend_request request, const struct lend_buf *in, void *arg)
{
	const struct method *m = arg;
	struct named_call *c = find_call(in);
	lend_ns after = lent_below(LENT_NAMED, 10) ? 0 : lent_below(LENT_NAMED, 40 * LENT_MS);

	LENT_CHECK(c->runs++ == 0, "call %u runs twice", c->id);
	lent_trace("call %u runs on node %u, method %u", c->id, m->node, m->name);
	check_request(c, m, request);
	count_request(c, m, request);
	draw_answer(c);
	c->server_life = lent->node[m->node].life;
	c->request = request;
	if (!named_is_parked() && lent_below(LENT_NAMED, 50) == 0)
		return; /* never */
	if (after)
		named_at(lent->now + after, NAMED_ANSWER, c->id);
	else
		named_serve_answer(c->id, true);
}

static struct lend_buf *make_reply(struct lend_ep *ep, const struct named_call *c)
{
	struct lend_buf *b = c->reply_len ? lend_buf_take(ep, c->reply_len) : NULL;

	if (!b)
		return NULL;
	mem_fill(b->data, named_number(c, PART_MESSAGE), 0, c->reply_len);
	b->len = c->reply_len;
	return b;
}

/* Returns a buffer of the node that a call of it uses; NULL: none. */
static struct lend_buf *find_busy(uint32_t node)
{
	for (uint32_t i = 0; i < named_calls_n; i++) {
		const struct named_call *c = &named_calls[i];

		if (c->open && c->node == node && c->life == lent->node[node].life &&
		    lend_mbuf(c->call.request)->state == LEND_MBUF_CORE)
			return c->call.request;
	}
	return NULL;
}

static int answer_with_head(struct lend_ep *ep, struct named_call *c)
{
	struct lend_metadata *initial = named_metadata(named_number(c, PART_INITIAL)),
			     *trailing = named_metadata(named_number(c, PART_TRAILING));
	const struct lend_reply_head head = {
	    .initial = initial,
	    .trailing = trailing,
	    .message = named_text(named_number(c, PART_MESSAGE)),
	    .encoding = lent_below(LENT_NAMED, 8) ? NULL : "gzip",
	};
	int rc;

	c->encoded = head.encoding && named_reads(c->node, LEND_FEATURE_REPLY_HEADS);
	rc = lend_reply_with(ep, c->request, c->status, make_reply(ep, c), &head);
	if (rc == -E2BIG) {
		c->status = LEND_INTERNAL;
		c->reply_len = 0;
		named_sums.too_long++;
	}
	lend_metadata_free(initial);
	lend_metadata_free(trailing);
	return rc;
}

/* The runtime refuses a buffer that is in use. */
static int answer_busy(struct lend_ep *ep, struct named_call *c)
{
	struct lend_buf *busy = find_busy(c->to);

	if (!busy || lend_request_cancelled(ep, c->request))
		return lend_reply(ep, c->request, c->status, NULL);
	c->status = LEND_INTERNAL;
	named_sums.in_use++;
	return lend_reply(ep, c->request, LEND_OK, busy);
}

static int answer_call(struct lend_ep *ep, struct named_call *c)
{
	uint8_t bytes[200];

	switch (c->way) {
	case WAY_BYTES:
		return lend_reply(ep, c->request, c->status, make_reply(ep, c));
	case WAY_COPY:
		mem_fill(bytes, named_number(c, PART_MESSAGE), 0, c->reply_len);
		return lend_reply_copy(ep, c->request, c->status, bytes, c->reply_len);
	case WAY_WHY:
		return lend_reply_why(ep, c->request, c->status,
				      named_text(named_number(c, PART_MESSAGE)));
	case WAY_HEAD:
		return answer_with_head(ep, c);
	case WAY_REFUSE:
		return lend_refuse(ep, c->request, c->status);
	case WAY_BUSY:
	case WAYS:
		break;
	}
	return answer_busy(ep, c);
}

void named_serve_answer(uint32_t call, bool inside)
{
	struct named_call *c = &named_calls[call];
	struct lent_node *n = &lent->node[c->to];
	int rc;

	if (!n->ep || n->life != c->server_life)
		return;
	if (!inside && !named_is_free(c->to)) {
		named_at(lent->now + LENT_STEP, NAMED_ANSWER, call);
		return;
	}
	c->answered = true;
	rc = answer_call(n->ep, c);
	LENT_CHECK(rc == 0 || rc == -ESTALE || (rc == -E2BIG && n->head_max),
		   "call %u is not answered: %s", call, lend_why());
}

/* Notes which names are served without interruption. */
static void note_served(uint32_t node)
{
	struct served *s = &served[node];

	for (uint32_t i = 0; i < NAMED_NAMES; i++) {
		bool is = s->on[i] || s->on[NAMED_ANY];

		s->since[i] = !is                         ? LEND_NEVER
			      : s->since[i] == LEND_NEVER ? lent->now
							  : s->since[i];
	}
}

/* Begins or ends to serve a method. */
static void serve_method(uint32_t node, uint32_t name, bool on)
{
	struct lend_ep *ep = lent->node[node].ep;
	struct served *s = &served[node];
	unsigned flags = (unsigned)lent_below(LENT_NAMED, 4) * LEND_CHAIN & FLAGS;
	lend_handler_fn *handler = on ? serve_named : NULL;
	struct method *m = &methods[node][name];
	int rc;

	*m = (struct method){node, name};
	rc = name == NAMED_ANY     ? lend_serve_any(ep, handler, m, flags)
	     : name == NAMED_PLAIN ? lend_serve(ep, NAMED_METHOD, handler, m, flags & LEND_CHAIN)
				   : lend_serve_name(ep, named_names[name], handler, m, flags);
	if (name == NAMED_PLAIN)
		flags = 0;
	LENT_CHECK(rc == 0 || (rc == -EEXIST && name < 2), "node %u does not serve: %s", node,
		   lend_why());
	if (rc < 0) /* the other name has the number in this life */
		return;
	s->on[name] = on;
	s->flags[name] = flags;
	note_served(node);
}

void named_serve_birth(uint32_t node)
{
	uint32_t first = (uint32_t)lent_below(LENT_NAMED, 2);

	memset(&served[node], 0, sizeof(served[node]));
	for (uint32_t i = 0; i < NAMED_NAMES; i++)
		served[node].since[i] = LEND_NEVER;
	serve_method(node, NAMED_PLAIN, true);
	for (uint32_t i = 0; i < NAMED_NAMES; i++)
		if (lent_below(LENT_NAMED, 2))
			serve_method(node, i < 2 ? (first + i) % 2 : i, true);
	if (lent_below(LENT_NAMED, 3) == 0)
		serve_method(node, NAMED_ANY, true);
}

void named_serve_change(uint32_t node)
{
	uint32_t name = (uint32_t)lent_below(LENT_NAMED, NAMED_ANY + 1);

	if (!named_is_free(node))
		return;
	serve_method(node, name, !served[node].on[name]);
	named_sums.changes++;
}
