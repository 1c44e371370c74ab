/* mem_share - holders of a snapshot in the model: adopt, grant, release. Layer: test/sim. */
#include "sim/memory/mem_model.h"
#include "util/bits.h"

enum lend_mem_status mem_ops_adopt(struct mem_step *t)
{
	struct mem_model *m = t->m;
	struct mem_object *o;
	struct mem_grant *g;
	uint32_t tenant;
	enum lend_mem_status status = mem_ops_find(t, &t->op->ref, 0, &o);

	if (status)
		return status;
	t->record.slot = mem_ops_slot(m, o);
	t->record.serial = o->serial;
	if (mem_holds(o, t->client)) {
		SIM_MARK(m->sim, mem_adopt_again);
		return LEND_MEM_OK;
	}
	g = mem_grant_next(m, t->record.slot);
	if (!g) {
		SIM_MARK(m->sim, mem_adopt_refused);
		return LEND_MEM_FAILED_PRECONDITION;
	}
	tenant = m->client[t->client].tenant;
	if (m->stats.holds == m->cfg.holds) {
		SIM_MARK(m->sim, mem_keepers_full);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	if ((g->kind != LEND_TERMS_TRANSFER || g->tenant != tenant) &&
	    !mem_charge_room(m, mem_payer(t), mem_stake_cost(o, tenant), 1))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (g->kind == LEND_TERMS_TRANSFER && g->tenant != tenant && !o->held)
		SIM_MARK(m->sim, mem_charge_moved);
	mem_ops_must(t);
	if (g->kind == LEND_TERMS_TRANSFER && !o->held)
		SIM_MARK(m->sim, mem_adopt_only_keeper);
	if (g->kind == LEND_TERMS_SHARED && g->left == 1)
		SIM_MARK(m->sim, mem_adopt_last_share);
	t->record.held = 1;
	t->record.grant = g->serial;
	t->record.tenant = g->tenant;
	t->record.expires = g->expires;
	mem_hold(m, o, t->client);
	mem_grant_use(m, g);
	o->handed = true;
	return LEND_MEM_OK;
}

enum lend_mem_status mem_ops_grant(struct mem_step *t)
{
	struct mem_model *m = t->m;
	const struct lend_memterms *terms = &t->op->terms;
	struct mem_object *o;
	uint32_t tenant;
	enum lend_mem_status status = mem_ops_find(t, &t->op->ref, LEND_RIGHT_GRANT, &o);

	if (status)
		return status;
	t->record.slot = mem_ops_slot(m, o);
	t->record.serial = o->serial;
	if (!mem_holds(o, t->client))
		return LEND_MEM_FAILED_PRECONDITION;
	if (m->stats.grants == m->cfg.grants) {
		SIM_MARK(m->sim, mem_keepers_full);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	tenant = m->client[t->client].tenant;
	if (terms->kind != LEND_TERMS_TRANSFER &&
	    !mem_charge_room(m, mem_payer(t), mem_stake_cost(o, tenant), 1))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	t->record.grant = mem_grant_add(m, t->record.slot, terms->kind,
					terms->kind == LEND_TERMS_TRANSFER ? 1 : terms->n,
					m->sim->now + terms->ttl, tenant)
			      ->serial;
	if (terms->kind == LEND_TERMS_TRANSFER) {
		mem_unhold(m, o, t->client);
		t->record.held = 1;
	}
	return LEND_MEM_OK;
}

static bool release_one(struct mem_step *t, struct mem_object *o)
{
	struct mem_model *m = t->m;
	uint32_t slot = mem_ops_slot(m, o);
	struct mem_grant *g;

	if (mem_holds(o, t->client)) {
		mem_unhold(m, o, t->client);
	} else {
		g = mem_grant_next(m, slot);
		if (!g)
			return false;
		mem_grant_use(m, g);
		SIM_MARK(m->sim, mem_release_of_bearer);
	}
	mem_object_settle(m, slot);
	if (o->kind == MEM_NONE && m->stats.pages_pinned)
		SIM_MARK(m->sim, mem_freed_while_pinned);
	return true;
}

static enum lend_mem_status release_ref(struct mem_step *t, uint32_t i, struct mem_object **o)
{
	struct lend_memref ref;

	if (!lend_memref_decode(t->in->refs + (size_t)i * LEND_MEMREF_LEN, &ref))
		return LEND_MEM_INVALID_ARGUMENT;
	return mem_ops_find(t, &ref, 0, o);
}

static void check_counts(const struct mem_step *t, uint32_t released, uint32_t not )
{
	const struct lend_store_out *out = t->in->out;

	mem_ops_must(t);
	SIM_CHECK(t->m->sim,
		  out->len == 8 && lend_load_u32(out->head) == released &&
		      lend_load_u32(out->head + 4) == not,
		  "node %u: RELEASE counts wrong", t->m->node);
}

enum lend_mem_status mem_ops_release(struct mem_step *t)
{
	enum lend_mem_status status;
	struct mem_object *o;
	uint32_t released = 0;
	bool seen = false;

	for (uint32_t i = 0; i < t->op->n; i++) {
		status = release_ref(t, i, &o);
		if (status && (status != LEND_MEM_NOT_FOUND || t->op->n == 1))
			return status;
		seen |= status == LEND_MEM_OK;
	}
	for (uint32_t i = 0; i < t->op->n; i++)
		if (release_ref(t, i, &o) == LEND_MEM_OK)
			released += release_one(t, o);
	if (t->op->n > 1 && released && released < t->op->n)
		SIM_MARK(t->m->sim, mem_release_some);
	if (!released)
		return seen ? LEND_MEM_FAILED_PRECONDITION : LEND_MEM_NOT_FOUND;
	check_counts(t, released, t->op->n - released);
	return LEND_MEM_OK;
}
