/* placement - frames that a long message is received into before it runs.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_PLACEMENT_H
#define MN_STORE_PLACEMENT_H

#include "mn/store/store.h"

/* Ends a placement. Returns its chain of frames if they are what this operation needs; else frees
 * them and returns 0. *landed: the serial of the unwritten snapshot that has all bytes now, or 0.
 */
uint32_t lend_placement_take(struct lend_store *s, uint32_t placement, const struct lend_memop *op,
			     enum lend_mem_status status, uint64_t *landed);
/* Frees a chain. */
void lend_placement_drop(struct lend_store *s, uint32_t first);

#endif
