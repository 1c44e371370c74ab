#include "mn/store/placement.h"

#include "mn/store/frame.h"
#include "mn/store/frame_alloc.h"
#include "mn/store/lease.h"
#include "mn/store/data_exec.h"
#include "mn/store/page_checksum.h"
#include "mn/store/space.h"
#include "mn/store/tenant.h"
#include "mn/store/page_tree.h"
#include "util/bits.h"
#include "util/check.h"

/* Returns the unwritten snapshot that a PUT writes, unless another placement has its frames. */
static uint32_t find_unwritten(const struct lend_store *s, uint32_t client,
			       const struct lend_memop *op)
{
	const struct lend_record *r = lend_record_at(s, client, op->id);
	uint32_t i = r->id == op->id ? lend_op_unwritten(s, r) : 0;
	struct lend_view view = lend_object_view(s, i);

	if (!i || op->kind != LEND_MEMOP_PUT || view.len != op->len)
		return 0;
	return lend_frame_at(s, lend_tree_frame(s, &view, 0))->pins ? 0 : i;
}

/* Returns whether these bytes can become pages as they are. The rest of a write's last page is
 * copied from the old page: no more bytes than a placement saves. */
static bool is_wanted(const struct lend_store *s, uint32_t client, const struct lend_memop *op)
{
	uint32_t i;
	struct lend_view view;

	if (op->len < LEND_STORE_PLACE_MIN || !lend_memop_payload(op))
		return false;
	if (lend_record_at(s, client, op->id)->id == op->id)
		return find_unwritten(s, client, op);
	if (op->kind == LEND_MEMOP_PUT)
		return true;
	if (op->len < lend_page_size(s))
		return false;
	i = op->kind == LEND_MEMOP_WRITE ? lend_op_space(s, client, &op->space) : 0;
	view = lend_object_view(s, i);
	return i && op->offset <= view.len && op->len <= view.len - op->offset &&
	       lend_page_rest(s, view.base + op->offset) == 0;
}

/* Allocates the frames of a write next to those of the write before it, which may be arriving. */
static void announce_frames(struct lend_store *s, uint32_t client, const struct lend_memop *op,
			    uint64_t pages)
{
	struct lend_expected e = {.n = pages};
	struct lend_view view;
	uint64_t end;

	if (op->kind == LEND_MEMOP_WRITE) {
		e.space = lend_op_space(s, client, &op->space);
		view = lend_object_view(s, e.space);
		e.page = (uint32_t)lend_page_at(s, view.base + op->offset);
		end = lend_pages_of(s, view.base + view.len);
		e.more = end > e.page + pages ? end - e.page - pages : 0;
	}
	lend_free_expect(s, &e);
}

/* Reserves new frames for a placement. Returns false: there are none. */
static bool take_frames(struct lend_store *s, uint32_t client, const struct lend_memop *op,
			struct lend_placement *p)
{
	uint32_t tenant = lend_client_at(s, client)->tenant, *link = &p->first;
	uint64_t pages = lend_pages_of(s, op->len);

	if (pages > lend_tenant_limit(s, tenant, 0) || !lend_tree_room(s, 0, pages))
		return false;
	p->tenant = tenant;
	p->n = (uint32_t)pages;
	lend_tenant_at(s, tenant)->use.pages += pages;
	announce_frames(s, client, op, pages);
	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t end =
		    lend_min_u64(op->len - (uint64_t)i * lend_page_size(s), lend_page_size(s));

		*link = lend_frame_take(s, 0, (uint32_t)end);
		link = &lend_frame_at(s, *link)->next;
	}
	return true;
}

/* Pins the frames of an unwritten snapshot for a placement. They are its own: nothing reads it. */
static void pin_frames(struct lend_store *s, uint32_t object, struct lend_placement *p)
{
	struct lend_view view = lend_object_view(s, object);
	uint32_t *link = &p->first;

	p->serial = lend_object_at(s, object)->serial;
	p->n = (uint32_t)lend_pages_of(s, view.len);
	for (uint32_t i = 0; i < p->n; i++) {
		*link = lend_tree_frame(s, &view, i);
		lend_frame_pin(s, *link);
		link = &lend_frame_at(s, *link)->next;
	}
	*link = 0;
}

uint32_t lend_store_place(struct lend_store *store, const struct lend_store_peer *peer,
			  const void *head, size_t n, uint64_t len,
			  struct lend_store_seg seg[LEND_STORE_SEGS_MAX], uint32_t *segs,
			  uint32_t *fixed)
{
	struct lend_placement p = {0};
	struct lend_memop op;
	uint32_t client, placement, object;
	uint64_t left;

	if (lend_memop_decode(head, n, len, &op) != LEND_MEM_OK || op.flags & LEND_MEMOP_ONE_SIDED)
		return 0;
	client = op.life == peer->life ? lend_client_find(store, op.life, op.client) : 0;
	if (!client || !is_wanted(store, client, &op))
		return 0;
	object = find_unwritten(store, client, &op);
	if (!lend_table_room(&store->placement) ||
	    (!object && !take_frames(store, client, &op, &p)))
		return 0;
	if (object)
		pin_frames(store, object, &p);
	LEND_TAKE(store, placement, placement);
	LEND_CHECK(placement);
	*lend_placement_at(store, placement) = p;
	*segs = 0;
	left = op.len;
	for (uint32_t f = p.first; f; f = lend_frame_at(store, f)->next) {
		uint64_t part = lend_min_u64(left, lend_page_size(store));

		lend_seg_add(seg, segs, lend_page(store, f), part);
		left -= part;
	}
	*fixed = op.fixed;
	return placement;
}

void lend_placement_drop(struct lend_store *s, uint32_t first)
{
	while (first) {
		uint32_t frame = first;

		first = lend_frame_at(s, frame)->next;
		lend_frame_drop(s, frame);
	}
}

/* Unpins the frames of an unwritten snapshot, with whatever bytes have arrived. */
static void unpin_frames(struct lend_store *s, uint32_t first)
{
	while (first) {
		uint32_t frame = first;

		first = lend_frame_at(s, frame)->next;
		lend_frame_at(s, frame)->next = 0;
		if (s->config.checksum)
			lend_sum_whole(s, frame);
		lend_frame_unpin(s, frame);
	}
}

/* Returns the frames that the placement had; 0: they are of a snapshot. */
static uint32_t end_placement(struct lend_store *s, uint32_t placement)
{
	struct lend_placement *p = lend_placement_at(s, placement), old = *p;

	LEND_CHECK(placement <= s->placement.top && p->n > 0);
	*p = (struct lend_placement){0};
	LEND_GIVE(s, placement, placement);
	if (!old.serial) {
		lend_tenant_at(s, old.tenant)->use.pages -= old.n;
		return old.first;
	}
	unpin_frames(s, old.first);
	return 0;
}

void lend_store_unplace(struct lend_store *store, uint32_t placement)
{
	lend_placement_drop(store, end_placement(store, placement));
}

uint32_t lend_placement_take(struct lend_store *s, uint32_t placement, const struct lend_memop *op,
			     enum lend_mem_status status, uint64_t *landed)
{
	uint32_t n = lend_placement_at(s, placement)->n, first;

	*landed = lend_placement_at(s, placement)->serial;
	first = end_placement(s, placement);
	bool fits = status == LEND_MEM_OK && lend_pages_of(s, op->len) == n &&
		    (op->kind == LEND_MEMOP_PUT || op->kind == LEND_MEMOP_WRITE);

	if (fits)
		return first;
	lend_placement_drop(s, first);
	return 0;
}
