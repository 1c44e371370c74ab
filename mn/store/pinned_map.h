/* pinned_map - the pages that processes on this host have mapped.
 *
 * A mapper is a connection to the pool's socket, identified by the secret that it was given there.
 * Before its client maps pages, the store shares the space's tree into a pinned mapping. A frame in
 * a pinned mapping is not written to and not reused, even when the space, the client's lease or its
 * sessions end. A pinned mapping ends only when the client reports that it has unmapped the pages
 * (FREE, POOL_DROP), or when its socket closes.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_PINNED_MAP_H
#define MN_STORE_PINNED_MAP_H

#include "mn/store/data_exec.h"

/* Separates an ending space from its pinned mapping. The pinned mapping ends, too, when the client
 * has unmapped it; else it stays. */
void lend_pinned_map_detach(struct lend_store *s, uint32_t space, bool unmapped);

enum lend_mem_status lend_op_pool_map(struct lend_step *t);
enum lend_mem_status lend_op_pool_view(struct lend_step *t);
enum lend_mem_status lend_op_pool_drop(struct lend_step *t);
/* Encodes at `at` the frames of a space's pinned mapping: max pages from a page on. Returns the
 * bytes written. */
uint32_t lend_pinned_map_encode(const struct lend_store *s, uint32_t space, uint64_t page,
				uint32_t max, uint8_t *at);

#endif
