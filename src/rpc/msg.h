/* msg - a message between its user (lend_buf, linked) and the core (a handle, linked in the table),
 * and the public functions of buffers.
 * Layer: rpc. Threads: the pool's. Ownership: lend() takes the chain on success, back() returns the
 * same one. */
#ifndef LEND_RPC_MSG_H
#define LEND_RPC_MSG_H

#include <string.h>

#include "alloc/region.h"
#include "rpc/bufs.h"
#include "sys/shared_arena.h"
#include "util/bits.h"
#include "util/check.h"

/* Bytes of a chain. */
uint64_t lend_msg_len(const struct lend_buf *chain);
uint64_t lend_msg_cap(const struct lend_buf *chain);
/* True when every fragment of at most payload bytes, wherever it starts, lies in four segments at
 * most. */
bool lend_msg_fits_chain(const struct lend_buf *chain, uint32_t payload);
static inline bool lend_msg_fits(const struct lend_buf *chain, uint32_t payload)
{
	return !chain || !chain->next || lend_msg_fits_chain(chain, payload);
}
/* One new segment with the chain's bytes; NULL: pool exhausted, or over 1 GiB. */
struct lend_buf *lend_msg_flat(struct lend_pool_of_bufs *pool, const struct lend_buf *chain);
/* Spreads len bytes that landed over the segments' lengths. */
void lend_msg_landed(struct lend_buf *chain, uint64_t len);

/* These three for chains, and segments of other pools; below for all. */
void lend_msg_fill_chain(struct lend_buf *chain, const void *data, uint64_t len);
uint32_t lend_msg_lend_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain, bool landing,
			     int *err);
struct lend_buf *lend_msg_back_chain(struct lend_pool_of_bufs *pool, uint32_t handle);

/* Copies the first len bytes of data into the chain's capacity and sets every len. */
static inline void lend_msg_fill(struct lend_buf *chain, const void *data, uint64_t len)
{
	if (!len || chain->next || chain->cap < len) {
		lend_msg_fill_chain(chain, data, len);
		return;
	}
	lend_copy_short(chain->data, data, (uint32_t)len);
	chain->len = (uint32_t)len;
}

/* Before anything is sent: carriers hear of the heap's regions that they do not know. Whatever
 * memory is in a message, by this pool or another, a wrap or a worker's, its region is older. */
static inline void lend_msg_see_regions(struct lend_pool_of_bufs *pool)
{
	uint64_t regions = atomic_load_explicit(&lend_regions_count, memory_order_acquire);

	if (!pool->grown || pool->regions == regions)
		return;
	pool->regions = regions;
	pool->grown(pool->grown_arg);
}

/* One segment with len bytes of data; there must be one: lend_bufs_has(). */
static inline struct lend_buf *lend_msg_copy(struct lend_pool_of_bufs *pool, const void *data,
					     uint32_t len)
{
	struct lend_buf *buf = lend_bufs_take(pool, len);

	lend_copy_short(buf->data, data, len);
	buf->len = len;
	return buf;
}

enum { LEND_MSG_SHORT = 1024 }; /* no carrier makes more than a datagram of it */

/* What the core knows of a segment; alone until it is linked. Field by field: whoever lends a
 * buffer has just written its length, and a load of more than that would wait for it to reach the
 * cache. */
static inline void lend_msg_seg(struct lend_seg *seg, const struct lend_buf *buf, bool landing)
{
	uint32_t len = buf->len;
	uint64_t at;

	seg->data = buf->data;
	seg->len = landing ? 0 : len;
	seg->cap = buf->cap;
	seg->next = 0;
	seg->shared = 0;
	if (len > LEND_MSG_SHORT && !landing)
		seg->shared = lend_arena_find(buf->data, len, &at);
}

/* A chain's handle for the core, or 0 with -EINVAL (a segment is in use) or -ENOMEM in *err.
 * landing: the core writes into it, else it reads. */
static inline uint32_t lend_msg_lend(struct lend_pool_of_bufs *pool, struct lend_buf *chain,
				     bool landing, int *err)
{
	struct lend_mbuf *buf = lend_mbuf(chain);

	if (chain->next || buf->pool != pool || buf->state != LEND_MBUF_USER)
		return lend_msg_lend_chain(pool, chain, landing, err);
	buf->state = LEND_MBUF_CORE;
	lend_msg_seg(&pool->table.seg[buf->handle], chain, landing);
	return buf->handle;
}

/* One segment of this pool that the core has, which most messages are; NULL: it is something else.
 */
static inline struct lend_mbuf *lend_msg_one(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = &pool->own[handle];

	return buf->state == LEND_MBUF_CORE && !pool->table.seg[handle].next ? buf : NULL;
}

/* The chain again, its user's; NULL for 0. */
static inline struct lend_buf *lend_msg_back(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = lend_msg_one(pool, handle);

	if (!buf)
		return lend_msg_back_chain(pool, handle);
	buf->state = LEND_MBUF_USER;
	buf->pub.next = NULL;
	return &buf->pub;
}

/* The chain to its pools; 0 is nothing. */
static inline void lend_msg_drop(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = lend_msg_one(pool, handle);

	if (buf)
		lend_bufs_free(pool, buf);
	else
		lend_bufs_give(pool, lend_msg_back_chain(pool, handle));
}

#endif
