#include "mn/store/data_exec.h"

#include "mn/store/frame.h"
#include "mn/store/pinned_map.h"
#include "mn/store/space.h"
#include "mn/store/page_checksum.h"
#include "mn/store/tenant.h"
#include "mn/store/page_tree.h"
#include "util/bits.h"

uint32_t lend_op_space(const struct lend_store *s, uint32_t client,
		       const struct lend_memspace *space)
{
	uint32_t i = 0;

	if (space->epoch == s->config.epoch)
		i = lend_object_find(s, space->slot, space->serial, LEND_OBJECT_SPACE);
	return i && lend_object_at(s, i)->client == client ? i : 0;
}

static uint32_t tenant_of(const struct lend_step *t)
{
	return lend_client_at(t->s, t->client)->tenant;
}

static void record_object(struct lend_step *t, uint32_t object)
{
	t->record.slot = object;
	t->record.serial = lend_object_at(t->s, object)->serial;
	t->record.len = lend_object_at(t->s, object)->len;
}

/* Without tenants there is nothing that a reference could be bound to. */
static bool can_bind(const struct lend_step *t)
{
	return !(t->op->flags & LEND_MEMOP_BOUND) || t->peer->tenant;
}

static void make_snapshot(struct lend_step *t, const struct lend_view *view)
{
	uint32_t object = lend_snapshot_make(t->s, view);

	record_object(t, object);
	t->record.tenant = t->op->flags & LEND_MEMOP_BOUND ? (uint8_t)t->peer->tenant : 0;
	lend_terms_apply(t, object);
	t->record.early = t->op->kind == LEND_MEMOP_PUT && t->op->flags & LEND_MEMOP_EARLY;
	lend_object_at(t->s, object)->unwritten = t->record.early;
}

/* An EARLY put has no payload: it reserves all pages, with zeros that no read sees. */
enum lend_mem_status lend_op_put(struct lend_step *t)
{
	struct lend_view view = {.len = t->op->len,
				 .height = lend_tree_height(t->s, t->op->len),
				 .limit = lend_tenant_limit(t->s, tenant_of(t), 0)};

	if (!can_bind(t))
		return LEND_MEM_FAILED_PRECONDITION;
	if (!lend_object_room(t->s) || !lend_terms_room(t, false) ||
	    !lend_cow_write(t->s, &view, 0, view.len, &t->payload, t->placed))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	make_snapshot(t, &view);
	return LEND_MEM_OK;
}

uint32_t lend_op_unwritten(const struct lend_store *s, const struct lend_record *r)
{
	uint32_t i = r->kind == LEND_MEMOP_PUT && r->early
			 ? lend_object_find(s, r->slot, r->serial, LEND_OBJECT_SNAPSHOT)
			 : 0;

	return i && lend_object_at(s, i)->unwritten ? i : 0;
}

/* The bytes are in the snapshot's own frames, or are copied, or replace them. A frame that another
 * message is still being received into is pinned, and replaced, too. */
enum lend_mem_status lend_op_fill(struct lend_step *t, struct lend_record *r)
{
	uint32_t i = lend_op_unwritten(t->s, r);
	struct lend_object *o = lend_object_at(t->s, i);
	struct lend_view view = lend_object_view(t->s, i);

	if (!i)
		return LEND_MEM_NOT_FOUND;
	if (t->op->len != view.len)
		return LEND_MEM_INVALID_ARGUMENT;
	view.limit = view.charge;
	if (t->landed != o->serial &&
	    !lend_cow_write(t->s, &view, 0, view.len, &t->payload, t->placed))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	lend_undo_log(t->s, o);
	lend_undo_log(t->s, &r->kind);
	o->root = view.root;
	o->unwritten = 0;
	r->early = 0;
	t->s->settled++;
	return LEND_MEM_OK;
}

/* Takes back the pages of [at, at + len) from the reply, which had n segments before. */
static void drop_pages(struct lend_step *t, const struct lend_view *view, uint64_t at, uint64_t len,
		       uint32_t n)
{
	for (uint64_t end = at + len; at < end;
	     at += lend_page_size(t->s) - lend_page_rest(t->s, at)) {
		uint32_t frame = lend_tree_frame(t->s, view, lend_page_at(t->s, at));

		if (frame)
			lend_frame_unpin(t->s, frame);
		lend_tenant_at(t->s, tenant_of(t))->use.pinned -= frame != 0;
	}
	t->out->n = n;
}

