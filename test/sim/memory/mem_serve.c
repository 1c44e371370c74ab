/* mem_serve - a memory node: the real store behind the real core, as in the daemon. After each step
 * it is compared with the model. Layer: test/sim. */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "mn/store/frame.h"
#include "mn/store/recover.h"
#include "mn/store/store.h"
#include "sim/memory/mem_state.h"
#include "util/bits.h"

enum { SESSION_INDEX = 0xffffff };

static struct mem_server *server_at(struct sim *sim, uint32_t node)
{
	return &sim->mem->server[node];
}

static uint32_t pick_value(struct lend_rng *r, uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t of[] = {a, b, c};

	return of[lend_rng_below(r, 3)];
}

/* The same for every life of a node, except for the epoch and the key. Tables are small in some
 * plans. */
static void fill_config(struct sim *sim, uint32_t node)
{
	struct mem_server *s = server_at(sim, node);
	const struct sim_plan *p = &sim->plan;
	uint32_t all = (uint32_t)((p->nodes - p->stores) * p->clients + 1);
	struct lend_rng r;

	lend_rng_seed(&r, p->seed * 31 + node);
	s->cfg = (struct lend_store_config){
	    .pages = (uint32_t)p->pages,
	    .page = UINT32_C(1) << p->page_bits,
	    .objects = pick_value(&r, 8, 64, 512),
	    .holds = pick_value(&r, 8, 64, 512),
	    .grants = pick_value(&r, 4, 32, 256),
	    .clients = lend_min_u32(MEM_CLIENTS, pick_value(&r, all, 2 * all, MEM_CLIENTS)),
	    .incarnations = pick_value(&r, (uint32_t)p->nodes, 2 * (uint32_t)p->nodes, MEM_CLIENTS),
	    .placements = pick_value(&r, 1, 4, 16),
	    .open = pick_value(&r, 4, 16, 64),
	    .node = 1000 + node,
	    .worker = (uint32_t)lend_rng_below(&r, 64),
	    .lease = p->lease_us * 1000,
	    .late = p->lease_us * 500 + 1,
	    .revive = p->lease_us * 500,
	    .addresses = lend_rng_below(&r, 2) ? "sim:0,sim:1" : NULL,
	};
	s->cfg.workers = s->cfg.worker + 1 + (uint32_t)lend_rng_below(&r, 64 - s->cfg.worker);
	s->cfg.reap = lend_rng_below(&r, 2) ? 1 : 4; /* 1: larger objects are freed step by step */
	s->cfg.tenants = MEM_TENANTS;
	for (uint32_t i = 0; i < MEM_TENANTS; i++)
		s->quota[i] = (struct lend_store_quota){
		    .pages = lend_rng_below(&r, 2) ? UINT64_MAX
						   : p->pages / pick_value(&r, 2, 8, 32) + 1,
		    .refs = lend_rng_below(&r, 2) ? UINT32_MAX : pick_value(&r, 4, 8, 16),
		    .clients =
			lend_rng_below(&r, 4) ? UINT32_MAX : pick_value(&r, 1, all / 2 + 1, all),
		};
	if (sim->mem->sparse) { /* page tables run out first */
		s->cfg.objects = s->cfg.holds = s->cfg.grants = 512;
		for (uint32_t i = 0; i < MEM_TENANTS; i++)
			s->quota[i] = (struct lend_store_quota){UINT64_MAX, UINT32_MAX, UINT32_MAX};
	}
	s->cfg.quarantine =
	    lend_rng_below(&r, 2) ? 0 : UINT64_C(1000) * pick_value(&r, 50, 1000, 20000);
	s->cfg.epoch = (uint32_t)(p->seed << 8) + ++s->births;
	s->cfg.checksum = p->sums != 0;
	s->cfg.yields = p->seed / 8 % 2;
	s->pooled = lend_rng_below(&r, 2) &&
		    !p->rot_ppm; /* processes that map pages do not verify checksums */
	lend_rng_seed(&s->pool, p->seed * 61 + node + s->births);
	for (int i = 0; i < 16; i++)
		s->cfg.key[i] = (uint8_t)(p->seed >> i % 8 * 8) ^ (uint8_t)(s->births * 17 + i);
}

