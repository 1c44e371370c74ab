/* mem_exec - one step of the model: finds the client, checks whether this id ran before, and
 * whether the status is the expected one. Layer: test/sim. */
#include <string.h>

#include "sim/memory/mem_model.h"
#include "util/bits.h"

const char *mem_op_name(uint8_t kind)
{
	static const char *const name[LEND_MEMOP_KINDS] = {
	    "?",      "HELLO", "PUT",  "GET",    "ALLOC", "READ",
	    "WRITE",  "SEAL",  "MAP",  "ADOPT",  "GRANT", "RELEASE",
	    "NARROW", "FREE",  "STAT", "FORGET", "RENEW", "BYE_CLIENT"};

	return name[kind < LEND_MEMOP_KINDS ? kind : 0];
}

void mem_ops_must(const struct mem_step *t)
{
	SIM_CHECK(t->m->sim, t->in->out->status == LEND_MEM_OK,
		  "node %u: %s %llu of client %u got status %u, must be OK", t->m->node,
		  mem_op_name(t->op->kind), (unsigned long long)t->op->id, t->op->client,
		  t->in->out->status);
}

static struct mem_record *record_at(struct mem_model *m, uint32_t client, uint64_t id)
{
	return m->record + (size_t)(client - 1) * m->cfg.open + id % m->cfg.open;
}

/* Keeps the first reply; every repeated one must have the same bytes. */
static void keep_reply(struct mem_step *t)
{
	const struct lend_store_out *out = t->in->out;

	if (t->record.status != LEND_MEM_OK)
		return;
	SIM_CHECK(t->m->sim, out->len <= sizeof(t->record.reply) && !out->pinned,
		  "node %u: a reply of %llu bytes to %s", t->m->node, (unsigned long long)out->len,
		  mem_op_name(t->op->kind));
	t->record.len = (uint8_t)out->len;
	memcpy(t->record.reply, out->head, out->len);
}

static void answer_repeated(struct mem_step *t, const struct mem_record *r)
{
	const struct lend_store_out *out = t->in->out;

	t->done->repeat = true;
	SIM_MARK(t->m->sim, mem_repeat);
	if (r->kind == LEND_MEMOP_FORGET)
		SIM_MARK(t->m->sim, mem_ran_after_forget);
	if (r->kind == LEND_MEMOP_PUT)
		SIM_MARK(t->m->sim, mem_put_repeated);
	if (r->status == LEND_MEM_OK && out->status == LEND_MEM_OK)
		SIM_CHECK(t->m->sim, out->len == r->len && memcmp(out->head, r->reply, r->len) == 0,
			  "node %u: %s %llu of client %u, repeated, has another reply", t->m->node,
			  mem_op_name(t->op->kind), (unsigned long long)t->op->id, t->op->client);
}

static enum lend_mem_status find_recorded(struct mem_step *t)
{
	struct mem_model *m = t->m;
	uint64_t low = m->client[t->client].low;
	struct mem_record *r = record_at(m, t->client, t->op->id);

	if (t->op->id < low) {
		SIM_MARK(m->sim, mem_below_low);
		return LEND_MEM_FAILED_PRECONDITION;
	}
	if (t->op->id - low >= m->cfg.open) {
		SIM_MARK(m->sim, mem_beyond_window);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	if (r->id != t->op->id) {
		t->record.status = (uint8_t)mem_ops_run(t);
		if (t->record.status == LEND_MEM_UNWRITTEN)
			return LEND_MEM_UNWRITTEN;
		t->record.id = t->op->id;
		t->record.kind = t->op->kind;
		keep_reply(t);
		*r = t->record;
		return t->record.status;
	}
	if (r->kind != t->op->kind && r->kind != LEND_MEMOP_FORGET) {
		SIM_MARK(m->sim, mem_two_for_one_id);
		return LEND_MEM_INVALID_ARGUMENT;
	}
	if (r->kind == LEND_MEMOP_PUT && r->early && !t->op->flags) {
		enum lend_mem_status status = mem_ops_fill(t, r);

		if (status)
			return status;
	} else {
		t->m->stats.repeats++;
	}
	answer_repeated(t, r);
	return r->status;
}

/* Finds the life that a HELLO may use: its session's, or the one with the key that it proves. */
static bool life_of(struct mem_step *t, uint32_t *inc)
{
	struct mem_model *m = t->m;
	uint8_t proof[LEND_MEMOP_KEY];

	*inc = mem_life_find(m, t->op->life ? t->op->life : *t->in->life);
	if (!t->op->life)
		return true;
	if (*inc) {
		lend_memop_proof(m->incarnation[*inc].key, t->in->context, t->op, proof);
		if (m->incarnation[*inc].process == t->in->process &&
		    !memcmp(proof, t->op->proof, 16)) {
			SIM_MARK(m->sim, mem_joined);
			return true;
		}
		SIM_MARK(m->sim, mem_join_refused);
	}
	return false;
}

/* Moves a session to another life, and closes its client in the old one. */
static void leave_life(struct mem_step *t, uint64_t life)
{
	uint32_t client = mem_tenant_find(t->m, *t->in->life, t->op->client);

	if (client && *t->in->life && *t->in->life != life)
		mem_tenant_close(t->m, client);
	*t->in->life = life;
}

static enum lend_mem_status run_hello(struct mem_step *t)
{
	struct mem_model *m = t->m;
	const struct lend_store_out *out = t->in->out;
	struct mem_incarnation *inc;
	struct lend_memhello h;
	uint32_t i;

