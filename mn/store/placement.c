#include "mn/store/placement.h"

#include "mn/store/frame.h"
#include "mn/store/frame_alloc.h"
#include "mn/store/lease.h"
#include "mn/store/data_exec.h"
#include "mn/store/space.h"
#include "mn/store/tenant.h"
#include "mn/store/page_tree.h"
#include "util/bits.h"
#include "util/check.h"

/* Returns whether these bytes can become pages as they are. The rest of a write's last page is
 * copied from the old page: no more bytes than a placement saves. */
static bool is_wanted(const struct lend_store *s, uint32_t client, const struct lend_memop *op)
{
	uint32_t i;
	struct lend_view view;

	if (op->len < LEND_STORE_PLACE_MIN || lend_record_at(s, client, op->id)->id == op->id)
		return false;
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

uint32_t lend_store_place(struct lend_store *store, const struct lend_store_peer *peer,
			  const void *head, size_t n, uint64_t len,
			  struct lend_store_seg seg[LEND_STORE_SEGS_MAX], uint32_t *segs,
			  uint32_t *fixed)
{
	struct lend_memop op;
	uint32_t client, placement, tenant, *link;
	uint64_t left, pages;

	if (lend_memop_decode(head, n, len, &op) != LEND_MEM_OK)
		return 0;
	client = op.life == peer->life ? lend_client_find(store, op.life, op.client) : 0;
	if (!client || !is_wanted(store, client, &op))
		return 0;
	pages = lend_pages_of(store, op.len);
	tenant = lend_client_at(store, client)->tenant;
	if (pages > lend_tenant_limit(store, tenant, 0) || !lend_tree_room(store, 0, pages) ||
	    !lend_table_room(&store->placement))
		return 0;
	LEND_TAKE(store, placement, placement);
	LEND_CHECK(placement);
	lend_placement_at(store, placement)->n = (uint32_t)pages;
	lend_placement_at(store, placement)->tenant = tenant;
	lend_tenant_at(store, tenant)->use.pages += pages;
	link = &lend_placement_at(store, placement)->first;
	announce_frames(store, client, &op, pages);
	*segs = 0;
	for (left = op.len; left > 0;) {
		uint64_t part = lend_min_u64(left, lend_page_size(store));

		*link = lend_frame_take(store, 0, (uint32_t)part);
		lend_seg_add(seg, segs, lend_page(store, *link), part);
		link = &lend_frame_at(store, *link)->next;
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

static uint32_t end_placement(struct lend_store *s, uint32_t placement)
{
	struct lend_placement *p = lend_placement_at(s, placement);
	uint32_t first = p->first;

	LEND_CHECK(placement <= s->placement.top && p->n > 0);
	lend_tenant_at(s, p->tenant)->use.pages -= p->n;
	p->first = 0;
	p->n = 0;
	LEND_GIVE(s, placement, placement);
	return first;
}

void lend_store_unplace(struct lend_store *store, uint32_t placement)
{
	lend_placement_drop(store, end_placement(store, placement));
}

uint32_t lend_placement_take(struct lend_store *s, uint32_t placement, const struct lend_memop *op,
			     enum lend_mem_status status)
{
	uint32_t n = lend_placement_at(s, placement)->n;
	uint32_t first = end_placement(s, placement);
	bool fits = status == LEND_MEM_OK && lend_pages_of(s, op->len) == n &&
		    (op->kind == LEND_MEMOP_PUT || op->kind == LEND_MEMOP_WRITE);

	if (fits)
		return first;
	lend_placement_drop(s, first);
	return 0;
}
