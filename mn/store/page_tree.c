#include "mn/store/page_tree.h"

#include <string.h>

#include "mn/store/frame.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"

/* Returns the index of a page's child in a node of this level. Level 0 is a frame; a node of level
 * n spans 64^n pages. */
static uint32_t index_at(uint64_t page, uint32_t level)
{
	return page >> (LEND_FAN_BITS * (level - 1)) & (LEND_FAN - 1);
}

static uint64_t level_span(uint32_t level)
{
	return UINT64_C(1) << (LEND_FAN_BITS * level);
}

uint32_t lend_tree_height(const struct lend_store *s, uint64_t end)
{
	uint64_t pages = lend_pages_of(s, end);
	uint32_t height = 0;

	while (level_span(height) < pages)
		height++;
	LEND_CHECK(height <= LEND_HEIGHT_MAX);
	return height;
}

const uint32_t *lend_tree_leaf(const struct lend_store *s, const struct lend_view *view,
			       uint64_t page, uint64_t *hole)
{
	uint32_t id = view->root, level = view->height;

	for (; level > 1 && id; level--)
		id = lend_node_at(s, id)->child[index_at(page, level)];
	*hole = level_span(level) - (page & (level_span(level) - 1));
	if (!id)
		return NULL;
	return view->height ? lend_node_at(s, id)->child : &view->root;
}

static void retain_child(struct lend_store *s, uint32_t id, uint32_t level)
{
	uint32_t *refs = level ? lend_node_refs(s, id) : &lend_frame_at(s, id)->refs;

	if (!id)
		return;
	/* At most one reference per child entry and object: far fewer than 2^32. */
	LEND_CHECK(*refs > 0 && *refs < UINT32_MAX);
	++*refs;
}

static uint32_t take_node(struct lend_store *s)
{
	struct lend_table *t = &s->node;
	uint32_t i = t->free;

	LEND_CHECK(t->used < t->cap);
	if (i)
		t->free = lend_node_at(s, i)->child[0];
	else
		i = ++t->top;
	t->used++;
	memset(lend_node_at(s, i), 0, sizeof(struct lend_node));
	*lend_node_refs(s, i) = 1;
	return i;
}

static void give_node(struct lend_store *s, uint32_t i)
{
	lend_node_at(s, i)->child[0] = s->node.free;
	s->node.free = i;
	s->node.used--;
}

/* Queues a node without references to be freed. Its refcount field then holds the next node and the
 * level. Its children keep their references until it is freed; nodes are freed one at a time. */
static void queue_dead_node(struct lend_store *s, uint32_t id, uint32_t level)
{
	*lend_node_refs(s, id) = s->dying << LEND_LEVEL_BITS | level;
	s->dying = id;
}

static void drop_child(struct lend_store *s, uint32_t id, uint32_t level)
{
	if (!id)
		return;
	if (level == 0) {
		lend_frame_drop(s, id);
		return;
	}
	LEND_CHECK(*lend_node_refs(s, id) > 0);
	if (--*lend_node_refs(s, id) == 0)
		queue_dead_node(s, id, level);
}

static void reap_node(struct lend_store *s)
{
	uint32_t id = s->dying, word = *lend_node_refs(s, id), level = word & LEND_LEVEL_MASK;

	s->dying = word >> LEND_LEVEL_BITS;
	for (uint32_t i = 0; i < LEND_FAN; i++)
		drop_child(s, lend_node_at(s, id)->child[i], level - 1);
	give_node(s, id);
}

void lend_tree_free_dropped(struct lend_store *s)
{
	for (; s->dying && s->free_budget > 0; s->free_budget--)
		reap_node(s);
}

bool lend_tree_room(struct lend_store *s, uint64_t nodes, uint64_t frames)
{
	while (s->dying &&
	       (nodes > lend_table_room(&s->node) ||
		((!s->config.quarantine || s->config.yields) && frames > lend_frame_room(s))))
		reap_node(s);
	return nodes <= lend_table_room(&s->node) && frames <= lend_frame_room(s);
}

void lend_tree_drop(struct lend_store *s, struct lend_view *view)
{
	drop_child(s, view->root, view->height);
	view->root = 0;
	lend_tree_free_dropped(s);
}

