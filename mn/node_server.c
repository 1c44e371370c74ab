#include "mn/node_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"
#include "mn/landing.h"
#include "mn/memory.h"
#include "mn/node_one_sided.h"
#include "mn/peers.h"
#include "mn/unwritten_reads.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum { SEGS_MAX = LEND_STORE_SEGS_MAX + 8, PINS_CHUNK = 512 };

/* A run of pages that a reply in flight reads. */
struct pin {
	struct mn_serve *serve;
	struct lend_store_seg seg;
	uint32_t tenant;
	struct pin *next; /* free list */
};
struct pins {
	struct pins *next;
	struct pin pin[PINS_CHUNK];
};

struct mn_serve {
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_peers *peers;
	struct mn_fair *fair; /* fair queue of the peers */
	lend_ns now;          /* time of the first operation of this iteration; 0: none yet */
	bool closed;          /* the endpoint is closed */
	bool refuses;
	struct pin *pins;
	struct pins *chunks;
	struct mn_landings *landings;
	struct mn_fetches *fetches;          /* payloads that the node reads itself */
	struct mn_reads *reads;              /* requests that wait for the bytes of a snapshot */
	struct lend_store_seg seg[SEGS_MAX]; /* scratch */
	struct lend_store_out out;
};

static void unpin_segment(void *arg)
{
	struct pin *pin = arg;

	lend_store_done(pin->serve->store, pin->tenant, &pin->seg, 1);
	pin->next = pin->serve->pins;
	pin->serve->pins = pin;
}

static struct pin *take_pin(struct mn_serve *serve)
{
	struct pin *pin = serve->pins;

	if (!pin) {
		struct pins *chunk = calloc(1, sizeof(*chunk));

		if (!chunk)
			return NULL;
		chunk->next = serve->chunks;
		serve->chunks = chunk;
		for (int i = 0; i < PINS_CHUNK; i++) {
			chunk->pin[i].serve = serve;
			chunk->pin[i].next = serve->pins;
			serve->pins = &chunk->pin[i];
		}
		pin = serve->pins;
	}
	serve->pins = pin->next;
	return pin;
}

static struct lend_buf *wrap_page(struct mn_serve *serve, uint32_t tenant,
				  const struct lend_store_seg *seg)
{
	struct pin *pin = take_pin(serve);
	struct lend_buf *buf;

	if (!pin)
		return NULL;
	pin->seg = *seg;
	pin->tenant = tenant;
	buf = lend_buf_wrap(serve->ep, seg->data, (uint32_t)seg->len, unpin_segment, pin);
	if (!buf) {
		pin->next = serve->pins;
		serve->pins = pin;
	}
	return buf;
}

/* Wraps the pages in place. Unpins them when there are no buffers for all of them. */
static struct lend_buf *wrap_pages(struct mn_serve *serve, const struct lend_store_out *out)
{
	struct lend_buf *first = NULL, **last = &first;

	for (uint32_t i = 0; i < out->n; i++) {
		*last = wrap_page(serve, out->tenant, &out->seg[i]);
		if (!*last) {
			lend_store_done(serve->store, out->tenant, &out->seg[i], out->n - i);
			if (first)
				lend_buf_give(serve->ep, first);
			return NULL;
		}
		last = &(*last)->next;
	}
	return first;
}

static struct lend_buf *copy_words(struct mn_serve *serve, const struct lend_store_out *out)
{
	struct lend_buf *buf = lend_buf_take(serve->ep, (uint32_t)out->len);

	if (!buf)
		return NULL;
	buf->len = 0;
	for (uint32_t i = 0; i < out->n; i++) {
		memcpy((char *)buf->data + buf->len, out->seg[i].data, out->seg[i].len);
		buf->len += (uint32_t)out->seg[i].len;
	}
	return buf;
}

/* Puts the first bytes of a reply before its pages. Takes pages; NULL: no buffer. */
static struct lend_buf *add_head(struct mn_serve *serve, const struct lend_store_out *out,
				 struct lend_buf *pages)
{
	struct lend_buf *head = pages ? lend_buf_take(serve->ep, out->head_len) : NULL;

