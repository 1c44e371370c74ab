/* explore_mem - programs on memory.
 *
 * A client runs its list of operations, one after the other, with FORGET of those with unknown
 * outcome. A memory node runs every request. Part of explore_prog.h. Layer: test. */
#include <stdlib.h>

#include "core/arena.h"
#include "mn/store/store.h"
#include "sim/explore/explore_canon.h"
#include "sim/explore/explore_prog.h"
#include "util/bits.h"

enum { LEN = 32, PAGES = 4, LEASE_MS = 300, TTL_MS = 100, REVIVE_MS = 50 };

void ex_mem_open(struct ex_node *n)
{
	size_t size;

	n->store_cfg = (struct lend_store_config){.pages = PAGES,
						  .page = LEND_MEM_PAGE,
						  .objects = 4,
						  .holds = 6,
						  .grants = 4,
						  .clients = 4,
						  .incarnations = 4,
						  .placements = 1,
						  .reap = 1,
						  .open = 4,
						  .node = 11,
						  .worker = 2,
						  .workers = 3,
						  .lease = LEASE_MS * LEND_MS,
						  .late = 10000 * LEND_MS,
						  .revive = REVIVE_MS * LEND_MS};
	size = lend_store_size(&n->store_cfg);
	LEND_CHECK(size > 0);
	n->store = aligned_alloc(64, (size + 63) & ~(size_t)63);
	n->pages = aligned_alloc(LEND_MEM_PAGE, lend_store_pages_size(&n->store_cfg));
	LEND_CHECK(n->store && n->pages);
	ex_mem_start(n);
	n->scratch = malloc(lend_store_audit_size(n->store));
	LEND_CHECK(n->scratch != NULL);
}

void ex_mem_start(struct ex_node *n)
{
	n->store_cfg.epoch = 100 + n->app.inc;
	memset(n->store_cfg.key, 7 + n->app.inc, sizeof(n->store_cfg.key));
	memset(n->pages, 0, lend_store_pages_size(&n->store_cfg));
	lend_store_init(n->store, &n->store_cfg, n->pages, n->now);
}

void ex_mem_close(struct ex_node *n)
{
	free(n->store);
	free(n->pages);
	free(n->scratch);
}

static enum ex_mem_op current_op(const struct ex_node *n)
{
	return (enum ex_mem_op)n->scope->mem[n->index][n->app.mem.at];
}

bool ex_mem_wants(const struct ex_node *n)
{
	const struct ex_memapp *m = &n->app.mem;

	if (!n->app.session || n->app.call[0] || m->dead || ex_serves(n))
		return false;
	if (m->forget)
		return true;
	return current_op(n) != EX_MEM_END &&
	       (m->has_ref || (current_op(n) != EX_MEM_ADOPT && current_op(n) != EX_MEM_GET));
}

static uint8_t byte_at(uint8_t content, uint32_t i)
{
	return (uint8_t)(0x5a + i * 3 + content * 11u);
}

static void pass_on(struct ex_node *n)
{
	struct ex_dgram g = {
	    .from = (uint8_t)n->index, .to = (uint8_t)(1 - n->index), .app = 1, .data_len = 65};

	memcpy(g.bytes, n->app.mem.ref, sizeof(n->app.mem.ref));
	g.bytes[64] = n->app.mem.content;
	ex_send(n, &g);
	n->app.mem.at++;
}

void ex_mem_passed(struct ex_node *n, const struct ex_dgram *g)
{
	if (n->app.mem.has_ref)
		return;
	memcpy(n->app.mem.ref, g->bytes, sizeof(n->app.mem.ref));
	n->app.mem.content = g->bytes[64];
	n->app.mem.has_ref = 1;
}

static void set_terms(struct lend_memop *op, uint8_t kind)
{
	op->terms.kind = kind;
	op->terms.n = kind == LEND_TERMS_SHARED ? 1 : 0;
	op->terms.ttl = kind == LEND_TERMS_OWNED ? 0 : TTL_MS * LEND_MS;
}

