/* msg - a message between its user (lend_buf, linked) and the core (a handle, linked in the table),
 * and the public functions of buffers.
 * Layer: rpc. Threads: the pool's. Ownership: lend() takes the chain on success, back() returns the
 * same one. */
#ifndef LEND_RPC_MSG_H
#define LEND_RPC_MSG_H

#include "rpc/bufs.h"

/* Bytes of a chain. */
uint64_t lend_msg_len(const struct lend_buf *chain);
uint64_t lend_msg_cap(const struct lend_buf *chain);
/* True when every fragment of at most payload bytes, wherever it starts, lies in four segments at
 * most. */
bool lend_msg_fits(const struct lend_buf *chain, uint32_t payload);
/* One new segment with the chain's bytes; NULL: pool exhausted, or over 1 GiB. */
struct lend_buf *lend_msg_flat(struct lend_pool_of_bufs *pool, const struct lend_buf *chain);
/* Copies the first len bytes of data into the chain's capacity and sets every len. */
void lend_msg_fill(struct lend_buf *chain, const void *data, uint64_t len);

/* A chain's handle for the core, or 0 with -EINVAL (a segment is in use) or -ENOMEM in *err.
 * landing: the core writes into it, else it reads. */
uint32_t lend_msg_lend(struct lend_pool_of_bufs *pool, struct lend_buf *chain, bool landing,
		       int *err);
/* The chain again, its user's. */
struct lend_buf *lend_msg_back(struct lend_pool_of_bufs *pool, uint32_t handle);
/* Spreads len bytes that landed over the segments' lengths. */
void lend_msg_landed(struct lend_buf *chain, uint64_t len);

#endif