	if (!head) {
		lend_buf_give(serve->ep, pages);
		return NULL;
	}
	memcpy(head->data, out->head, out->head_len);
	head->len = out->head_len;
	head->next = pages;
	return head;
}

/* Sends the reply in a message. */
static void send_answer(struct mn_serve *serve, lend_request request)
{
	const struct lend_store_out *out = &serve->out;
	enum lend_status status = (enum lend_status)out->status;
	struct lend_buf *reply = NULL;

	if (out->n && out->len) {
		reply = out->pinned ? wrap_pages(serve, out) : copy_words(serve, out);
		if (out->pinned && out->head_len)
			reply = add_head(serve, out, reply);
		if (!reply)
			status = LEND_RESOURCE_EXHAUSTED;
	} else if (out->n && out->pinned) {
		lend_store_done(serve->store, out->tenant, out->seg, out->n);
	}
	(void)lend_reply(serve->ep, request, status, reply);
}

/* Lets the client read the pages of a reply, or ask for them in a message. */
static void show_answer(struct mn_serve *serve, lend_session session, lend_request request)
{
	const struct lend_store_out *out = &serve->out;
	enum lend_status status = LEND_UNIMPLEMENTED;

	if (out->status != LEND_MEM_OK) {
		send_answer(serve, request);
		return;
	}
	if (out->pinned && out->len)
		status = mn_one_sided_show(serve->ep, serve->store, session, request, out);
	if (status == LEND_OK)
		return;
	if (out->n && out->pinned)
		lend_store_done(serve->store, out->tenant, out->seg, out->n);
	(void)lend_reply(serve->ep, request, status, NULL);
}

/* Passes the endpoint's count of sent bytes to the store before a STAT: the reply contains it. */
static void set_tx_bytes(struct mn_serve *serve, const struct lend_buf *bytes)
{
	struct lend_stats stats;

	if (!bytes->len || *(const uint8_t *)bytes->data != LEND_MEMOP_STAT)
		return;
	lend_stats_get(serve->ep, &stats);
	lend_store_set_tx_bytes(serve->store, stats.tx_bytes);
}

static bool is_hello(const struct lend_buf *bytes)
{
	return bytes->len && *(const uint8_t *)bytes->data == LEND_MEMOP_HELLO;
}

static void exec_request(struct mn_serve *serve, lend_session session, const struct lend_buf *bytes,
			 const struct lend_store_in *in)
{
	uint64_t life = in->peer->life;

	if (!serve->now)
		serve->now = lend_now(serve->ep);
	/* A peer on shm may change the opcode until the store reads it; the proof is wrong then. */
	if (is_hello(bytes))
		(void)lend_session_context(serve->ep, session, in->peer->context);
	(void)lend_store_exec(serve->store, serve->now, in, &serve->out);
	if (serve->out.damaged)
		mn_memory_complain();
	if (in->peer->life != life)
		mn_peers_update_life(serve->peers, session);
}

/* Runs a request in its session and replies; returns its cost. late: as in lend_store_in.
 * *unwritten: there is no reply yet, the request must wait for its snapshot. */
static uint64_t run_request(struct mn_serve *serve, lend_session session, lend_request request,
			    const struct lend_buf *bytes, bool late, bool *unwritten)
{
	struct lend_store_in in = {
	    .peer = mn_peers_find(serve->peers, session), .seg = serve->seg, .late = late};
	uint64_t cost = MN_FAIR_OPERATION;
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	bool shows;
	uint32_t len;

	*unwritten = false;
	if (!in.peer || serve->refuses) {
		(void)lend_reply(serve->ep, request, LEND_UNAVAILABLE, NULL);
		return cost;
	}
	set_tx_bytes(serve, bytes);
	for (const struct lend_buf *b = bytes; b; b = b->next) {
		if (in.n == SEGS_MAX) {
			(void)lend_reply_why(serve->ep, request, LEND_INVALID_ARGUMENT,
					     "too many segments: send fewer, longer ones");
			return cost;
		}
		serve->seg[in.n].data = b->data;
		serve->seg[in.n++].len = b->len;
		cost += b->len;
	}
	if (bytes->next)
		in.placement = mn_landings_take(serve->landings, bytes);
	shows = mn_one_sided_head(bytes, head, &len);
	if (shows)
		serve->seg[0] = (struct lend_store_seg){head, len};
	exec_request(serve, session, bytes, &in);
	cost += serve->out.len;
	*unwritten = serve->out.status == LEND_MEM_UNWRITTEN;
	if (!*unwritten && shows)
		show_answer(serve, session, request);
	else if (!*unwritten)
		send_answer(serve, request);
	return cost;
}

