/* mem_ops - effect of each operation on the model. Layer: test/sim. */
#include <string.h>

#include "mn/store/store.h"
#include "sim/memory/mem_model.h"
#include "util/bits.h"

enum { NODES_SHARE = 2 * LEND_HEIGHT_MAX, WORKER_SHIFT = 26 };

static bool is_inside(uint64_t offset, uint64_t len, uint64_t whole)
{
	return offset <= whole && len <= whole - offset;
}

/* The model has no page table nodes: it accepts when the store reports that it has none left. */
static bool short_of(const struct mem_step *t, uint64_t nodes)
{
	if (t->in->out->status != LEND_MEM_RESOURCE_EXHAUSTED ||
	    t->m->nodes + nodes <= t->m->store->node.cap)
		return false;
	SIM_MARK(t->m->sim, mem_nodes_full);
	return true;
}

static uint64_t nodes_of(const struct mem_step *t, uint64_t len)
{
	return LEND_HEIGHT_MAX * (len / t->m->cfg.page / LEND_FAN + 3);
}

static bool object_room(const struct mem_model *m)
{
	bool room = m->stats.refs + m->stats.spaces + m->stats.pinned_maps < m->cfg.objects;

	if (!room)
		SIM_MARK(m->sim, mem_objects_full);
	return room;
}

static bool terms_room(struct mem_step *t, bool consume)
{
	const struct mem_model *m = t->m;
	const struct lend_memterms *terms = &t->op->terms;
	uint32_t refs = (terms->kind == LEND_TERMS_SHARED) + 1u - consume;
	bool room = (terms->kind == LEND_TERMS_TRANSFER || m->stats.holds < m->cfg.holds) &&
		    (terms->kind == LEND_TERMS_OWNED || m->stats.grants < m->cfg.grants);

	if (!room)
		SIM_MARK(m->sim, mem_keepers_full);
	return room && mem_charge_room(m, mem_payer(t), 0, refs);
}

enum lend_mem_status mem_ops_find(const struct mem_step *t, const struct lend_memref *ref,
				  unsigned right, struct mem_object **o)
{
	struct mem_model *m = t->m;

	if (ref->epoch != m->cfg.epoch) {
		SIM_MARK(m->sim, mem_wrong_epoch);
		return LEND_MEM_NOT_FOUND;
	}
	if (ref->node != m->cfg.node)
		return LEND_MEM_NOT_FOUND;
	if (ref->slot >> WORKER_SHIFT != m->cfg.worker) {
		SIM_MARK(m->sim, mem_wrong_worker);
		return LEND_MEM_NOT_FOUND;
	}
	if (!lend_memref_verify(ref, m->cfg.key)) {
		SIM_MARK(m->sim, mem_forged);
		return LEND_MEM_PERMISSION_DENIED;
	}
	if (right & ~(unsigned)ref->rights[ref->depth]) {
		SIM_MARK(m->sim, mem_right_missing);
		return LEND_MEM_PERMISSION_DENIED;
	}
	*o = mem_model_find(m, ref);
	if (!*o)
		SIM_MARK(m->sim, mem_gone);
	if (*o && right && (*o)->unwritten) {
		SIM_MARK(m->sim, mem_read_waits);
		return LEND_MEM_UNWRITTEN;
	}
	return *o ? LEND_MEM_OK : LEND_MEM_NOT_FOUND;
}

struct mem_object *mem_model_find(struct mem_model *m, const struct lend_memref *ref)
{
	uint32_t slot = ref->slot & ((1u << WORKER_SHIFT) - 1);
	struct mem_object *o = &m->object[slot <= m->cfg.objects ? slot : 0];

	return o->kind == MEM_SNAPSHOT && o->serial == ref->serial && ref->epoch == m->cfg.epoch
		   ? o
		   : NULL;
}

/* Returns the range that a reference names, after its slices. */
static uint64_t range_of(const struct lend_memref *ref, uint64_t *first)
{
	uint64_t len = ref->root_len;

	*first = 0;
	for (int i = 0; i < ref->depth; i++) {
		*first += ref->slice[i].offset;
		len = ref->slice[i].len;
	}
	return len;
}

