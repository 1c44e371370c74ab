/* mem_forget - FORGET and NARROW in the model. Layer: test/sim. */
#include "sim/memory/mem_model.h"
#include "util/bits.h"

static struct mem_object *object_of(struct mem_model *m, const struct mem_record *r,
				    enum mem_kind kind)
{
	struct mem_object *o = &m->object[r->slot];

	return r->serial && o->kind == kind && o->serial == r->serial ? o : NULL;
}

static void undo_make(struct mem_step *t, struct mem_record *r)
{
	struct mem_object *o = object_of(t->m, r, MEM_SNAPSHOT);
	struct mem_grant *g = mem_grant_find(t->m, r->grant);

	if (o && r->held)
		mem_unhold(t->m, o, t->client);
	if (g)
		mem_grant_remove(t->m, g);
	if (o && o->handed && (o->held || o->grants))
		SIM_MARK(t->m->sim, mem_forget_after_handing);
	if (o)
		mem_object_settle(t->m, r->slot);
	r->forgot = LEND_FORGOT_UNDONE;
	SIM_MARK(t->m->sim, mem_forget_put);
}

static void undo_space(struct mem_step *t, struct mem_record *r)
{
	struct mem_object *o = object_of(t->m, r, MEM_SPACE);

	if (o)
		mem_mapping_detach(t->m, r->slot, true);
	if (o)
		mem_object_end(t->m, o);
	r->forgot = LEND_FORGOT_UNDONE;
	SIM_MARK(t->m->sim, mem_forget_space);
}

static enum lend_mem_status undo_grant(struct mem_step *t, struct mem_record *r)
{
	struct mem_model *m = t->m;
	struct mem_grant *g = mem_grant_find(m, r->grant);
	struct mem_object *o = &m->object[r->slot];

	r->forgot = LEND_FORGOT_RAN;
	if (!g) {
		SIM_MARK(m->sim, mem_forget_grant_used);
		return LEND_MEM_OK;
	}
	if (r->held && !mem_holds(o, t->client)) {
		if (m->stats.holds == m->cfg.holds)
			return LEND_MEM_RESOURCE_EXHAUSTED;
		mem_hold(m, o, t->client);
	}
	mem_grant_remove(m, g);
	mem_object_settle(m, r->slot);
	r->forgot = LEND_FORGOT_UNDONE;
	SIM_MARK(m->sim, mem_forget_grant);
	return LEND_MEM_OK;
}

static enum lend_mem_status undo_adopt(struct mem_step *t, struct mem_record *r)
{
	struct mem_model *m = t->m;
	struct mem_object *o = object_of(m, r, MEM_SNAPSHOT);
	struct mem_grant *g = mem_grant_find(m, r->grant);
	lend_ns expires = lend_max_u64(r->expires, m->sim->now + m->cfg.revive);

	r->forgot = LEND_FORGOT_RAN;
	if (!o || !r->held || !mem_holds(o, t->client))
		return LEND_MEM_OK;
	if (!g && m->stats.grants == m->cfg.grants)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (g) {
		g->left++;
		g->expires = lend_max_u64(g->expires, expires);
		SIM_MARK(m->sim, mem_forget_adopt_shared);
	} else {
		mem_grant_add(m, r->slot, LEND_TERMS_TRANSFER, 1, expires, r->tenant);
		SIM_MARK(m->sim, mem_forget_adopt_transfer);
	}
	mem_unhold(m, o, t->client);
	r->forgot = LEND_FORGOT_UNDONE;
	return LEND_MEM_OK;
}

static enum lend_mem_status undo_record(struct mem_step *t, struct mem_record *r)
{
	if (r->status != LEND_MEM_OK) {
		r->forgot = LEND_FORGOT_PREVENTED;
		SIM_MARK(t->m->sim, mem_forget_failed);
		return LEND_MEM_OK;
	}
	switch (r->kind) {
	case LEND_MEMOP_PUT:
	case LEND_MEMOP_SEAL:
		undo_make(t, r);
		return LEND_MEM_OK;
	case LEND_MEMOP_ALLOC:
	case LEND_MEMOP_MAP:
		undo_space(t, r);
		return LEND_MEM_OK;
	case LEND_MEMOP_GRANT:
		return undo_grant(t, r);
	case LEND_MEMOP_ADOPT:
		return undo_adopt(t, r);
	default:
		r->forgot = LEND_FORGOT_RAN;
		SIM_MARK(t->m->sim, mem_forget_ran);
		return LEND_MEM_OK;
	}
}

enum lend_mem_status mem_ops_forget(struct mem_step *t)
{
	struct mem_model *m = t->m;
	uint64_t target = t->op->target, low = m->client[t->client].low;
	struct mem_record *r =
	    m->record + (size_t)(t->client - 1) * m->cfg.open + target % m->cfg.open;
	enum lend_mem_status status = LEND_MEM_OK;

	if (target == 0)
		return LEND_MEM_INVALID_ARGUMENT;
	if (target < low)
		return LEND_MEM_FAILED_PRECONDITION;
	if (target - low >= m->cfg.open)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (r->id != target) {
		*r = (struct mem_record){.id = target, .forgot = LEND_FORGOT_PREVENTED};
		SIM_MARK(m->sim, mem_forget_before_run);
	} else if (r->kind != LEND_MEMOP_FORGET) {
		status = undo_record(t, r);
	} else {
		SIM_MARK(m->sim, mem_forget_again);
	}
	if (status)
		return status;
	mem_ops_must(t);
	r->kind = LEND_MEMOP_FORGET;
	r->status = LEND_MEM_ABORTED;
	m->stats.forgets++;
	SIM_CHECK(m->sim, t->in->out->len == 8 && lend_load_u64(t->in->out->head) == r->forgot,
		  "node %u: FORGET of %llu returns %u, must be %u", m->node,
		  (unsigned long long)target, t->in->out->head[0], r->forgot);
	t->done->forgot = r->forgot;
	return LEND_MEM_OK;
}
