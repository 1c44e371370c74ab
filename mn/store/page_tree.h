/* page_tree - page tables as trees of shared, refcounted nodes.
 *
 * A view is a range of a tree. Sharing a range costs two edge paths, whatever its size. Inner nodes
 * gain a reference. Nodes at the edges are copied without the pages outside the range, so a
 * snapshot keeps exactly the pages in its range. A write first makes private copies of the shared
 * nodes on the path to its page.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_PAGE_TREE_H
#define MN_STORE_PAGE_TREE_H

#include "mn/store/store.h"

/* Returns the height of a tree that covers bytes [0, end). */
uint32_t lend_tree_height(const struct lend_store *s, uint64_t end);
/* Returns the 64 frames of the leaf node that covers a page; in a tree of height 0 there is only
 * that one frame. NULL: *hole pages from this one on have no frames. */
const uint32_t *lend_tree_leaf(const struct lend_store *s, const struct lend_view *view,
			       uint64_t page, uint64_t *hole);
/* Makes *out share bytes [offset, offset + len) of view, which must contain them. False: no nodes
 * left. */
bool lend_tree_share_range(struct lend_store *s, const struct lend_view *view, uint64_t offset,
			   uint64_t len, struct lend_view *out);
/* Drops all of a view's pages. Frees as many at once as this operation's budget allows, and leaves
 * the rest to later steps. */
void lend_tree_drop(struct lend_store *s, struct lend_view *view);
/* Continues to free dropped pages, within the rest of this operation's budget. */
void lend_tree_free_dropped(struct lend_store *s);
/* Returns whether this many nodes and frames can be taken. First frees dropped nodes, as many as
 * that needs. */
bool lend_tree_room(struct lend_store *s, uint64_t nodes, uint64_t frames);
/* Returns the exact number of frames and nodes that a write to pages [first, last] takes. */
struct lend_tree_cost {
	uint64_t frames, nodes;
	uint64_t zeros; /* the part of frames for pages that had none before */
};
struct lend_tree_cost lend_tree_cost(const struct lend_store *s, const struct lend_view *view,
				     uint64_t first, uint64_t last);
/* Returns the entry for a page's frame, in a node (or in view) that only this tree references;
 * copies shared nodes on the path. The nodes counted by lend_tree_cost() must be available. */
uint32_t *lend_tree_own(struct lend_store *s, struct lend_view *view, uint64_t page);

/* Node 0 is never written: its entries are 0 and so refer to itself. A lookup therefore needs no
 * test for zero per level. */
static inline uint32_t lend_node_child(const uint32_t *child, uint32_t id, uint64_t at)
{
	return child[(uint64_t)id << LEND_FAN_BITS | (at & (LEND_FAN - 1))];
}

/* Returns the frame of a page; 0: zeros. */
static inline uint32_t lend_tree_frame(const struct lend_store *s, const struct lend_view *view,
				       uint64_t page)
{
	const uint32_t *child =
	    (const uint32_t *)(const void *)lend_node_at(s, 0); /* child tables of all nodes */
	uint32_t id = view->root;

	_Static_assert(LEND_HEIGHT_MAX == 5, "a level each");
	if (view->height == 0)
		return id;
	if (view->height > 2) {
		if (view->height > 4)
			id = lend_node_child(child, id, page >> 4 * LEND_FAN_BITS);
		if (view->height > 3)
			id = lend_node_child(child, id, page >> 3 * LEND_FAN_BITS);
		id = lend_node_child(child, id, page >> 2 * LEND_FAN_BITS);
	}
	if (view->height > 1)
		id = lend_node_child(child, id, page >> LEND_FAN_BITS);
	return lend_node_child(child, id, page);
}

#endif