static void apply_terms(struct mem_step *t, struct mem_object *o)
{
	const struct lend_memterms *terms = &t->op->terms;
	struct mem_model *m = t->m;

	if (terms->kind != LEND_TERMS_TRANSFER) {
		mem_hold(m, o, t->client);
		t->record.held = 1;
	}
	if (terms->kind != LEND_TERMS_OWNED)
		t->record.grant =
		    mem_grant_add(m, mem_ops_slot(m, o), terms->kind,
				  terms->kind == LEND_TERMS_TRANSFER ? 1 : terms->n,
				  m->sim->now + terms->ttl, m->client[t->client].tenant)
			->serial;
}

/* Creates the snapshot that the reply names, with a signed reference to the whole. */
static struct mem_object *new_snapshot(struct mem_step *t, uint64_t len)
{
	const struct lend_store_out *out = t->in->out;
	struct mem_model *m = t->m;
	struct mem_object *o;
	struct lend_memref ref;

	SIM_CHECK(m->sim,
		  out->len == LEND_MEMREF_LEN && lend_memref_decode(out->head, &ref) &&
		      ref.node == m->cfg.node && ref.epoch == m->cfg.epoch && ref.depth == 0 &&
		      ref.rights[0] == LEND_RIGHT_ALL && ref.root_len == len &&
		      ref.slot >> WORKER_SHIFT == m->cfg.worker &&
		      lend_memref_verify(&ref, m->cfg.key),
		  "node %u: the reference out of %s is wrong", m->node, mem_op_name(t->op->kind));
	o = mem_object_make(t, ref.slot & ((1u << WORKER_SHIFT) - 1), ref.serial, MEM_SNAPSHOT);
	mem_view_zero(&o->view, len);
	return o;
}

static struct mem_object *new_space(struct mem_step *t, uint64_t len, uint32_t reply)
{
	const struct lend_store_out *out = t->in->out;
	struct mem_model *m = t->m;
	struct mem_object *o;
	struct lend_memspace space;

	SIM_CHECK(m->sim,
		  out->len == reply && lend_memspace_decode(out->head, out->len, &space) &&
		      space.epoch == m->cfg.epoch &&
		      (reply == 16 || lend_load_u64(out->head + 16) == len),
		  "node %u: the space out of %s is wrong", m->node, mem_op_name(t->op->kind));
	o = mem_object_make(t, space.slot, space.serial, MEM_SPACE);
	mem_view_zero(&o->view, len);
	return o;
}

static uint64_t version_of(const struct mem_step *t)
{
	return mem_version(t->op->client, t->m->node, t->op->id);
}

static enum lend_mem_status run_put(struct mem_step *t)
{
	struct mem_model *m = t->m;
	uint64_t len = t->op->len, pages = (len + t->m->cfg.page - 1) / t->m->cfg.page;
	struct mem_object *o;