/* Returns pages [first, last] of this subtree, counted from its start, with one more reference. */
static uint32_t trim_subtree(struct lend_store *s, uint32_t id, uint32_t level, uint64_t first,
			     uint64_t last)
{
	uint64_t part;
	uint32_t copy;

	if (!id)
		return 0;
	if (first == 0 && last == level_span(level) - 1) {
		retain_child(s, id, level);
		return id;
	}
	part = level_span(level - 1);
	copy = take_node(s);
	for (uint64_t i = first / part; i <= last / part; i++) {
		uint64_t from = i == first / part ? first % part : 0;
		uint64_t to = i == last / part ? last % part : part - 1;

		lend_node_at(s, copy)->child[i] =
		    trim_subtree(s, lend_node_at(s, id)->child[i], level - 1, from, to);
	}
	return copy;
}

bool lend_tree_share_range(struct lend_store *s, const struct lend_view *view, uint64_t offset,
			   uint64_t len, struct lend_view *out)
{
	uint64_t start = view->base + offset;
	uint64_t first = lend_page_at(s, start);
	uint64_t last;
	uint32_t id = view->root, level = view->height;

	*out = (struct lend_view){.base = lend_page_rest(s, start), .len = len};
	if (len == 0)
		return true;
	if (len == view->len) { /* no pages outside the range to leave out */
		*out = *view;
		retain_child(s, id, level);
		return true;
	}
	if (!lend_tree_room(s, 2 * level, 0))
		return false;
	last = lend_page_at(s, start + len - 1);
	while (level > 0 && first / level_span(level - 1) == last / level_span(level - 1)) {
		id = id ? lend_node_at(s, id)->child[first / level_span(level - 1)] : 0;
		level--;
		first %= level_span(level);
		last %= level_span(level);
	}
	out->base += first << s->page_bits;
	out->height = level;
	out->root = trim_subtree(s, id, level, first, last);
	return true;
}

static void add_cost(const struct lend_store *s, uint32_t id, uint32_t level, bool shared,
		     uint64_t first, uint64_t last, struct lend_tree_cost *sum)
{
	uint64_t part;

	if (!id && level < 2) {
		sum->frames += last - first + 1;
		sum->zeros += last - first + 1;
		sum->nodes += level;
		return;
	}
	if (level == 0) {
		sum->frames += shared || !lend_frame_is_exclusive(s, id);
		return;
	}
	shared = shared || !id || *lend_node_refs(s, id) > 1;
	sum->nodes += shared;
	part = level_span(level - 1);
	for (uint64_t i = first / part; i <= last / part; i++) {
		uint64_t from = i == first / part ? first % part : 0;
		uint64_t to = i == last / part ? last % part : part - 1;

		add_cost(s, id ? lend_node_at(s, id)->child[i] : 0, level - 1, shared, from, to,
			 sum);
	}
}

struct lend_tree_cost lend_tree_cost(const struct lend_store *s, const struct lend_view *view,
				     uint64_t first, uint64_t last)
{
	struct lend_tree_cost sum = {0, 0, 0};

	add_cost(s, view->root, view->height, false, first, last, &sum);
	return sum;
}

/* Makes *id a node with one reference and the same children. */
static void own_node(struct lend_store *s, uint32_t *id, uint32_t level)
{
	uint32_t old = *id, fresh;

	if (old && *lend_node_refs(s, old) == 1)
		return;
	fresh = take_node(s);
	if (old) {
		memcpy(lend_node_at(s, fresh), lend_node_at(s, old), sizeof(struct lend_node));
		for (uint32_t i = 0; i < LEND_FAN; i++)
			retain_child(s, lend_node_at(s, old)->child[i], level - 1);
		--*lend_node_refs(s, old);
	}
	lend_undo_fence();
	*id = fresh;
}

uint32_t *lend_tree_own(struct lend_store *s, struct lend_view *view, uint64_t page)
{
	uint32_t *id = &view->root;

	for (uint32_t level = view->height; level > 0; level--) {
		own_node(s, id, level);
		id = &lend_node_at(s, *id)->child[index_at(page, level)];
	}
	return id;
}