/* Restarts a node with its memory. */
static void go_on(struct sim *sim, uint32_t node)
{
	struct mem_server *s = server_at(sim, node);
	struct sim_node *n = &sim->node[node];
	const char *bad = lend_store_mismatch(s->kept, lend_store_size(&s->cfg), &s->cfg);

	n->store = s->kept;
	n->pages = s->kept_pages;
	s->kept = NULL;
	s->session = calloc(n->cfg.sessions, sizeof(*s->session));
	LEND_CHECK(s->session);
	if (!bad)
		bad = lend_store_recover(n->store, &s->cfg, n->pages, sim->now);
	if (!bad)
		bad = lend_store_audit(n->store, s->scratch);
	SIM_CHECK(sim, !bad, "node %u, recovered: %s", node, bad);
	mem_model_recover(&s->model);
	mem_mapping_end_all(&s->model); /* views were mappings of another memory */
	s->model.stats.damaged += mem_rot_count(&s->model);
	if (mem_rot_count(&s->model))
		SIM_MARK(sim, mem_rot_kept);
	mem_model_compare(&s->model, "a start with its memory");
}

void sim_mem_birth(struct sim *sim, uint32_t node)
{
	struct mem_server *s = server_at(sim, node);
	struct sim_node *n = &sim->node[node];
	size_t size;

	if (s->kept) {
		go_on(sim, node);
		return;
	}
	fill_config(sim, node);
	size = lend_store_size(&s->cfg);
	SIM_CHECK(sim, size, "the plan makes no valid store");
	n->store = aligned_alloc(64, lend_align_up(size, 64));
	n->pages = calloc(s->cfg.pages + 1, s->cfg.page);
	s->session = calloc(n->cfg.sessions, sizeof(*s->session));
	LEND_CHECK(n->store && n->pages && s->session);
	lend_store_init(n->store, &s->cfg, n->pages, sim->now);
	mem_model_open(&s->model, sim, node, &s->cfg, n->store);
	for (uint32_t i = 0; i < MEM_TENANTS; i++) {
		lend_store_set_quota(n->store, i, &s->quota[i]);
		s->model.tenant[i].quota = s->quota[i];
	}
	s->scratch = malloc(lend_store_audit_size(n->store));
	LEND_CHECK(s->scratch);
}

void mem_landing_end(struct mem_server *s, struct mem_landing *l)
{
	if (l->own)
		mem_model_landed(&s->model, l->page, l->pages);
	free(l->page);
	l->page = NULL;
	l->buf = 0;
	l->own = 0;
}

/* The message of a landing is gone. */
static void undo_landing(struct mem_server *s, struct mem_landing *l)
{
	if (!l->own)
		mem_model_unplace(&s->model, l->tenant, l->pages);
	mem_landing_end(s, l);
}

/* Drops what was in progress, in the model as well. */
static void cut_short(struct mem_server *s)
{
	for (uint32_t i = 0; i < MEM_LANDINGS; i++)
		if (s->landing[i].buf)
			undo_landing(s, &s->landing[i]);
	for (uint32_t i = 0; i < s->replies; i++)
		if (s->reply[i].buf)
			mem_model_unpin(&s->model, s->reply[i].tenant, s->reply[i].page,
					s->reply[i].pages);
}

static void drop_store(struct mem_server *s, struct lend_store *store, void *pages)
{
	if (!store)
		return;
	mem_model_close(&s->model);
	free(store);
	free(pages);
	free(s->scratch);
	s->scratch = NULL;
}

bool sim_mem_lends(const struct sim *sim, uint32_t node)
{
	const struct mem_server *s = &sim->mem->server[node];

	for (uint32_t i = 0; i < s->replies; i++)
		if (s->reply[i].buf)
			return true;
	return false;
}

void sim_mem_crash(struct sim *sim, uint32_t node)
{
	struct mem_server *s = server_at(sim, node);
	struct sim_node *n = &sim->node[node];

	if (sim->plan.keep_ppm && mem_below(sim, 1000000) < sim->plan.keep_ppm) {
		if (s->model.stats.refs)
			SIM_MARK(sim, mem_kept);
		cut_short(s);
		s->kept = n->store;
		s->kept_pages = n->pages;
	} else {
		if (s->model.stats.refs)
			SIM_MARK(sim, mem_restart_with_refs);
		drop_store(s, n->store, n->pages);
	}
	free(s->session);
	n->store = NULL;
	n->pages = NULL;
	s->session = NULL;
	for (uint32_t i = 0; i < MEM_LANDINGS; i++)
		free(s->landing[i].page);
	memset(s->landing, 0, sizeof(s->landing));
	memset(s->waiting, 0, sizeof(s->waiting));
	for (uint32_t i = 0; i < s->replies; i++)
		s->reply[i].buf = 0;
}

