/* mem_request - one operation at a memory node: the store runs it, then the model, and both results
 * must agree. Part of mem_serve. Layer: test/sim. */
#include <stdlib.h>
#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/hold.h"
#include "mn/store/lease.h"
#include "sim/memory/mem_state.h"
#include "util/bits.h"

enum { SAMPLE = 64, UNAVAILABLE = 14 };

static struct mem_server *server_at(struct sim *sim, uint32_t node)
{
	return &sim->mem->server[node];
}

/* Collects the request's segments, and copies its first bytes into one piece. */
static uint32_t gather_request(struct sim *sim, uint32_t node, const struct lend_event *e,
			       uint8_t head[LEND_MEMOP_FIXED_MAX])
{
	struct mem_server *s = server_at(sim, node);
	const struct lend_seg *seg = sim->node[node].bufs.seg;
	uint64_t left = e->len, had = 0;
	uint32_t n = 0;

	if (e->data)
		s->seg[n++] = (struct lend_store_seg){(void *)(uintptr_t)e->data, e->len};
	for (uint32_t b = e->data ? 0 : e->buf; b && left; b = seg[b].next) {
		s->seg[n] = (struct lend_store_seg){seg[b].data, lend_min_u64(seg[b].cap, left)};
		left -= s->seg[n++].len;
	}
	for (uint32_t i = 0; i < n && had < LEND_MEMOP_FIXED_MAX; i++) {
		uint64_t here = lend_min_u64(s->seg[i].len, LEND_MEMOP_FIXED_MAX - had);

		memcpy(head + had, s->seg[i].data, here);
		had += here;
	}
	return n;
}

/* Copies bytes [from, from + len) out of the segments. */
static void copy_out(const struct lend_store_seg *seg, uint32_t n, uint64_t from, uint8_t *to,
		     uint64_t len)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n && len; at += seg[i++].len) {
		uint64_t skip = from > at ? from - at : 0, here;

		if (skip >= seg[i].len)
			continue;
		here = lend_min_u64(seg[i].len - skip, len);
		memcpy(to, (uint8_t *)seg[i].data + skip, here);
		to += here;
		len -= here;
		from += here;
	}
}

/* True when bytes [from, from + len) of the segments are those of a version. */
static bool payload_is(const struct lend_store_seg *seg, uint32_t n, uint64_t from,
		       uint64_t version, uint64_t len)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t skip = from > at ? lend_min_u64(from - at, seg[i].len) : 0;
		uint64_t here =
		    lend_min_u64(seg[i].len - skip, from + len - lend_max_u64(at, from));

		if (here && mem_match((uint8_t *)seg[i].data + skip, version, at + skip - from,
				      here) < here)
			return false;
		at += seg[i].len;
	}
	return at == from + len;
}

void mem_serve_check(struct sim *sim, uint32_t node, const struct lend_store_seg *seg, uint32_t n,
		     const struct mem_view *want, const char *when)
{
	uint64_t at = 0, version, place;

	for (uint32_t i = 0; i < n; at += seg[i++].len) {
		uint64_t right = mem_view_match(want, at, seg[i].data, seg[i].len);

		if (right == seg[i].len)
			continue;
		if (mem_foreign((uint8_t *)seg[i].data + (right & ~UINT64_C(7)),
				seg[i].len - (right & ~UINT64_C(7)), &version, &place))
			sim_fail(sim,
				 "node %u: byte %llu of a reply %s is byte %llu of what client "
				 "%llu wrote as %llu",
				 node, (unsigned long long)(at + right), when,
				 (unsigned long long)place, (unsigned long long)(version >> 24),
				 (unsigned long long)(version & 0xfffff));
		sim_fail(sim, "node %u: byte %llu of a reply %s is wrong", node,
			 (unsigned long long)(at + right), when);
	}
	SIM_CHECK(sim, at == want->len, "node %u: a reply of %llu bytes instead of %llu", node,
		  (unsigned long long)at, (unsigned long long)want->len);
}

/* Repeats the same bytes. The reply must be the same, without a change: of the whole state, or only
 * of what the model counts. */
static void run_again(struct sim *sim, uint32_t node, const struct lend_store_in *in,
		      const struct lend_memop *op, bool whole)
{
	struct mem_server *s = server_at(sim, node);
	struct lend_store *store = sim->node[node].store;
	struct lend_store_in same = *in;
	uint64_t before = whole ? lend_store_hash(store) : 0;

	if (op && (op->kind == LEND_MEMOP_BYE_CLIENT || op->kind == LEND_MEMOP_STAT))
		return;
	same.placement = 0;
	lend_store_exec(store, sim->now, &same, &s->again);
	if (s->again.pinned)
		lend_store_done(store, s->again.tenant, s->again.seg, s->again.n);
	if (s->out.pinned && s->again.status == LEND_MEM_RESOURCE_EXHAUSTED)
		return; /* the first reply still reads pages, and its tenant may pin no more */
	SIM_CHECK(sim, s->again.status == s->out.status && s->again.len == s->out.len,
		  "node %u: %s repeated returns %u instead of %u", node,
		  mem_op_name(op ? op->kind : 0), s->again.status, s->out.status);
	SIM_CHECK(sim, !whole || lend_store_hash(store) == before,
		  "node %u: %s repeated changes the state", node, mem_op_name(op ? op->kind : 0));
	if (op && (lend_memop_recorded(op->kind) || op->kind == LEND_MEMOP_HELLO))
		SIM_CHECK(sim, memcmp(s->again.head, s->out.head, s->again.len) == 0,
			  "node %u: %s repeated has another reply", node, mem_op_name(op->kind));
}

