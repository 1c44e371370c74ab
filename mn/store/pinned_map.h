/* pinned_map - what processes on this host have mapped of the pages' memory.
 *
 * A mapper is one of the pool's sockets, by the secret that it was given there. Before such a
 * client maps pages, the store shares the space's tree into a lien: a frame that a lien names is
 * neither written to nor given to anybody else, whatever becomes of the space, of the client's
 * lease or of its sessions. Only the client's word that it has unmapped them (FREE, POOL_DROP) or
 * the end of its socket ends a lien.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_PINNED_MAP_H
#define MN_STORE_PINNED_MAP_H

#include "mn/store/data_exec.h"

/* The space ends: its lien goes with it when the client has unmapped it, else it stays. */
void lend_lien_part(struct lend_store *s, uint32_t space, bool unmapped);

enum lend_mem_status lend_op_pool_map(struct lend_step *t);
enum lend_mem_status lend_op_pool_view(struct lend_step *t);
enum lend_mem_status lend_op_pool_drop(struct lend_step *t);
/* A view at at: the frames of a space's lien, max pages from a page on. How many bytes. */
uint32_t lend_lien_show(const struct lend_store *s, uint32_t space, uint64_t page, uint32_t max,
			uint8_t *at);

#endif
