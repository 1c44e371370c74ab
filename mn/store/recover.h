/* recover - reopens a store in the memory of an earlier process, which may have been killed at any
 * store instruction.
 *
 * Layer: mn/store (pure). */
#ifndef MN_STORE_RECOVER_H
#define MN_STORE_RECOVER_H

#include "mn/store/exec.h"

/* Returns why the len bytes at mem cannot be reopened as a store of this config, as a text for the
 * operator; NULL: they can. Reads sizes only. */
const char *lend_store_mismatch(const void *mem, size_t len,
				const struct lend_store_config *config);
/* Takes over a matching arena and its pages: epoch, node, key, references, holds, lives and records
 * continue. An operation that was interrupted has not run, except that a write may have changed
 * bytes in its range. Replies and placements in flight are dropped; every lease starts over. lease,
 * late, revive, reap and addresses are config's. Returns NULL, or what is damaged: the memory is
 * unusable then. The time grows with the pages in use. */
const char *lend_store_recover(struct lend_store *store, const struct lend_store_config *config,
			       void *pages, lend_ns now);

#endif