/* State before an operation, to check that a failed one changes only its record, and how many
 * records of its client were ever used. Other changes that
 * a failed operation may make are made before. */
struct before {
	uint64_t hash;
	struct lend_record record, *at;
	uint32_t used, *records;
	bool frees; /* trees wait to be freed, which the operation may do to make room */
};

static void look_before(struct sim *sim, uint32_t node, const struct lend_store_peer *peer,
			const struct lend_memop *op, struct before *b)
{
	struct lend_store *store = sim->node[node].store;
	uint32_t client = op->kind == LEND_MEMOP_HELLO || op->life != peer->life
			      ? 0
			      : lend_client_find(store, op->life, op->client);

	b->at = NULL;
	lend_free_end_quarantine(store, sim->now);
	lend_grant_expire(store, sim->now);
	if (client) {
		lend_lease_renew(store, sim->now, lend_client_at(store, client)->incarnation);
		if (op->low <= (op->kind == LEND_MEMOP_FORGET ? op->target : op->id))
			lend_client_drop_records(store, client, op->low);
		b->at = lend_record_at(store, client, op->id);
		b->record = *b->at;
		b->records = &lend_client_at(store, client)->records;
		b->used = *b->records;
	}
	b->hash = lend_store_hash(store);
	b->frees = store->dying != 0;
}

static void look_after(struct sim *sim, uint32_t node, const struct lend_memop *op,
		       const struct before *b)
{
	struct lend_record now = {0};
	uint32_t used = 0;

	if (server_at(sim, node)->out.status == LEND_MEM_OK || b->frees)
		return;
	if (b->at) {
		now = *b->at;
		used = *b->records;
		*b->at = b->record;
		*b->records = b->used;
	}
	SIM_CHECK(sim, lend_store_hash(sim->node[node].store) == b->hash,
		  "node %u: %s failed with %u and changed the state", node, mem_op_name(op->kind),
		  server_at(sim, node)->out.status);
	if (b->at) {
		*b->at = now;
		*b->records = used;
	}
}

static struct mem_reply *take_reply(struct mem_server *s)
{
	struct mem_reply *r = s->reply;
	uint32_t i = 0;

	while (i < s->replies && s->reply[i].buf)
		i++;
	if (i == s->replies) {
		uint32_t n = s->replies ? 2 * s->replies : 8;

		r = realloc(s->reply, n * sizeof(*r));
		LEND_CHECK(r);
		memset(r + s->replies, 0, (n - s->replies) * sizeof(*r));
		s->reply = r;
		s->replies = n;
	}
	return &s->reply[i];
}

static void *grow_array(void *p, uint32_t *cap, uint32_t n, size_t size)
{
	if (n <= *cap)
		return p;
	*cap = 2 * n;
	p = realloc(p, *cap * size);
	LEND_CHECK(p);
	return p;
}

static uint32_t reply_pages(struct sim *sim, uint32_t node, const struct mem_done *done)
{
	struct mem_server *s = server_at(sim, node);
	struct mem_reply *r = take_reply(s);

	mem_serve_check(sim, node, s->out.seg, s->out.n, &done->bytes, "when it ran");
	r->seg = grow_array(r->seg, &r->seg_cap, s->out.n, sizeof(*r->seg));
	r->page = grow_array(r->page, &r->page_cap, done->pages, sizeof(*r->page));
	memcpy(r->seg, s->out.seg, s->out.n * sizeof(*r->seg));
	if (done->pages)
		memcpy(r->page, done->page, done->pages * sizeof(*r->page));
	r->segs = s->out.n;
	r->tenant = s->out.tenant;
	r->pages = done->pages;
	r->bytes = done->bytes;
	r->buf = mem_serve_wrap(sim, node, 0, s->out.seg, s->out.n);
	return r->buf;
}

static void answer_request(struct sim *sim, uint32_t node, uint64_t call,
			   const struct mem_done *done)
{
	struct sim_node *n = &sim->node[node];
	struct mem_server *s = server_at(sim, node);
	const struct lend_store_out *out = &s->out;
	uint32_t buf = 0;
	int rc;

	if (out->pinned) {
		buf = reply_pages(sim, node, done);
	} else if (out->len) {
		buf = sim_node_buf(sim, node, (uint32_t)out->len, (uint32_t)out->len);
		memcpy(n->bufs.seg[buf].data, out->head, out->len);
	}
	sim_node_lend(sim, node, buf);
	rc = lend_core_reply(n->core, sim->now, call, &n->bufs, (uint8_t)out->status, buf);
	SIM_CHECK(sim, rc == 0, "node %u: reply to an operation returns %d", node, rc);
	sim_node_kick(sim, node);
}