void mem_serve_open(struct sim *sim)
{
	sim->mem->servers = (uint32_t)sim->plan.stores;
	sim->mem->server = calloc(sim->mem->servers + 1, sizeof(*sim->mem->server));
	LEND_CHECK(sim->mem->server);
	for (uint32_t i = 0; i < sim->mem->servers; i++)
		sim_mem_birth(sim, i);
}

void mem_serve_close(struct sim *sim)
{
	for (uint32_t i = 0; sim->mem->server && i < sim->mem->servers; i++) {
		struct mem_server *s = server_at(sim, i);

		for (uint32_t l = 0; l < MEM_LANDINGS; l++)
			free(s->landing[l].page);
		drop_store(s, sim->node[i].store, sim->node[i].pages);
		drop_store(s, s->kept, s->kept_pages);
		free(s->session);
		for (uint32_t r = 0; r < s->replies; r++) {
			free(s->reply[r].seg);
			free(s->reply[r].page);
		}
		free(s->reply);
	}
	free(sim->mem->server);
}

/* When the last session of a life on a carrier that reports hang-ups ends, so does the life. */
static void session_went(struct sim *sim, uint32_t node, struct mem_session *gone)
{
	struct mem_server *s = server_at(sim, node);

	gone->handle = 0;
	if (!sim->plan.lossless || !gone->life)
		return;
	for (uint32_t i = 0; i < sim->node[node].cfg.sessions; i++)
		if (s->session[i].handle && s->session[i].life == gone->life)
			return;
	lend_store_hangup(sim->node[node].store, gone->life);
	mem_model_hangup(&s->model, gone->life);
	mem_model_compare(&s->model, "a hang-up");
}

void sim_mem_session(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct mem_session *m = &server_at(sim, node)->session[e->session & SESSION_INDEX];
	uint32_t peer;

	if (e->kind == LEND_EV_SESSION_UP) {
		/* It may be down already; its event follows. */
		*m = (struct mem_session){.handle = 0};
		if (lend_core_session_peer(sim->node[node].core, e->session, &peer,
					   m->peer.incarnation) == 0)
			m->handle = e->session;
		m->peer.tenant = mem_tenant_of(lend_load_u64(m->peer.incarnation));
	} else if (m->handle == e->session) {
		session_went(sim, node, m);
	}
}

/* Drops chains that the core released because their message died: their first segment is unused or
 * reused now. */
static void sweep_chains(struct sim *sim, uint32_t node)
{
	struct mem_server *s = server_at(sim, node);
	const struct sim_node *n = &sim->node[node];

	for (uint32_t i = 0; i < MEM_LANDINGS; i++) {
		struct mem_landing *l = &s->landing[i];

		if (!l->buf ||
		    (n->buf[l->buf].owner != SIM_BUF_FREE && n->bufs.seg[l->buf].data == l->fixed))
			continue;
		lend_store_unplace(n->store, l->placement);
		undo_landing(s, l);
		mem_model_compare(&s->model, "a message that died");
		SIM_MARK(sim, mem_placement_undone);
	}
}

void sim_mem_turn(struct sim *sim, uint32_t node)
{
	struct sim_node *n = &sim->node[node];

	sweep_chains(sim, node);
	mem_map_turn(sim, node);
	if (lend_store_deadline(n->store) <= sim->now) {
		lend_store_tick(n->store, sim->now);
		mem_model_tick(&server_at(sim, node)->model);
		mem_model_compare(&server_at(sim, node)->model, "a tick");
	}
	mem_wait_turn(sim, node);
}

lend_ns sim_mem_deadline(struct sim *sim, uint32_t node)
{
	const struct mem_model *m = &server_at(sim, node)->model;
	const struct lend_store *store = sim->node[node].store;
	lend_ns told = lend_store_deadline(store), clean = lend_frame_clean_deadline(store);

	if (store->dying)
		return told; /* at once */
	SIM_CHECK(sim, told >= lend_min_u64(clean, lend_min_u64(m->grant_next, m->lease_next)),
		  "node %u: its deadline is too early", node);
	for (uint32_t i = 1; i <= m->grant_top; i++)
		SIM_CHECK(sim, !m->grant[i].serial || m->grant[i].expires >= told,
			  "node %u: a grant ends before its deadline", node);
	return lend_min_u64(told, mem_wait_deadline(sim, node));
}

