/* pool_get - a get from a pool: POOL_MAP pins the frames, the bytes are copied from the pool's
 * mapping, and FORGET of that POOL_MAP unpins them. No space and no memory is kept.
 *
 * The node sends the bytes instead (a fallback, counted) if it keeps checksums, if the reference
 * does not permit mapping or was sliced twice, if more than 64 runs of frames have the bytes, if
 * half of the operation ids are in use, or if the node refuses POOL_MAP, as for a quota.
 *
 * A get with a view shows the frames instead: an argument at a pool is not copied.
 *
 *   GET -> MAP -> POOL_VIEWs -> view -> lend_arg_unmap(): FREE in the background
 *            \-> refused, or too many runs: GET, which copies (counted)
 *
 * A space without a handle keeps the frames. One run of frames is shown where the pool is mapped to
 * read: no system call, and no new page fault. Several runs are mapped side by side.
 * Layer: cn. Threads: the endpoint's; the counters: any. */
#ifndef LEND_CN_POOL_POOL_GET_H
#define LEND_CN_POOL_POOL_GET_H

#include "cn/client.h"

/* Turns the GET of op->part bytes at op->at into a POOL_MAP, and sets op->pool. Leaves it a GET if
 * the bytes are few, the node is no pool, or a fallback is needed. */
void cn_pool_get_say(struct cn_op *op, struct lend_memop *say);
/* After the reply to that POOL_MAP: copies the bytes and unpins the frames. Returns true if another
 * call follows: any failure that a GET may not have leads to one. */
bool cn_pool_get_after(struct cn_op *op, enum lend_status status, const uint8_t *body, size_t len);
/* Before a call of a GET with a view: makes it a MAP if its node is a pool, or takes memory for the
 * bytes. Returns CN_GO, or the status to end with. */
int cn_pool_view_before(struct cn_op *op);
/* After the last call of that MAP: sets the view. Returns true if a GET follows. */
bool cn_pool_view_after(struct cn_op *op, enum lend_status *status);
/* Adds the counters of gets. */
void cn_pool_get_stat(struct lend_mem_cache_stat *stat);

#endif