/* Runs a request after its payload was read. */
static void run_fetched(lend_request request, struct lend_buf *message, void *arg)
{
	struct mn_serve *serve = arg;
	lend_session session = lend_request_session(serve->ep, request);
	bool unwritten;
	uint64_t cost = run_request(serve, session, request, message, true, &unwritten);

	if (mn_peers_find(serve->peers, session))
		mn_fair_charge(mn_peers_flow(serve->peers, session), cost);
	lend_buf_give(serve->ep, message);
}

/* Lets a request wait for its snapshot. Takes bytes; NULL: no memory. */
static void await_snapshot(struct mn_serve *serve, lend_request request, struct lend_buf *bytes)
{
	if (!bytes || !mn_reads_add(serve->reads, request, bytes, &serve->out))
		(void)lend_reply(serve->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static bool read_again(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct mn_serve *serve = arg;
	lend_session session = lend_request_session(serve->ep, request);
	bool unwritten;
	uint64_t cost = run_request(serve, session, request, bytes, true, &unwritten);

	if (mn_peers_find(serve->peers, session))
		mn_fair_charge(mn_peers_flow(serve->peers, session), cost);
	return !unwritten;
}

/* Starts to read a payload that is in the client's memory. False: this request has none there. */
static bool fetches_first(struct mn_serve *serve, lend_session session, lend_request request,
			  const struct lend_buf *bytes)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t len;

	if (!mn_one_sided_head(bytes, head, &len) || head[0] == LEND_MEMOP_GET)
		return false;
	mn_fetches_start(serve->fetches, session, request, bytes, head, len);
	return true;
}

/* A request that waits in its process's queue. */
struct wait {
	struct mn_wait link; /* first */
	lend_request request;
	struct lend_buf *bytes;
};

static void end_wait(struct mn_serve *serve, struct wait *wait)
{
	if (!serve->closed)
		lend_buf_give(serve->ep, wait->bytes);
	free(wait);
}

static void drop_request(struct mn_wait *link, void *arg)
{
	struct mn_serve *serve = arg;
	struct wait *wait = (struct wait *)(void *)link;

	if (!serve->closed) /* its session may have moved to another life */
		(void)lend_reply(serve->ep, wait->request, LEND_UNAVAILABLE, NULL);
	end_wait(serve, wait);
}

static uint64_t run_late(struct mn_wait *link, void *arg)
{
	struct wait *wait = (struct wait *)(void *)link;
	struct mn_serve *serve = arg;
	lend_session session = lend_request_session(serve->ep, wait->request);
	bool unwritten;
	uint64_t cost;

	if (fetches_first(serve, session, wait->request, wait->bytes)) {
		end_wait(serve, wait);
		return MN_FAIR_OPERATION;
	}
	cost = run_request(serve, session, wait->request, wait->bytes, true, &unwritten);
	if (!unwritten) {
		end_wait(serve, wait);
		return cost;
	}
	await_snapshot(serve, wait->request, wait->bytes);
	free(wait);
	return cost;
}

/* Queues a request. False: no memory, so it has to run now. */
static bool let_wait(struct mn_serve *serve, struct mn_flow *flow, lend_request request)
{
	struct wait *wait = malloc(sizeof(*wait));

	if (wait)
		wait->bytes = lend_request_take(serve->ep, request);
	if (!wait || !wait->bytes) {
		free(wait);
		return false;
	}
	wait->request = request;
	mn_fair_wait(serve->fair, flow, &wait->link);
	return true;
}

static void handle_request(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct mn_serve *serve = arg;
	lend_session session = lend_request_session(serve->ep, request);
	struct mn_flow *flow;
	uint64_t cost;
	bool unwritten;

	/* A node that refuses runs no more rounds, so no request may wait for one. */
	if (serve->refuses || !mn_peers_find(serve->peers, session)) {
		(void)lend_reply(serve->ep, request, LEND_UNAVAILABLE, NULL);
		return;
	}
	flow = mn_peers_flow(serve->peers, session);
	/* HELLO does not wait: it may close its flow. */
	if (!mn_fair_may(serve->fair, flow) && !is_hello(bytes) && let_wait(serve, flow, request))
		return;
	if (fetches_first(serve, session, request, bytes))
		return;
	cost = run_request(serve, session, request, bytes, false, &unwritten);
	if (unwritten)
		await_snapshot(serve, request, lend_request_take(serve->ep, request));
	if (mn_peers_find(serve->peers, session))
		mn_fair_charge(mn_peers_flow(serve->peers, session), cost);
}

static struct lend_buf *choose_landing(lend_session session, uint32_t method, uint64_t len,
				       const void *first, uint32_t n, void *arg)
{
	struct mn_serve *serve = arg;
	const struct lend_store_peer *peer = mn_peers_find(serve->peers, session);

	(void)method;
	if (n >= LEND_MEMOP_HEAD &&
	    lend_load_u16((const uint8_t *)first + 2) & LEND_MEMOP_ONE_SIDED)
		return lend_buf_take(serve->ep, (uint32_t)len);
	return peer ? mn_landings_choose(serve->landings, peer, first, n, len) : NULL;
}

int mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out)
{
	struct mn_serve *serve = calloc(1, sizeof(*serve));
	int rc;

	if (serve)
		serve->landings = mn_landings_open(ep, store);
	if (serve && serve->landings)
		serve->reads = mn_reads_open(ep, store);
	if (serve && serve->reads)
		serve->fetches = mn_fetches_open(ep, choose_landing, run_fetched, serve);
	if (!serve || !serve->fetches) {
		if (serve && serve->reads)
			mn_reads_close(serve->reads);
		if (serve)
			mn_landings_close(serve->landings);
		free(serve);
		return lend_fail(ENOMEM, "no memory to serve a store");
	}
	serve->ep = ep;
	serve->store = store;
	rc = mn_peers_open(ep, store, &serve->peers);
	if (rc == 0)
		serve->fair = mn_peers_fair(serve->peers, drop_request, serve);
	if (rc == 0)
		rc = lend_serve(ep, LEND_MEM_METHOD, handle_request, serve,
				LEND_RESERVED | LEND_CHAIN);
	if (rc == 0)
		rc = lend_serve_long(ep, LEND_MEM_METHOD, choose_landing, serve);
	*out = serve;
	return rc;
}

