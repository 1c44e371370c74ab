/* mem_map - processes on a memory node's own host that map its pages.
 *
 * They act for the client that owns a space. A mapped view must keep its bytes until it is
 * unmapped. They draw from their own random stream, so that the rest of a seed's run is unchanged.
 * Layer: test/sim. */
#include <string.h>

#include "mn/store/store.h"
#include "sim/memory/mem_state.h"
#include "util/bits.h"

enum { KEYS = 2 };

static struct mem_mapping *of_space(struct mem_model *m, uint32_t slot)
{
	for (uint32_t i = 0; slot && i < MEM_MAPPINGS; i++)
		if (m->pinned_map[i].key && m->pinned_map[i].space == slot)
			return &m->pinned_map[i];
	return NULL;
}

static void drop(struct mem_model *m, struct mem_mapping *l)
{
	mem_object_unshare(m, &l->o);
	l->key = 0;
	m->stats.pinned_maps--;
}

void mem_mapping_detach(struct mem_model *m, uint32_t slot, bool unmapped)
{
	struct mem_mapping *l = of_space(m, slot);

	if (l && unmapped)
		drop(m, l);
	else if (l)
		l->space = 0;
	if (l && !unmapped)
		SIM_MARK(m->sim, mem_view_outlives_space);
}

void mem_mapping_end_all(struct mem_model *m)
{
	for (uint32_t i = 0; i < MEM_MAPPINGS; i++)
		if (m->pinned_map[i].key)
			drop(m, &m->pinned_map[i]);
}

/* Compares the frames of a mapped view with its expected bytes. */
static void look(struct sim *sim, uint32_t node, const struct mem_mapping *l)
{
	const uint8_t *pages = sim->node[node].pages;
	uint64_t at = 0, page = sim->mem->server[node].cfg.page;

	for (uint32_t e = 0; e < l->shown.n; e++) {
		uint64_t from = (uint64_t)l->shown.extent[e].frame * page;
		uint64_t end = lend_min_u64(at + (uint64_t)l->shown.extent[e].pages * page -
						(at ? 0 : l->shown.base),
					    l->o.view.len);

		from += at ? 0 : l->shown.base;
		SIM_CHECK(sim,
			  !l->shown.extent[e].frame ||
			      mem_view_match(&l->o.view, at, pages + from, end - at) == end - at,
			  "node %u: a mapped view shows wrong bytes after %llu", node,
			  (unsigned long long)at);
		at = end;
	}
}

/* Runs one operation as the space's owner. */
static enum lend_mem_status say(struct sim *sim, uint32_t node, uint32_t slot,
				struct lend_memop *op)
{
	struct mem_server *s = &sim->mem->server[node];
	struct lend_store *store = sim->node[node].store;
	uint32_t c = lend_object_at(store, slot)->client;
	struct lend_store_peer peer = {.life = lend_client_at(store, c)->life};
	uint8_t bytes[LEND_MEMOP_FIXED_MAX];
	struct lend_store_seg seg = {bytes, 0};
	struct lend_store_in in = {.peer = &peer, .seg = &seg, .n = 1};

	peer.tenant = s->model.client[s->model.object[slot].owner].tenant;
	op->client = lend_client_at(store, c)->number;
	op->life = peer.life;
	seg.len = lend_memop_encode(op, bytes);
	mem_grant_expire(&s->model);
	mem_lease_renew(&s->model, s->model.object[slot].owner);
	return lend_store_exec(store, sim->now, &in, &s->again);
}

static void view(struct sim *sim, uint32_t node, uint32_t slot)
{
	struct mem_server *s = &sim->mem->server[node];
	struct mem_model *m = &s->model;
	struct mem_object *o = &m->object[slot];
	struct lend_memop op = {.kind = LEND_MEMOP_POOL_VIEW,
				.space = {slot, m->cfg.epoch, o->serial},
				.target = 1 + lend_rng_below(&s->pool, KEYS)};
	enum lend_mem_status status, must = LEND_MEM_OK;
	struct mem_mapping *l = of_space(m, slot);

	for (uint32_t i = 0; !l && i < MEM_MAPPINGS; i++)
		l = m->pinned_map[i].key ? NULL : &m->pinned_map[i];
	if (!l)
		return;
	mem_grant_expire(m); /* as the store does before it searches for room */
	if (m->stats.refs + m->stats.spaces + m->stats.pinned_maps >= m->cfg.objects)
		must = LEND_MEM_RESOURCE_EXHAUSTED;
	(void)lend_store_pool_open(sim->node[node].store, op.target);
	status = say(sim, node, slot, &op);
	SIM_CHECK(sim, status == must, "node %u: POOL_VIEW got status %u, must be %u", node, status,
		  must);
	if (status)
		return;
	if (l->key)
		drop(m, l);
	mem_object_share(m, &l->o, o, 0, o->view.len);
	l->key = op.target;
	l->space = slot;
	m->stats.pinned_maps++;
	SIM_CHECK(sim, lend_memview_decode(s->again.head, s->again.len, &l->shown),
		  "node %u: an invalid view", node);
	SIM_MARK(sim, mem_view_mapped);
	look(sim, node, l);
}

static void let_go(struct sim *sim, uint32_t node, uint32_t slot)
{
	struct mem_server *s = &sim->mem->server[node];
	struct mem_mapping *l = &s->model.pinned_map[lend_rng_below(&s->pool, MEM_MAPPINGS)];
	struct lend_memop op = {
	    .kind = LEND_MEMOP_POOL_DROP, .space = l->shown.pinned_map, .target = l->key};
	enum lend_mem_status status;

	if (!l->key)
		return;
	status = say(sim, node, slot, &op);
	SIM_CHECK(sim, status == LEND_MEM_OK, "node %u: POOL_DROP got status %u", node, status);
	drop(&s->model, l);
}

static void hang_up(struct sim *sim, uint32_t node, uint64_t key)
{
	struct mem_model *m = &sim->mem->server[node].model;

	lend_store_pool_hangup(sim->node[node].store, key);
	for (uint32_t i = 0; i < MEM_MAPPINGS; i++)
		if (m->pinned_map[i].key == key)
			drop(m, &m->pinned_map[i]);
	mem_model_compare(m, "the end of a pool's socket");
}

/* Returns a random space; 0: none. */
static uint32_t some_space(struct mem_server *s)
{
	for (int tries = 0; s->model.object_top && tries < 8; tries++) {
		uint32_t i = 1 + (uint32_t)lend_rng_below(&s->pool, s->model.object_top);

		if (s->model.object[i].kind == MEM_SPACE)
			return i;
	}
	return 0;
}

void mem_map_turn(struct sim *sim, uint32_t node)
{
	struct mem_server *s = &sim->mem->server[node];
	uint32_t slot;

	if (!s->pooled)
		return;
	for (uint64_t key = 1; sim->healing && s->model.stats.pinned_maps && key <= KEYS; key++)
		hang_up(sim, node, key);
	if (sim->healing || lend_rng_below(&s->pool, 8))
		return;
	for (uint32_t i = 0; i < MEM_MAPPINGS; i++)
		if (s->model.pinned_map[i].key)
			look(sim, node, &s->model.pinned_map[i]);
	if (lend_rng_below(&s->pool, 64) == 0)
		hang_up(sim, node, 1 + lend_rng_below(&s->pool, KEYS));
	slot = some_space(s);
	if (slot && lend_rng_below(&s->pool, 8))
		view(sim, node, slot);
	else if (slot)
		let_go(sim, node, slot);
	mem_model_compare(&s->model, "a process that maps pages");
}