/* Returns the current operation of the program, or its FORGET. */
static struct lend_memop make_op(const struct ex_node *n, bool forget)
{
	static const uint8_t kind[] = {
	    [EX_MEM_HELLO] = LEND_MEMOP_HELLO,    [EX_MEM_PUT_OWNED] = LEND_MEMOP_PUT,
	    [EX_MEM_PUT] = LEND_MEMOP_PUT,        [EX_MEM_SHARE] = LEND_MEMOP_PUT,
	    [EX_MEM_GRANT] = LEND_MEMOP_GRANT,    [EX_MEM_ADOPT] = LEND_MEMOP_ADOPT,
	    [EX_MEM_GET] = LEND_MEMOP_GET,        [EX_MEM_RELEASE] = LEND_MEMOP_RELEASE,
	    [EX_MEM_PASS] = LEND_MEMOP_BYE_CLIENT};
	const struct ex_memapp *m = &n->app.mem;
	enum ex_mem_op at = current_op(n);
	struct lend_memop op = {
	    .kind = kind[at], .client = n->index + 1, .life = m->life, .id = m->id, .low = m->id};

	if (forget) {
		op.kind = LEND_MEMOP_FORGET;
		op.id = 0;
		op.target = m->id;
		return op;
	}
	if (op.kind == LEND_MEMOP_HELLO)
		op.life = 0;
	if (!lend_memop_recorded(op.kind))
		op.id = op.low = 0;
	if (op.kind == LEND_MEMOP_PUT || op.kind == LEND_MEMOP_GET)
		op.len = LEN;
	if (op.kind == LEND_MEMOP_PUT)
		set_terms(&op, at == EX_MEM_PUT     ? LEND_TERMS_TRANSFER
			       : at == EX_MEM_SHARE ? LEND_TERMS_SHARED
						    : LEND_TERMS_OWNED);
	if (op.kind == LEND_MEMOP_GRANT)
		set_terms(&op, LEND_TERMS_TRANSFER);
	if (op.kind == LEND_MEMOP_RELEASE)
		op.n = 1;
	else if (op.kind == LEND_MEMOP_GET || op.kind == LEND_MEMOP_ADOPT ||
		 op.kind == LEND_MEMOP_GRANT)
		LEND_CHECK(lend_memref_decode(m->ref, &op.ref));
	return op;
}

static uint32_t write_request(const struct ex_node *n, bool forget, uint8_t *to)
{
	struct lend_memop op = make_op(n, forget);
	uint32_t len = lend_memop_encode(&op, to);

	if (op.kind == LEND_MEMOP_RELEASE) {
		memcpy(to + len, n->app.mem.ref, LEND_MEMREF_LEN);
		len += LEND_MEMREF_LEN;
	}
	for (uint32_t i = 0; op.kind == LEND_MEMOP_PUT && i < LEN; i++)
		to[len++] = byte_at(n->app.mem.at, i);
	return len;
}

static uint32_t put_dyn(struct ex_node *n, uint32_t i, uint32_t len)
{
	uint32_t buf = EX_BUF_DYN + i;

	n->app.dyn[i].len = (uint16_t)len;
	n->seg[buf].len = len;
	ex_buf_lend(n, buf);
	return buf;
}

void ex_mem_op(struct ex_node *n, bool forget)
{
	struct ex_memapp *m = &n->app.mem;
	struct lend_core_call call = {.method = LEND_MEM_METHOD, .deadline = LEND_NEVER};

	if (!m->forget && current_op(n) == EX_MEM_PASS) {
		pass_on(n);
		return;
	}
	m->id += !m->id;
	call.request = put_dyn(n, 0, write_request(n, forget, n->app.dyn[0].bytes));
	if (lend_core_call(n->core, n->now, n->app.session, &n->bufs, &call, &n->app.call[0])) {
		n->app.call[0] = 0;
		ex_buf_back(n, call.request);
	} else {
		m->asked = forget;
	}
}