	if (!object_room(m) || !terms_room(t, false) || !mem_charge_room(m, mem_payer(t), pages, 0))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (!t->placed && pages > m->cfg.pages - m->page_used - m->placed) {
		SIM_MARK(m->sim, mem_pages_full);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	if (short_of(t, nodes_of(t, len)) ||
	    (!t->placed && t->in->out->status == LEND_MEM_RESOURCE_EXHAUSTED &&
	     mem_model_quarantined(m, pages)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	o = new_snapshot(t, len);
	mem_object_touch(t, o, 0, len);
	o->charge = (uint32_t)pages;
	apply_terms(t, o);
	o->unwritten = t->record.early = t->op->flags & LEND_MEMOP_EARLY;
	if (o->unwritten)
		SIM_MARK(m->sim, mem_early);
	else
		mem_view_write(&o->view, 0, len, version_of(t));
	return LEND_MEM_OK;
}

struct mem_object *mem_ops_unwritten(struct mem_model *m, const struct mem_record *r)
{
	struct mem_object *o = &m->object[r->slot];

	return r->kind == LEND_MEMOP_PUT && r->early && o->kind == MEM_SNAPSHOT &&
		       o->serial == r->serial
		   ? o
		   : NULL;
}

enum lend_mem_status mem_ops_fill(struct mem_step *t, struct mem_record *r)
{
	struct mem_object *o = mem_ops_unwritten(t->m, r);

	if (!o) {
		SIM_MARK(t->m->sim, mem_early_gone);
		return LEND_MEM_NOT_FOUND;
	}
	if (t->op->len != o->view.len)
		return LEND_MEM_INVALID_ARGUMENT;
	if (t->in->landed != o->serial &&
	    (short_of(t, nodes_of(t, t->op->len)) || !mem_object_touch(t, o, 0, t->op->len)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	if (t->in->landed == o->serial)
		SIM_MARK(t->m->sim, mem_early_landed);
	else
		SIM_MARK(t->m->sim, mem_early_filled);
	mem_view_write(&o->view, 0, t->op->len, version_of(t));
	o->unwritten = r->early = false;
	return LEND_MEM_OK;
}

/* Returns the caller's own space; NULL: none. */
static struct mem_object *own_space(const struct mem_step *t)
{
	const struct lend_memspace *space = &t->op->space;
	struct mem_object *o = &t->m->object[space->slot <= t->m->cfg.objects ? space->slot : 0];

	return space->epoch == t->m->cfg.epoch && o->kind == MEM_SPACE &&
		       o->serial == space->serial && o->owner == t->client
		   ? o
		   : NULL;
}

static enum lend_mem_status find_range(const struct mem_step *t, struct mem_object **o)
{
	*o = own_space(t);
	if (!*o)
		return LEND_MEM_NOT_FOUND;
	return is_inside(t->op->offset, t->op->len, (*o)->view.len) ? LEND_MEM_OK
								    : LEND_MEM_OUT_OF_RANGE;
}

static bool pin_room(struct mem_step *t)
{
	const struct mem_tenant *payer = mem_payer(t);
	uint64_t pages = (t->op->len + t->m->cfg.page - 1) / t->m->cfg.page;

	if (!pages || !payer->pinned || payer->pinned + pages <= payer->quota.pages)
		return true;
	SIM_MARK(t->m->sim, mem_pins_over_quota);
	return false;
}

enum lend_mem_status mem_ops_read(struct mem_step *t)
{
	enum lend_mem_status status;
	struct mem_object *o;
	uint64_t first = 0, len;

	if (t->op->kind == LEND_MEMOP_READ) {
		status = find_range(t, &o);
	} else {
		len = range_of(&t->op->ref, &first);
		status = mem_ops_find(t, &t->op->ref, LEND_RIGHT_READ, &o);
		if (status == LEND_MEM_OK && !is_inside(t->op->offset, t->op->len, len)) {
			SIM_MARK(t->m->sim, mem_beyond_slice);
			status = LEND_MEM_OUT_OF_RANGE;
		}
	}
	if (status)
		return status;
	if (!pin_room(t))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (mem_object_rots(t->m, o, first + t->op->offset, t->op->len)) {
		SIM_MARK(t->m->sim, mem_rot_read);
		t->m->stats.damaged++;
		return LEND_MEM_DATA_LOSS;
	}
	mem_ops_must(t);
	mem_object_pin(t, o, first + t->op->offset, t->op->len);
	if (o->handed)
		SIM_MARK(t->m->sim, mem_read_by_other);
	return LEND_MEM_OK;
}

enum lend_mem_status mem_ops_narrow(struct mem_step *t)
{
	const struct lend_store_out *out = t->in->out;
	const struct lend_memop *op = t->op;
	enum lend_mem_status status;
	struct lend_memref ref;
	struct mem_object *o;
	uint64_t first, len = range_of(&op->ref, &first);

	status = mem_ops_find(t, &op->ref, op->rights, &o);
	if (status)
		return status;
	if (!is_inside(op->offset, op->len, len))
		return LEND_MEM_OUT_OF_RANGE;
	mem_ops_must(t);
	SIM_CHECK(t->m->sim,
		  out->len == LEND_MEMREF_LEN && lend_memref_decode(out->head, &ref) &&
		      ref.serial == o->serial && ref.depth == 1 && ref.rights[1] == op->rights &&
		      ref.slice[0].offset == first + op->offset && ref.slice[0].len == op->len &&
		      lend_memref_verify(&ref, t->m->cfg.key),
		  "node %u: NARROW's reference is wrong", t->m->node);
	return LEND_MEM_OK;
}

static enum lend_mem_status run_alloc(struct mem_step *t)
{
	if (t->op->len > LEND_MEMREF_ROOT_MAX)
		return LEND_MEM_OUT_OF_RANGE;
	if (!object_room(t->m) || !mem_charge_room(t->m, mem_payer(t), 0, 1))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	(void)new_space(t, t->op->len, 16);
	return LEND_MEM_OK;
}

static enum lend_mem_status run_write(struct mem_step *t)
{
	struct mem_object *o;
	enum lend_mem_status status = find_range(t, &o);

	if (status)
		return status;
	if (t->op->len && short_of(t, nodes_of(t, t->op->len)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (t->op->len && !mem_object_touch(t, o, t->op->offset, t->op->len)) {
		SIM_MARK(t->m->sim, mem_pages_full);
		return LEND_MEM_RESOURCE_EXHAUSTED;
	}
	mem_ops_must(t);
	mem_view_write(&o->view, t->op->offset, t->op->len, version_of(t));
	return LEND_MEM_OK;
}

static enum lend_mem_status run_seal(struct mem_step *t)
{
	struct mem_object *space, *o;
	uint32_t charge;
	bool consume;
	enum lend_mem_status status = find_range(t, &space);

	if (status)
		return status;
	consume = t->op->flags & LEND_MEMOP_CONSUME;
	charge = mem_charge_of(t->m, space->base + t->op->offset, t->op->len, space->charge);
	if (!object_room(t->m) || !terms_room(t, consume) ||
	    (!consume && !mem_charge_room(t->m, mem_payer(t), charge, 0)) ||
	    short_of(t, NODES_SHARE))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	/* Its slot may be that of the space that ends. */
	mem_object_share(t->m, &t->m->object[0], space, t->op->offset, t->op->len);
	if (consume) {
		mem_object_end(t->m, space);
		SIM_MARK(t->m->sim, mem_seal_consume);
	}
	o = new_snapshot(t, t->op->len);
	mem_object_move(o, &t->m->object[0]);
	o->charge = charge;
	apply_terms(t, o);
	return LEND_MEM_OK;
}

static enum lend_mem_status run_map(struct mem_step *t)
{
	struct mem_object *from, *o;
	uint32_t charge;
	uint64_t first, len = range_of(&t->op->ref, &first);
	enum lend_mem_status status = mem_ops_find(t, &t->op->ref, LEND_RIGHT_MAP, &from);

	if (status)
		return status;
	charge = mem_charge_of(t->m, from->base + first, len, from->charge);
	if (!object_room(t->m) || !mem_charge_room(t->m, mem_payer(t), charge, 1) ||
	    short_of(t, NODES_SHARE))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	mem_ops_must(t);
	o = new_space(t, len, 24);
	o->charge = charge;
	mem_payer(t)->pages += charge;
	mem_object_share(t->m, o, from, first, len);
	return LEND_MEM_OK;
}

static enum lend_mem_status free_space(struct mem_step *t)
{
	struct mem_object *o = own_space(t);

	if (!o)
		return LEND_MEM_NOT_FOUND;
	mem_mapping_detach(t->m, mem_ops_slot(t->m, o), true);
	mem_object_end(t->m, o);
	return LEND_MEM_OK;
}

enum lend_mem_status mem_ops_run(struct mem_step *t)
{
	switch (t->op->kind) {
	case LEND_MEMOP_PUT:
		return run_put(t);
	case LEND_MEMOP_ALLOC:
		return run_alloc(t);
	case LEND_MEMOP_WRITE:
		return run_write(t);
	case LEND_MEMOP_SEAL:
		return run_seal(t);
	case LEND_MEMOP_MAP:
		return run_map(t);
	case LEND_MEMOP_ADOPT:
		return mem_ops_adopt(t);
	case LEND_MEMOP_GRANT:
		return mem_ops_grant(t);
	case LEND_MEMOP_RELEASE:
		return mem_ops_release(t);
	case LEND_MEMOP_FREE:
		return free_space(t);
	default:
		return LEND_MEM_UNIMPLEMENTED;
	}
}
