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

/* Sum of the segments' len, and of their cap. */
uint64_t lend_msg_len(const struct lend_buf *chain);
uint64_t lend_msg_cap(const struct lend_buf *chain);
/* Returns whether every fragment of at most payload bytes, wherever it starts, spans at most four
 * segments. */
bool lend_msg_fits_chain(const struct lend_buf *chain, uint32_t payload);
static inline bool lend_msg_fits(const struct lend_buf *chain, uint32_t payload)
{
	return !chain || !chain->next || lend_msg_fits_chain(chain, payload);
}
/* Copies the chain into one new segment; NULL: pool exhausted, or over 1 GiB. */
struct lend_buf *lend_msg_flat(struct lend_pool_of_bufs *pool, const struct lend_buf *chain);
/* Sets the segments' lengths after len bytes landed in the chain. */
void lend_msg_landed(struct lend_buf *chain, uint64_t len);

/* Slow paths of the three inline functions below: chains, and segments of other pools. */
void lend_msg_fill_chain(struct lend_buf *chain, const void *data, uint64_t len);
uint32_t lend_msg_lend_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain, bool landing,
			     int *err);
struct lend_buf *lend_msg_back_chain(struct lend_pool_of_bufs *pool, uint32_t handle);

/* Copies a message of n parts into the chain, which has room for it, and sets every len. */
void lend_msg_fill_parts(struct lend_buf *chain, const struct lend_part *part, uint32_t n);

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

/* Registers new regions of the heap with the carriers, before anything is sent. Any memory in a
 * message, of this pool or another, a wrap or a worker's, is in a region that is older than this
 * check. */
static inline void lend_msg_register_regions(struct lend_pool_of_bufs *pool)
{
	uint64_t regions;

	if (!pool->grown)
		return;
	regions = atomic_load_explicit(&lend_regions_count, memory_order_acquire);
	if (pool->regions == regions)
		return;
	pool->regions = regions;
	pool->grown(pool->grown_arg);
}

/* Copies len bytes of data into one segment; there must be a free one: lend_bufs_has(). */
static inline struct lend_buf *lend_msg_copy(struct lend_pool_of_bufs *pool, const void *data,
					     uint32_t len)
{
	struct lend_buf *buf = lend_bufs_take(pool, len);

	lend_copy_short(buf->data, data, len);
	buf->len = len;
	return buf;
}

enum { LEND_MSG_SHORT = 1024 }; /* bytes of a message that every carrier sends as one datagram */

/* Fills in the core's entry of a segment, not linked to another. It reads field by field: the user
 * has just written len, and a wider load would stall until that store reaches the cache. */
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

/* Returns whether a chain is one segment of this pool that its user owns. */
static inline bool lend_msg_is_own(const struct lend_pool_of_bufs *pool, struct lend_buf *chain)
{
	const struct lend_mbuf *buf = lend_mbuf(chain);

	return !chain->next && buf->pool == pool && buf->state == LEND_MBUF_USER;
}

/* Lends such a segment to the core. Returns its handle. */
static inline uint32_t lend_msg_lend_own(struct lend_pool_of_bufs *pool, struct lend_buf *own,
					 bool landing)
{
	struct lend_mbuf *buf = lend_mbuf(own);

	buf->state = LEND_MBUF_CORE;
	lend_msg_seg(&pool->table.seg[buf->handle], own, landing);
	return buf->handle;
}

/* Lends a chain to the core. Returns its handle, or 0 with -EINVAL (a segment is in use) or -ENOMEM
 * in *err. landing: the core writes into it, otherwise it reads. */
static inline uint32_t lend_msg_lend(struct lend_pool_of_bufs *pool, struct lend_buf *chain,
				     bool landing, int *err)
{
	return lend_msg_is_own(pool, chain) ? lend_msg_lend_own(pool, chain, landing)
					    : lend_msg_lend_chain(pool, chain, landing, err);
}

/* Returns the segment of a lent message that is one segment of this pool, as most are; NULL: it is
 * not. */
static inline struct lend_mbuf *lend_msg_single(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = &pool->own[handle];

	return buf->state == LEND_MBUF_CORE && !pool->table.seg[handle].next ? buf : NULL;
}

/* Takes a chain back from the core for its user; NULL for 0. */
static inline struct lend_buf *lend_msg_back(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = lend_msg_single(pool, handle);

	if (!buf)
		return lend_msg_back_chain(pool, handle);
	buf->state = LEND_MBUF_USER;
	buf->pub.next = NULL;
	return &buf->pub;
}

/* Takes a chain back from the core and returns it to its pools; 0 does nothing. */
static inline void lend_msg_drop(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = lend_msg_single(pool, handle);

	if (buf)
		lend_bufs_free(pool, buf);
	else
		lend_bufs_give(pool, lend_msg_back_chain(pool, handle));
}

#endif
