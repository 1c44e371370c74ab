/* named_call - callers: calls of names and of a number, and what comes back. Layer: test/sim. */
#include "sim/named/named_call.h"

#include <errno.h>
#include <string.h>

#include "sim/memory/mem_bytes.h"
#include "wire/head.h"

enum { TIMEOUT_MS = 30 };

/* The first two have one number. */
const char *const named_names[NAMED_NAMES] = {"/shop.Cart/jbfjwf", "/shop.Cart/wzhewl",
					      "/shop.Cart/Add", "/a/b", "x"};

struct named_call named_calls[NAMED_CALLS];
uint32_t named_calls_n;

/* Returns whether the server ran a handler of the call's name all the time. */
static bool was_served(const struct named_call *c)
{
	return c->name == NAMED_PLAIN || named_served_since(c->to, c->name) <= c->started;
}

/* Checks a status that no handler gave. */
static void check_failure(const struct named_call *c)
{
	static const uint32_t fine = 1 << LEND_CANCELLED | 1 << LEND_DEADLINE_EXCEEDED |
				     1 << LEND_RESOURCE_EXHAUSTED | 1 << LEND_UNAVAILABLE;
	enum lend_status status = c->call.status;
	bool encoded = c->head.encoding && strcmp(c->head.encoding, "identity") != 0;
	bool heads = !c->headed || named_reads(c->to, LEND_FEATURE_REQUEST_HEADS);

	LENT_CHECK(c->call.ran != LEND_RAN_NO || !c->runs || c->way == WAY_REFUSE,
		   "call %u ran, and ends with %d, not run", c->id, status);
	if (status == LEND_UNIMPLEMENTED) {
		LENT_CHECK(c->call.ran == LEND_RAN_NO && !c->runs, "call %u: UNIMPLEMENTED, run",
			   c->id);
		LENT_CHECK(!heads || encoded || !was_served(c),
			   "call %u: %s has a handler, and none is found", c->id,
			   named_names[c->name % NAMED_NAMES]);
		named_sums.missing += heads && !encoded;
		named_sums.encodings += heads && encoded;
		return;
	}
	if (status == LEND_INTERNAL) {
		LENT_CHECK(c->answered && c->encoded && !c->head.any_encoding,
			   "call %u ends INTERNAL", c->id);
		named_sums.encodings++;
		return;
	}
	LENT_CHECK(fine >> status & 1, "call %u ends with %d", c->id, status);
}

static const char *reply_text(const struct named_call *c)
{
	const char *text = lend_call_text(lent->node[c->node].ep, &c->call, LEND_TEXT_MESSAGE);

	return text ? text : "";
}

/* The texts and metadata of a reply are those that its handler gave. */
static void check_head(const struct named_call *c)
{
	bool reads = named_reads(c->node, LEND_FEATURE_REPLY_HEADS);
	bool whole = reads && c->way == WAY_HEAD && c->status != LEND_INTERNAL;
	const struct named_source initial = {.ep = lent->node[c->node].ep, .call = &c->call};
	struct named_source trailing = initial;

	trailing.trailing = true;
	named_metadata_check(&initial, whole ? named_number(c, PART_INITIAL) : 0);
	named_metadata_check(&trailing, whole ? named_number(c, PART_TRAILING) : 0);
	if (!whole && (c->way != WAY_WHY || !reads)) {
		LENT_CHECK(!*reply_text(c), "call %u: a text that was not sent: %s", c->id,
			   reply_text(c));
		return;
	}
	LENT_CHECK(strcmp(reply_text(c), named_text(named_number(c, PART_MESSAGE))) == 0,
		   "call %u: the text of its status is %s", c->id, reply_text(c));
	named_sums.reasons++;
}

/* Checks a reply that its handler gave. */
static void check_reply(const struct named_call *c)
{
	const struct lend_buf *in = c->call.reply;

	LENT_CHECK(c->call.ran == (c->way == WAY_REFUSE ? LEND_RAN_NO : LEND_RAN_YES),
		   "call %u: ran is %d", c->id, c->call.ran);
	LENT_CHECK(c->call.reply_len == c->reply_len, "call %u: %lu of %u bytes", c->id,
		   (unsigned long)c->call.reply_len, c->reply_len);
	LENT_CHECK(!c->reply_len || (in && in->len == c->reply_len &&
				     mem_match(in->data, named_number(c, PART_MESSAGE), 0,
					       c->reply_len) == c->reply_len),
		   "call %u: wrong bytes in the reply", c->id);
	check_head(c);
	named_sums.replies++;
}

static void call_done(struct lend_call *call)
{
	struct named_call *c = (struct named_call *)call;
	struct lend_ep *ep = lent->node[c->node].ep;

	LENT_CHECK(c->open, "call %u is done twice", c->id);
	lent_trace("call %u of node %u: done, status %d, ran %d", c->id, c->node, call->status,
		   call->ran);
	c->open = false;
	if (c->answered && call->status == c->status)
		check_reply(c);
	else
		check_failure(c);
	lend_buf_give(ep, call->reply);
	lend_buf_give(ep, call->request);
}

