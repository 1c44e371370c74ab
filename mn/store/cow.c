#include "mn/store/cow.h"

#include <string.h>

#include "mn/store/frame.h"
#include "mn/store/frame_alloc.h"
#include "mn/store/page_checksum.h"
#include "mn/store/tenant.h"
#include "mn/store/page_tree.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"

uint64_t lend_cursor_read(struct lend_cursor *c, void *to, uint64_t len)
{
	uint64_t done = 0;

	while (c->n > 0 && done < len) {
		uint64_t n = lend_min_u64(len - done, c->seg->len - c->at);

		if (n)
			memcpy((uint8_t *)to + done, (const uint8_t *)c->seg->data + c->at, n);
		done += n;
		c->at += n;
		if (c->at == c->seg->len) {
			c->seg++;
			c->n--;
			c->at = 0;
		}
	}
	return done;
}

/* Returns the frame for a write to [from, to) of a page: the old one, or a new one with a copy of
 * the rest. */
static uint32_t writable_frame(struct lend_store *s, uint32_t old, uint32_t from, uint32_t to)
{
	uint32_t frame;

	if (lend_frame_is_exclusive(s, old))
		return old;
	if (!old)
		return lend_frame_take(s, from, to);
	frame = lend_frame_take(s, 0, lend_page_size(s));
	if (lend_frame_at(s, old)->refs > 1)
		s->counts.cow_copies++;
	else
		s->counts.pin_copies++;
	memcpy(lend_page(s, frame), lend_page(s, old), from);
	memcpy(lend_page(s, frame) + to, lend_page(s, old) + to, lend_page_size(s) - to);
	return frame;
}

/* Links a complete frame into the tree and drops the old one. */
static void replace_frame(struct lend_store *s, uint32_t *slot, uint32_t frame)
{
	uint32_t old = *slot;

	lend_undo_fence();
	*slot = frame;
	lend_undo_fence();
	if (old && old != frame)
		lend_frame_drop(s, old);
}

static void copy_in(struct lend_store *s, uint32_t *slot, uint32_t from, uint32_t to,
		    struct lend_cursor *bytes)
{
	uint32_t old = *slot, weight = lend_sum_before(s, old, from, to);
	uint32_t frame = writable_frame(s, old, from, to);

	lend_sum_begin(s, frame);
	lend_cursor_read(bytes, lend_page(s, frame) + from, to - from);
	lend_sum_after(s, frame, old, from, to, weight);
	replace_frame(s, slot, frame);
}

/* Replaces the page by the first placed frame, which holds [0, to) of it; copies the rest. */
static void put_placed(struct lend_store *s, uint32_t *slot, uint32_t to, uint32_t *placed)
{
	uint32_t old = *slot, frame = *placed, weight = lend_sum_before(s, old, 0, to);

	*placed = lend_frame_at(s, frame)->next;
	lend_frame_at(s, frame)->next = 0;
	if (old) {
		s->counts.cow_copies += lend_frame_at(s, old)->refs > 1;
		memcpy(lend_page(s, frame) + to, lend_page(s, old) + to, lend_page_size(s) - to);
	}
	lend_sum_after(s, frame, old, 0, to, weight);
	replace_frame(s, slot, frame);
}

static bool write_fits(struct lend_store *s, const struct lend_view *view, uint64_t first,
		       uint64_t last, bool placed, struct lend_tree_cost *cost)
{
	*cost = lend_tree_cost(s, view, first, last);
	if (placed)
		cost->frames = 0;
	return lend_tree_room(s, cost->nodes, cost->frames);
}

/* A page that an object gains must also fit into the width of its charge. */
static bool within_quota(struct lend_store *s, const struct lend_view *view, uint64_t charge)
{
	bool yes = charge <= view->charge || charge <= view->limit;

	s->counts.over_quota += !yes;
	return yes && charge <= LEND_CHARGE_MAX;
}

/* Allocates the pages of sequential writes next to each other. */
static void announce_frames(struct lend_store *s, const struct lend_view *view, uint64_t first,
			    uint64_t n)
{
	uint64_t hole;
	const uint32_t *leaf = n && first ? lend_tree_leaf(s, view, first - 1, &hole) : NULL;

	lend_free_expect(s, &(struct lend_expected){
				.n = n, .beside = leaf ? leaf[(first - 1) & (LEND_FAN - 1)] : 0});
}

bool lend_cow_write(struct lend_store *s, struct lend_view *view, uint64_t offset, uint64_t len,
		    struct lend_cursor *bytes, uint32_t *placed)
{
	uint64_t at = view->base + offset, end = at + len;
	bool swap = *placed && lend_page_rest(s, at) == 0;
	bool late = s->dying != 0;
	struct lend_tree_cost cost;
	uint64_t first, last;
	uint64_t charge;
	uint32_t *slot = NULL;

	if (len == 0)
		return true;
	first = lend_page_at(s, at);
	last = lend_page_at(s, end - 1);
	/* Trees that wait to be freed may share pages with this view. Their references raise the
	 * cost, so a refusal is final only when they have been freed. */
	if (!write_fits(s, view, first, last, swap, &cost) &&
	    !(late && write_fits(s, view, first, last, swap, &cost)))
		return false;
	charge = lend_charge_of(s, view, view->charge + cost.zeros);
	if (!within_quota(s, view, charge))
		return false;
	view->charge = (uint32_t)charge;
	if (view->space) /* first, so that a restart never finds more pages than are charged */
		lend_object_at(s, view->space)->charge = charge & LEND_CHARGE_MAX;
	announce_frames(s, view, first, cost.frames);
	while (at < end) {
		uint32_t from = lend_page_rest(s, at);
		uint32_t to = (uint32_t)lend_min_u64(lend_page_size(s), from + (end - at));

		slot = slot && lend_page_at(s, at) & (LEND_FAN - 1)
			   ? slot + 1 /* the next page of the same leaf */
			   : lend_tree_own(s, view, lend_page_at(s, at));
		if (swap)
			put_placed(s, slot, to, placed);
		else
			copy_in(s, slot, from, to, bytes);
		at += to - from;
	}
	return true;
}