void mn_serve_set_memory(struct mn_serve *serve, struct mn_memory *pages)
{
	mn_landings_set_memory(serve->landings, pages);
}

void mn_serve_set_tenants(struct mn_serve *serve, const struct mn_tenants *tenants)
{
	mn_peers_set_tenants(serve->peers, tenants);
}

void mn_serve_turn(struct mn_serve *serve)
{
	serve->now = 0;
	mn_fair_round(serve->fair, run_late, serve);
	mn_reads_turn(serve->reads, read_again, serve, false);
	serve->now = 0;
}

bool mn_serve_waits(const struct mn_serve *serve)
{
	return mn_fair_waits(serve->fair) || mn_reads_due(serve->reads);
}

void mn_serve_refuse(struct mn_serve *serve)
{
	serve->refuses = true;
	while (mn_fair_waits(serve->fair))
		mn_fair_round(serve->fair, run_late, serve);
	mn_reads_turn(serve->reads, read_again, serve, true);
}

void mn_serve_close(struct mn_serve *serve)
{
	struct pins *chunk;

	serve->closed = true;
	while ((chunk = serve->chunks)) {
		serve->chunks = chunk->next;
		free(chunk);
	}
	if (serve->peers)
		mn_peers_close(serve->peers);
	mn_fetches_close(serve->fetches);
	mn_landings_close(serve->landings);
	mn_reads_close(serve->reads);
	free(serve);
}
