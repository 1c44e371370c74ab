/* tree - page tables as trees with shared, counted nodes.
 *
 * A view is a part of a tree. Sharing a part costs two edge paths whatever its size: inner nodes
 * are counted, nodes at the edges are copied without the pages outside the range, so a snapshot
 * keeps exactly the pages that it names. Writing makes the path to a page this tree's own first.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_TREE_H
#define MN_STORE_TREE_H

#include "mn/store/store.h"

/* The height of a tree for bytes [0, end), and the page after the last one of a view. */
uint32_t lend_tree_height(uint64_t end);
/* The frame under a page; 0: zeros. */
uint32_t lend_tree_frame(const struct lend_store *s, const struct lend_view *view, uint64_t page);
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
};
struct lend_tree_cost lend_tree_cost(const struct lend_store *s, const struct lend_view *view,
				     uint64_t first, uint64_t last);
/* Where the frame of a page is named in a node (or in view) that is this tree's own. The nodes that
 * cost() told must be there. */
uint32_t *lend_tree_own(struct lend_store *s, struct lend_view *view, uint64_t page);

#endif