enum lend_mem_status lend_emit_pages(struct lend_step *t, const struct lend_view *view,
				     uint64_t offset, uint64_t len)
{
	struct lend_store_usage *use = &lend_tenant_at(t->s, tenant_of(t))->use;
	struct lend_store_out *out = t->out;
	uint64_t first = view->base + offset, at = first, left = len;
	uint32_t before = out->n;

	if (!lend_tenant_pin_room(t->s, tenant_of(t), lend_pages_of(t->s, len)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	while (left > 0) {
		uint32_t frame = lend_tree_frame(t->s, view, lend_page_at(t->s, at));
		uint32_t from = lend_page_rest(t->s, at);
		uint64_t n = lend_min_u64(left, lend_page_size(t->s) - from);

		if (!lend_sum_holds(t->s, frame)) {
			drop_pages(t, view, first, at - first, before);
			return LEND_MEM_DATA_LOSS;
		}
		if (frame)
			lend_frame_pin(t->s, frame);
		use->pinned += frame != 0;
		if (at == first) /* a range before it may end in the same page */
			out->seg[out->n++] =
			    (struct lend_store_seg){lend_page(t->s, frame) + from, n};
		else
			lend_seg_add(out->seg, &out->n, lend_page(t->s, frame) + from, n);
		at += n;
		left -= n;
	}
	out->pinned |= len > 0;
	out->len += len;
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_get(struct lend_step *t)
{
	enum lend_mem_status status;
	uint64_t first, len = lend_memref_range(&t->op->ref, &first);
	struct lend_view view;
	uint32_t object;

	status = lend_snapshot_find(t->s, &t->op->ref, LEND_RIGHT_READ, t->peer->tenant, &object);
	if (status)
		return status;
	if (!lend_is_inside(t->op->offset, t->op->len, len))
		return LEND_MEM_OUT_OF_RANGE;
	view = lend_object_view(t->s, object);
	return lend_emit_pages(t, &view, first + t->op->offset, t->op->len);
}

enum lend_mem_status lend_op_alloc(struct lend_step *t)
{
	struct lend_view view = {.len = t->op->len};

	if (view.len > LEND_MEMREF_ROOT_MAX)
		return LEND_MEM_OUT_OF_RANGE;
	if (!lend_object_room(t->s) || !lend_tenant_room(t->s, tenant_of(t), 0, 1))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	view.height = lend_tree_height(t->s, view.len);
	record_object(t, lend_space_make(t->s, &view, t->client));
	return LEND_MEM_OK;
}

/* Finds the space that an operation names, and checks that the range is inside. */
static enum lend_mem_status find_range(const struct lend_step *t, uint32_t *space,
				       struct lend_view *view)
{
	*space = lend_op_space(t->s, t->client, &t->op->space);
	*view = lend_object_view(t->s, *space);
	if (!*space)
		return LEND_MEM_NOT_FOUND;
	if (!lend_is_inside(t->op->offset, t->op->len, view->len))
		return LEND_MEM_OUT_OF_RANGE;
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_read(struct lend_step *t)
{
	struct lend_view view;
	uint32_t space;
	enum lend_mem_status status = find_range(t, &space, &view);

	if (status)
		return status;
	return lend_emit_pages(t, &view, t->op->offset, t->op->len);
}

enum lend_mem_status lend_op_write(struct lend_step *t)
{
	struct lend_view view;
	uint32_t space, was;
	enum lend_mem_status status = find_range(t, &space, &view);

	if (status)
		return status;
	view.limit = lend_tenant_limit(t->s, tenant_of(t), view.charge);
	view.space = space;
	was = view.charge;
	if (!lend_cow_write(t->s, &view, t->op->offset, t->op->len, &t->payload, t->placed))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	lend_object_at(t->s, space)->root = view.root;
	lend_tenant_at(t->s, tenant_of(t))->use.pages += view.charge - was;
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_seal(struct lend_step *t)
{
	bool consume = t->op->flags & LEND_MEMOP_CONSUME;
	struct lend_view whole, view;
	uint32_t space;
	enum lend_mem_status status = find_range(t, &space, &whole);

	if (status)
		return status;
	if (!can_bind(t))
		return LEND_MEM_FAILED_PRECONDITION;
	view = (struct lend_view){.base = whole.base + t->op->offset, .len = t->op->len};
	/* A seal that consumes its space keeps no more pages than the space did. */
	if (!lend_object_room(t->s) || !lend_terms_room(t, consume) ||
	    (!consume &&
	     !lend_tenant_room(t->s, tenant_of(t), lend_charge_of(t->s, &view, whole.charge), 0)) ||
	    !lend_tree_share_range(t->s, &whole, t->op->offset, t->op->len, &view))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	view.charge = (uint32_t)lend_charge_of(t->s, &view, whole.charge);
	if (consume)
		lend_space_end(t->s, space);
	make_snapshot(t, &view);
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_map(struct lend_step *t)
{
	enum lend_mem_status status;
	uint64_t first, len = lend_memref_range(&t->op->ref, &first);
	struct lend_view whole, view;
	uint32_t object;

	status = lend_snapshot_find(t->s, &t->op->ref, LEND_RIGHT_MAP, t->peer->tenant, &object);
	if (status)
		return status;
	whole = lend_object_view(t->s, object);
	view = (struct lend_view){.base = whole.base + first, .len = len};
	if (!lend_object_room(t->s) ||
	    !lend_tenant_room(t->s, tenant_of(t), lend_charge_of(t->s, &view, whole.charge), 1) ||
	    !lend_tree_share_range(t->s, &whole, first, len, &view))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	view.charge = (uint32_t)lend_charge_of(t->s, &view, whole.charge);
	record_object(t, lend_space_make(t->s, &view, t->client));
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_free(struct lend_step *t)
{
	uint32_t i = lend_op_space(t->s, t->client, &t->op->space);

	if (!i)
		return LEND_MEM_NOT_FOUND;
	lend_pinned_map_detach(t->s, i, true);
	lend_space_end(t->s, i);
	return LEND_MEM_OK;
}