static void op_done(struct ex_memapp *m)
{
	m->at++;
	m->id++;
	m->forget = 0;
}

static void op_finished(struct ex_node *n, enum ex_mem_op at, const uint8_t *data, uint32_t len)
{
	struct ex_memapp *m = &n->app.mem;
	struct lend_memhello hello;

	if (at == EX_MEM_HELLO) {
		if (!lend_memhello_decode(data, len, &hello))
			ex_bad(n, "HELLO has another answer");
		else
			m->life = hello.life;
	}
	if (at == EX_MEM_PUT_OWNED || at == EX_MEM_PUT || at == EX_MEM_SHARE) {
		if (len != sizeof(m->ref))
			ex_bad(n, "PUT returns no reference");
		else
			memcpy(m->ref, data, sizeof(m->ref));
		m->has_ref = 1;
		m->content = m->at;
		m->holds = at != EX_MEM_PUT;
	}
	for (uint32_t i = 0; at == EX_MEM_GET && i < LEN; i++)
		if (len != LEN || data[i] != byte_at(m->content, i))
			ex_bad(n, "GET returns wrong bytes");
	if (at == EX_MEM_RELEASE && m->holds && (len != 8 || lend_load_u32(data) != 1))
		ex_bad(n, "a hold is not released");
	if (at == EX_MEM_GRANT || at == EX_MEM_RELEASE)
		m->holds = 0;
	if (at == EX_MEM_ADOPT)
		m->holds = 1;
	op_done(m);
}

/* Handles the outcome that FORGET reports. */
static void op_forgotten(struct ex_node *n, const uint8_t *data, uint32_t len)
{
	struct ex_memapp *m = &n->app.mem;
	uint64_t what = len == 8 ? lend_load_u64(data) : LEND_FORGOT_RAN + 1;

	if (what > LEND_FORGOT_RAN) {
		ex_bad(n, "FORGET has another answer");
	} else if (what != LEND_FORGOT_RAN) {
		m->id++;
		m->forget = 0;
	} else {
		m->holds = current_op(n) == EX_MEM_ADOPT;
		op_done(m);
	}
}

static void op_refused(struct ex_node *n, enum lend_mem_status status)
{
	struct ex_memapp *m = &n->app.mem;
	bool gone = status == LEND_MEM_NOT_FOUND || status == LEND_MEM_FAILED_PRECONDITION;

	if (status == LEND_MEM_ABORTED && !m->lives && n->app.inc == 0) {
		*m = (struct ex_memapp){.lives = 1, .again = m->again};
	} else if (status == LEND_MEM_ABORTED) {
		*m = (struct ex_memapp){.lives = 1, .dead = 1};
	} else if (gone && !m->holds && !m->asked && current_op(n) != EX_MEM_HELLO) {
		m->forget = 0;
		m->dead = 1; /* the grant ended: the program is done */
	} else {
		ex_bad(n, "an operation fails that must succeed");
	}
}

void ex_mem_end(struct ex_node *n, const struct lend_event *e)
{
	struct ex_memapp *m = &n->app.mem;

	ex_buf_back(n, e->buf);
	ex_buf_back(n, e->reply);
	if (e->ran == RAN_MAYBE)
		m->forget |= lend_memop_recorded(make_op(n, false).kind);
	if (e->ran != RAN_YES)
		return;
	if (e->status != LEND_MEM_OK)
		op_refused(n, (enum lend_mem_status)e->status);
	else if (m->asked)
		op_forgotten(n, e->data, e->data_len);
	else
		op_finished(n, current_op(n), e->data, e->data_len);
}