	if (!life_of(t, &i)) {
		SIM_MARK(m->sim, mem_old_life);
		return LEND_MEM_ABORTED;
	}
	t->client = mem_tenant_open(m, t->in->process, i, t->op->client);
	if (!t->client) {
		SIM_MARK(m->sim, mem_clients_full);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	mem_ops_must(t);
	inc = &m->incarnation[m->client[t->client].incarnation];
	SIM_CHECK(m->sim,
		  lend_memhello_decode(out->head, out->len, &h) && h.node == m->cfg.node &&
		      h.epoch == m->cfg.epoch && h.page == m->cfg.page && h.lease == m->cfg.lease &&
		      h.open == m->cfg.open && h.worker == m->cfg.worker &&
		      h.workers == m->cfg.workers,
		  "node %u: HELLO's reply is wrong", m->node);
	if (inc->life == 0) {
		SIM_CHECK(m->sim, h.life > m->life, "node %u: life %llu was given before", m->node,
			  (unsigned long long)h.life);
		inc->life = m->life = h.life;
		memcpy(inc->key, h.key, sizeof(inc->key));
	}
	SIM_CHECK(m->sim, h.life == inc->life, "node %u: life %llu instead of %llu", m->node,
		  (unsigned long long)h.life, (unsigned long long)inc->life);
	leave_life(t, h.life);
	mem_lease_renew(m, t->client);
	return LEND_MEM_OK;
}

static enum lend_mem_status is_known(struct mem_step *t)
{
	switch (t->op->kind) {
	case LEND_MEMOP_GET:
	case LEND_MEMOP_READ:
		return mem_ops_read(t);
	case LEND_MEMOP_NARROW:
		return mem_ops_narrow(t);
	case LEND_MEMOP_FORGET:
		return mem_ops_forget(t);
	case LEND_MEMOP_STAT:
	case LEND_MEMOP_RENEW:
		return LEND_MEM_OK;
	case LEND_MEMOP_BYE_CLIENT:
		mem_tenant_close(t->m, t->client);
		SIM_MARK(t->m->sim, mem_bye);
		return LEND_MEM_OK;
	default:
		return find_recorded(t);
	}
}

static bool low_is_sane(const struct lend_memop *op)
{
	if (op->kind == LEND_MEMOP_FORGET)
		return op->low <= op->target;
	return !lend_memop_recorded(op->kind) || op->low <= op->id;
}

static enum lend_mem_status run_op(struct mem_step *t)
{
	struct mem_model *m = t->m;
	struct mem_client *c;

	if (!t->op)
		return t->in->status;
	if (t->op->kind == LEND_MEMOP_HELLO)
		return run_hello(t);
	t->client =
	    *t->in->life == t->op->life ? mem_tenant_find(m, t->op->life, t->op->client) : 0;
	c = &m->client[t->client];
	if (!t->client) {
		SIM_MARK(m->sim, mem_old_life);
		return LEND_MEM_ABORTED;
	}
	mem_lease_renew(m, t->client);
	if (!low_is_sane(t->op))
		return LEND_MEM_INVALID_ARGUMENT;
	c->low = lend_max_u64(c->low, t->op->low);
	return is_known(t);
}

void mem_model_exec(struct mem_model *m, const struct mem_in *in, struct mem_done *done)
{
	struct mem_step t = {.m = m, .in = in, .op = in->op, .placed = in->placed, .done = done};
	enum lend_mem_status status;

	done->repeat = false;
	done->pages = 0;
	mem_grant_expire(m);
	m->tenant[mem_tenant_of(in->process)].pages -=
	    in->placed; /* the operation pays for its placement */
	status = run_op(&t);
	m->placed -= t.placed; /* the unused rest */
	if (in->placed && t.placed)
		SIM_MARK(m->sim, mem_placed_unused);
	done->status = (uint8_t)status;
	SIM_CHECK(m->sim, status == in->out->status,
		  "node %u: %s %llu of client %u got status %u, must be %u", m->node,
		  mem_op_name(in->op ? in->op->kind : 0),
		  (unsigned long long)(in->op ? in->op->id : 0), in->op ? in->op->client : 0,
		  in->out->status, status);
	mem_model_compare(m, mem_op_name(in->op ? in->op->kind : 0));
}

uint32_t mem_model_place(struct mem_model *m, uint64_t life, const struct lend_memop *op,
			 struct mem_object **own)
{
	uint32_t pages = (uint32_t)((op->len + m->cfg.page - 1) / m->cfg.page);
	uint32_t client = life == op->life ? mem_tenant_find(m, life, op->client) : 0;
	const struct mem_tenant *payer = &m->tenant[m->client[client].tenant];
	const struct mem_object *o = &m->object[0];

	*own = NULL;
	if (op->space.slot <= m->cfg.objects)
		o = &m->object[op->space.slot];
	if (!client || op->len < LEND_STORE_PLACE_MIN || !lend_memop_payload(op))
		return 0;
	if (record_at(m, client, op->id)->id == op->id && op->id >= m->client[client].low &&
	    op->kind == LEND_MEMOP_PUT)
		*own = mem_ops_unwritten(m, record_at(m, client, op->id));
	if (*own)
		return (*own)->view.len == op->len && !m->page[(*own)->pages.at[0].page].pins
			   ? pages
			   : 0;
	if (pages > m->cfg.pages - m->page_used - m->placed ||
	    payer->pages + pages > payer->quota.pages)
		return 0;
	if (record_at(m, client, op->id)->id == op->id && op->id >= m->client[client].low)
		return 0;
	if (op->kind == LEND_MEMOP_PUT)
		return pages;
	if (op->kind != LEND_MEMOP_WRITE || op->len < m->cfg.page ||
	    op->space.epoch != m->cfg.epoch || o->kind != MEM_SPACE ||
	    o->serial != op->space.serial || o->owner != client || op->offset > o->view.len ||
	    op->len > o->view.len - op->offset || (o->base + op->offset) % m->cfg.page)
		return 0;
	return pages;
}