static void draw_head(struct named_call *c)
{
	struct lend_call_head *h = &c->head;

	h->name = c->name == NAMED_PLAIN ? NULL : named_names[c->name];
	if (!named_reads(c->node, LEND_FEATURE_REQUEST_HEADS))
		return; /* a release that sends no heads */
	h->authority = lent_below(LENT_NAMED, 4) ? NULL : "shop";
	if (lent_below(LENT_NAMED, 8) == 0)
		h->encoding = lent_below(LENT_NAMED, 2) ? "gzip" : "identity";
	h->any_encoding = lent_below(LENT_NAMED, 4) == 0;
	h->compress = c->id % 4 == 3;
	if (lent_below(LENT_NAMED, 2))
		h->metadata = c->metadata = named_metadata(named_number(c, PART_REQUEST));
	c->headed = h->name || h->authority || h->encoding || h->compress ||
		    (h->metadata && named_metadata_len(named_number(c, PART_REQUEST)) > 0);
	c->call.head = h;
}

static struct named_call *make_call(uint32_t node)
{
	struct named_call *c = &named_calls[named_calls_n];
	bool names = named_reads(node, LEND_FEATURE_REQUEST_HEADS);

	memset(c, 0, sizeof(*c));
	c->id = named_calls_n++;
	c->node = node;
	c->life = lent->node[node].life;
	c->to =
	    (node + 1 + (uint32_t)lent_below(LENT_NAMED, lent->plan.nodes - 1)) % lent->plan.nodes;
	c->name = (uint32_t)lent_below(LENT_NAMED, NAMED_NAMES + 1);
	c->name = c->name == NAMED_NAMES || !names ? NAMED_PLAIN : c->name;
	c->len = 4 + (uint32_t)lent_below(LENT_NAMED, lent_below(LENT_NAMED, 8) ? 300 : 20000);
	c->len += lent_below(LENT_NAMED, 40) ? 0 : NAMED_LEN_MAX;
	c->call.done = call_done;
	c->call.method = NAMED_METHOD;
	c->call.queue = lent_below(LENT_NAMED, 2) != 0;
	c->call.timeout = lent_odds(LENT_NAMED, lent->plan.deadline_ppm)
			      ? 1 + lent_below(LENT_NAMED, 3 * LENT_MS)
			      : TIMEOUT_MS * LENT_MS;
	c->started = lent->now;
	c->due = lent->now + c->call.timeout;
	draw_head(c);
	return c;
}

static struct lend_buf *make_request(const struct named_call *c)
{
	struct lend_buf *b = lend_buf_take(lent->node[c->node].ep, c->len);

	LENT_CHECK(b, "no buffer for a request");
	memcpy(b->data, &c->id, sizeof(c->id));
	mem_fill((char *)b->data + 4, named_number(c, PART_REQUEST), 4, c->len - 4);
	b->len = c->len;
	return b;
}

/* Starts the call. Returns the library's result. */
static int start_call(struct named_call *c)
{
	enum lent_kind kind = lent_odds(LENT_NAMED, lent->plan.udp_ppm) ? LENT_UDP : LENT_SHM;
	struct lent_node *n = &lent->node[c->node];
	lend_session session = lent_node_session(c->node, c->to, kind);
	int rc = -ESTALE;

	if (!session.id)
		return rc;
	c->call.request = make_request(c);
	n->busy++;
	rc = lend_call_start(n->ep, session, &c->call);
	if (rc < 0)
		lend_buf_give(n->ep, c->call.request);
	n->busy--;
	return rc;
}

void named_call_start(void)
{
	uint32_t node = (uint32_t)lent_below(LENT_NAMED, lent->plan.nodes);
	uint32_t most = lent->node[node].head_max;
	struct named_call *c;
	int rc;

	if (!named_is_free(node) || named_calls_n == NAMED_CALLS)
		return;
	c = make_call(node);
	c->open = true;
	rc = start_call(c);
	c->open = rc == 0;
	lent_trace("call %u of node %u to node %u, method %u: %d", c->id, node, c->to, c->name, rc);
	LENT_CHECK(rc == 0 || rc == -EAGAIN || rc == -ESTALE || (rc == -E2BIG && most),
		   "call %u does not start: %d", c->id, rc);
	LENT_CHECK(rc || !most || named_metadata_len(named_number(c, PART_REQUEST)) <= most ||
		       !c->metadata,
		   "call %u: its head is too long", c->id);
	named_sums.calls += rc == 0;
	named_sums.too_long += rc == -E2BIG;
	named_sums.old += !named_reads(node, LEND_FEATURE_REQUEST_HEADS) ||
			  !named_reads(c->to, LEND_FEATURE_REQUEST_HEADS);
	if (rc == 0 && lent_odds(LENT_NAMED, lent->plan.cancel_ppm))
		named_at(lent->now + lent_below(LENT_NAMED, 2 * LENT_MS), NAMED_CANCEL, c->id);
}

void named_call_cancel(uint32_t call)
{
	struct named_call *c = &named_calls[call];
	struct lent_node *n = &lent->node[c->node];

	if (!c->open || n->life != c->life || !named_is_free(c->node))
		return;
	n->busy++;
	lend_call_cancel(n->ep, &c->call);
	n->busy--;
	named_sums.cancels++;
}

uint32_t named_call_open(void)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < named_calls_n; i++)
		open += named_calls[i].open;
	return open;
}

void named_calls_free(void)
{
	for (uint32_t i = 0; i < named_calls_n; i++)
		lend_metadata_free(named_calls[i].metadata);
	named_calls_n = 0;
}
