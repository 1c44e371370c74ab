/* page_tree - page tables as trees with shared, counted nodes.
 *
 * A view is a part of a tree. Sharing a part costs two edge paths whatever its size: inner nodes
 * are counted, nodes at the edges are copied without the pages outside the range, so a snapshot
 * keeps exactly the pages that it names. Writing makes the path to a page this tree's own first.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_PAGE_TREE_H
#define MN_STORE_PAGE_TREE_H

#include "mn/store/store.h"

/* The height of a tree for bytes [0, end), and the page after the last one of a view. */
uint32_t lend_tree_height(const struct lend_store *s, uint64_t end);
/* The frames of the 64 pages around a page; NULL: zeros. Of a tree of one page that one alone. */
const uint32_t *lend_tree_leaf(const struct lend_store *s, const struct lend_view *view,
			       uint64_t page);
/* Makes *out bytes [offset, offset + len) of view, which must contain them. False: no nodes left.
 */
bool lend_tree_share(struct lend_store *s, const struct lend_view *view, uint64_t offset,
		     uint64_t len, struct lend_view *out);
/* Lets all of a view's pages go: some at once, as many as this operation may still reap, and the
 * rest in later turns. */
void lend_tree_drop(struct lend_store *s, struct lend_view *view);
/* Goes on with that, up to what is left of this operation's share. */
void lend_tree_reap(struct lend_store *s);
/* Whether so many can be taken, once what is let go was gone through as far as it takes. */
bool lend_tree_room(struct lend_store *s, uint64_t nodes, uint64_t frames);
/* What writing pages [first, last] would take: exactly. */
struct lend_tree_cost {
	uint64_t frames, nodes;
	uint64_t zeros; /* of the frames: for pages that were none */
};
struct lend_tree_cost lend_tree_cost(const struct lend_store *s, const struct lend_view *view,
				     uint64_t first, uint64_t last);
/* Where the frame of a page is named in a node (or in view) that is this tree's own. The nodes that
 * cost() told must be there. */
uint32_t *lend_tree_own(struct lend_store *s, struct lend_view *view, uint64_t page);

/* Node 0 is never written and names itself, as zeros do, so that levels need no test of their own.
 */
static inline uint32_t lend_node_child(const uint32_t *child, uint32_t id, uint64_t at)
{
	return child[(uint64_t)id << LEND_FAN_BITS | (at & (LEND_FAN - 1))];
}

/* The frame under a page; 0: zeros. */
static inline uint32_t lend_tree_frame(const struct lend_store *s, const struct lend_view *view,
				       uint64_t page)
{
	const uint32_t *child = (const uint32_t *)(const void *)lend_node_at(s, 0); /* of all */
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