struct mem_session *mem_serve_session(struct sim *sim, uint32_t node, uint64_t session)
{
	struct mem_session *m = &server_at(sim, node)->session[session & SESSION_INDEX];

	return m->handle == session ? m : NULL;
}

void mem_session_context(struct sim *sim, uint32_t node, uint64_t session,
			 uint8_t context[LEND_MEMOP_CONTEXT])
{
	const struct lend_sess *s = lend_sess_find(sim->node[node].core, session);

	memset(context, 0, LEND_MEMOP_CONTEXT);
	if (s)
		lend_store_u64(context + 24, s->connect);
}

uint32_t mem_serve_wrap(struct sim *sim, uint32_t node, uint32_t first,
			const struct lend_store_seg *seg, uint32_t n)
{
	struct lend_seg *bufs = sim->node[node].bufs.seg;
	uint32_t last = first;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t b = sim_node_wrap(sim, node, seg[i].data, (uint32_t)seg[i].len);

		if (last)
			bufs[last].next = b;
		else
			first = b;
		last = b;
	}
	return first;
}

uint32_t sim_mem_need(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_node *n = &sim->node[node];
	struct mem_server *s = server_at(sim, node);
	struct mem_session *session;
	struct mem_landing *l = NULL;
	struct mem_object *own = NULL;
	struct lend_memop op;
	uint32_t segs = 0, fixed = 0, want = 0;
	bool gap;

	if (!n->store || !lend_call_at(n->core, (uint32_t)e->call)->server)
		return 0;
	sweep_chains(sim, node);
	session = mem_serve_session(sim, node, e->session);
	for (uint32_t i = 0; i < MEM_LANDINGS && !l; i++)
		l = s->landing[i].buf ? NULL : &s->landing[i];
	if (!session || !l)
		return 0;
	if (lend_memop_decode(e->data, e->data_len, e->len, &op) == LEND_MEM_OK)
		want = mem_model_place(&s->model, session->life, &op, &own);
	gap = !own && mem_model_has_run(&s->model, want);
	l->placement = lend_store_place(n->store, &session->peer, e->data, e->data_len, e->len,
					s->seg, &segs, &fixed);
	SIM_CHECK(sim, !l->placement || want,
		  "node %u lends pages for a message that cannot use them", node);
	SIM_CHECK(sim,
		  l->placement || !want || n->store->placement.used == s->cfg.placements ||
		      mem_model_quarantined(&s->model, want),
		  "node %u lends no pages, and has %u free", node,
		  s->cfg.pages - s->model.page_used - s->model.placed);
	if (!l->placement)
		return 0;
	SIM_CHECK(sim, !gap || segs == 1, "node %u lends %u pages in %u runs, but one run was free",
		  node, want, segs);
	if (gap)
		SIM_MARK(sim, mem_placed_in_one_run);
	l->pages = want;
	l->tenant = session->peer.tenant;
	if (own) {
		l->own = own->serial;
		l->page = calloc(want, sizeof(*l->page));
		LEND_CHECK(l->page);
		mem_model_land(&s->model, own, l->page);
	} else {
		s->model.placed += want;
		s->model.tenant[l->tenant].pages += want;
	}
	mem_model_compare(&s->model, "place");
	SIM_MARK(sim, mem_placed);
	l->buf = sim_node_wrap(sim, node, l->fixed, fixed);
	return mem_serve_wrap(sim, node, l->buf, s->seg, segs);
}

void sim_mem_reply_end(struct sim *sim, uint32_t node, uint32_t buf)
{
	struct mem_server *s = server_at(sim, node);

	sim_node_back(sim, node, buf);
	if (node >= sim->mem->servers) {
		sim_node_unbuf(sim, node, buf);
		return;
	}
	for (uint32_t i = 0; buf && i < s->replies; i++) {
		struct mem_reply *r = &s->reply[i];

		if (r->buf != buf)
			continue;
		mem_serve_check(sim, node, r->seg, r->segs, &r->bytes, "that was read until now");
		lend_store_done(sim->node[node].store, r->tenant, r->seg, r->segs);
		mem_model_unpin(&s->model, r->tenant, r->page, r->pages);
		mem_model_compare(&s->model, "the end of a reply");
		r->buf = 0;
		break;
	}
	sim_node_unbuf(sim, node, buf);
}
