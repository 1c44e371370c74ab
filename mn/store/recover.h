/* recover - a store goes on in the memory that an earlier start left, at whatever store that was
 * killed.
 *
 * Layer: mn/store (pure). */
#ifndef MN_STORE_RECOVER_H
#define MN_STORE_RECOVER_H

#include "mn/store/exec.h"

/* Why the len bytes at mem cannot go on as a store of this config, in words for its operator; NULL:
 * they can. Reads sizes only. */
const char *lend_store_mismatch(const void *mem, size_t len,
				const struct lend_store_config *config);
/* Takes over an arena that matches, and its pages: epoch, node, key, references, holds, lives and
 * records go on. An operation that was under way has not run, but for bytes of its range that a
 * write may have changed. Replies and placements under way are gone; every lease is whole again.
 * lease, late, revive, reap and addresses are config's. NULL, or what is damaged: then the memory
 * is of no use. Time grows with the pages in use. */
const char *lend_store_recover(struct lend_store *store, const struct lend_store_config *config,
			       void *pages, lend_ns now);

#endif