static uint32_t free_dyn(const struct ex_node *n)
{
	uint32_t i = 0;

	while (i < EX_REQS && n->app.lent >> (EX_BUF_DYN + i) & 1)
		i++;
	return i;
}

static uint32_t copy_out(struct ex_node *n, const struct lend_store_out *out, uint8_t *to)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < out->n; i++) {
		if (len + out->seg[i].len > EX_MEM_BYTES) {
			ex_bad(n, "an answer that is too long");
			break;
		}
		memcpy(to + len, out->seg[i].data, out->seg[i].len);
		len += (uint32_t)out->seg[i].len;
	}
	if (out->pinned)
		lend_store_done(n->store, 0, out->seg, out->n);
	return len;
}

/* Joins are not explored: a process keeps its life in all sessions. */
static uint64_t life_of(const struct lend_store *s, const uint8_t incarnation[16])
{
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		if (!memcmp(lend_incarnation_at(s, i)->id, incarnation, 16))
			return lend_incarnation_at(s, i)->life;
	return 0;
}

void ex_mem_serve(struct ex_node *n, const struct lend_event *e)
{
	static struct lend_store_out out;
	struct lend_store_peer peer = {.life = 0};
	struct lend_store_seg seg = {(void *)(uintptr_t)e->data, e->data_len};
	struct lend_store_in in = {&peer, &seg, 1, 0, false};
	uint32_t i = free_dyn(n), address, buf = 0;

	if (i == EX_REQS ||
	    lend_core_session_peer(n->core, e->session, &address, peer.incarnation)) {
		ex_bad(n, "a request without a session, or more than may be in flight");
		return;
	}
	peer.life = life_of(n->store, peer.incarnation);
	lend_store_exec(n->store, n->now, &in, &out);
	if (out.len)
		buf = put_dyn(n, i, copy_out(n, &out, n->app.dyn[i].bytes));
	n->app.replies++;
	if (lend_core_reply(n->core, n->now, e->call, &n->bufs, (uint8_t)out.status, buf))
		ex_bad(n, "a request cannot be answered");
}

static bool is_empty(const struct lend_store *s)
{
	return s->object.used + s->frame.used + s->client.used + s->incarnation.used +
		   s->grant.used + s->hold.used ==
	       0;
}

static uint8_t client_holds(const struct lend_store *s, const struct lend_incarnation *inc)
{
	uint8_t n = 0;

	for (uint32_t c = inc->clients; c; c = lend_client_at(s, c)->next)
		for (uint32_t h = lend_client_at(s, c)->holds; h; h = lend_hold_at(s, h)->next)
			n++;
	return n;
}

/* Returns the number of the process: node and incarnation, as in the core's config. */
static uint32_t process_of(const uint8_t id[16])
{
	return (id[0] / 0x10u - 1) * 2 + id[0] % 0x10u;
}

static void node_attr(struct ex_node *n, struct ex_attr *a)
{
	for (uint32_t i = 1; i <= n->store->incarnation.top; i++) {
		const struct lend_incarnation *inc = lend_incarnation_at(n->store, i);

		if (!inc->life || process_of(inc->id) >= EX_PROCESSES)
			continue;
		a->lives[process_of(inc->id)] = (uint8_t)inc->life;
		a->holds[process_of(inc->id)] = client_holds(n->store, inc);
	}
	a->clean &= is_empty(n->store);
}

void ex_mem_attr(struct ex_node *n, struct ex_attr *a)
{
	const struct ex_memapp *m = &n->app.mem;
	uint32_t i = n->index * 2 + n->app.inc;

	if (n->store) {
		node_attr(n, a);
		return;
	}
	if (!n->scope->mem[0][0] || i >= EX_PROCESSES)
		return;
	a->lives[i] = m->dead ? 0 : (uint8_t)m->life;
	a->holds[i] = m->holds;
	if (!m->forget || n->app.call[0])
		return;
	a->idle = 0;
	a->settle = n->app.session ? 1 : 2;
}