/* Finds the placement that the message was received into. */
static void take_landing(struct mem_server *s, uint32_t buf, struct lend_store_in *in,
			 struct mem_in *m)
{
	for (uint32_t i = 0; buf && i < MEM_LANDINGS; i++) {
		if (s->landing[i].buf != buf)
			continue;
		in->placement = s->landing[i].placement;
		m->placed = s->landing[i].own ? 0 : s->landing[i].pages;
		m->landed = s->landing[i].own;
		mem_landing_end(s, &s->landing[i]);
		return;
	}
}

/* The received bytes must be those that were sent: header, and data to write. */
static void check_request(struct sim *sim, uint32_t node, uint32_t n, uint64_t len,
			  const struct lend_memop *op)
{
	uint64_t version = mem_version(op->client, node, op->id);

	if (op->kind != LEND_MEMOP_PUT && op->kind != LEND_MEMOP_WRITE)
		return;
	SIM_CHECK(sim,
		  payload_is(server_at(sim, node)->seg, n, op->fixed, version, len - op->fixed),
		  "node %u: the bytes of %s %llu of client %u are wrong", node,
		  mem_op_name(op->kind), (unsigned long long)op->id, op->client);
}

static void run_both(struct sim *sim, uint32_t node, struct lend_store_in *in, struct mem_in *m,
		     struct mem_done *done)
{
	struct mem_server *s = server_at(sim, node);
	struct lend_store *store = sim->node[node].store;
	bool sample = ++s->execs % SAMPLE == 0, look = m->op && sample && !in->placement;
	struct before before;

	if (look)
		look_before(sim, node, in->peer, m->op, &before);
	lend_store_exec(store, sim->now, in, &s->out);
	if (look)
		look_after(sim, node, m->op, &before);
	if (sample || s->execs % 8 == 0) {
		struct lend_memstats counts = store->counts;

		run_again(sim, node, in, m->op, s->execs % 32 == 0);
		counts.spaces = store->counts.spaces;
		store->counts = counts;
	}
	mem_model_exec(&s->model, m, done);
}

static void serve_session(struct sim *sim, uint32_t node, const struct lend_event *e,
			  struct mem_session *session)
{
	struct mem_server *s = server_at(sim, node);
	uint8_t head[LEND_MEMOP_FIXED_MAX], refs[LEND_MEM_BATCH_MAX * LEND_MEMREF_LEN];
	struct mem_done done = {.page = s->page};
	struct lend_store_in in = {.peer = &session->peer, .seg = s->seg};
	struct mem_in m = {.process = lend_load_u64(session->peer.incarnation),
			   .context = session->peer.context,
			   .life = &session->life,
			   .refs = refs,
			   .out = &s->out};
	struct lend_memop op;
	struct mem_op *mine;

	in.n = gather_request(sim, node, e, head);
	m.status = lend_memop_decode(head, lend_min_u64(e->len, sizeof(head)), e->len, &op);
	if (m.status == LEND_MEM_OK)
		m.op = &op;
	mem_session_context(sim, node, e->session, session->peer.context);
	take_landing(s, e->buf, &in, &m);
	mine = mem_op_find(sim, head, m.op, node);
	if (m.op) {
		check_request(sim, node, in.n, e->len, &op);
		if (op.kind == LEND_MEMOP_RELEASE)
			copy_out(s->seg, in.n, op.fixed, refs, (uint64_t)op.n * LEND_MEMREF_LEN);
	}
	mem_rot_turn(sim, node);
	run_both(sim, node, &in, &m, &done);
	sim->count.memops++;
	sim_trace_add(&sim->trace, sim->now, mem_op_name(m.op ? op.kind : 0), node,
		      m.op ? op.client : 0, m.op ? op.id : 0, s->out.status);
	sim_note(sim, lend_load_u64(head), s->out.status);
	if (s->out.status == LEND_MEM_UNWRITTEN) {
		if (!mem_wait_add(sim, node, e, head))
			mem_wait_refuse(sim, node, e, head);
		return;
	}
	if (mine)
		mem_op_ran(sim, mine, &s->out, &done);
	answer_request(sim, node, e->call, &done);
}

void mem_request_run(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct mem_session *session = mem_serve_session(sim, node, e->session);

	if (session)
		serve_session(sim, node, e, session);
	else /* its session is down already */
		lend_core_reply(sim->node[node].core, sim->now, e->call, &sim->node[node].bufs,
				UNAVAILABLE | LEND_REPLY_NOT_RUN, 0);
}

void sim_mem_request(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	if (node >= sim->mem->servers)
		mem_client_get_refs(sim, node, e);
	else
		mem_request_run(sim, node, e);
	sim_node_unbuf(sim, node, e->buf);
	if (node < sim->mem->servers)
		mem_wait_turn(sim, node);
}
