/* mbuf_cache - a carrier's cache of mbufs: buffers of received frames are reused for sending.
 *
 * A link delivers plain buffers of the pool that it sends from. A call and its reply then need no
 * access to the pool, and they write to cache lines that were just read. Buffers above the cache's
 * limit go back to the pool.
 *
 * Layer: io. Threads: the carrier's.
 */
#ifndef LEND_IO_DPDK_STOCK_H
#define LEND_IO_DPDK_STOCK_H

#include "io/dpdk/dpdk.h"

/* Refills the empty cache from the pool. False: the pool is empty. */
bool dpdk_stock_fill(struct dpdk *io);
/* Returns all buffers to the pool. */
void dpdk_stock_drop(struct dpdk *io);

/* Takes an empty buffer. NULL: none is left. */
static inline struct rte_mbuf *dpdk_stock_take(struct dpdk *io)
{
	struct rte_mbuf *buf;

	if (io->stock_n == 0 && !dpdk_stock_fill(io))
		return NULL;
	buf = io->stock[--io->stock_n];
	rte_pktmbuf_reset(buf);
	return buf;
}

/* Gives a buffer back, to the cache or to its pool. */
static inline void dpdk_stock_give(struct dpdk *io, struct rte_mbuf *buf)
{
	if (io->kind != DPDK_DEVICE && io->stock_n < DPDK_STOCK && buf->nb_segs == 1 &&
	    RTE_MBUF_DIRECT(buf) && rte_mbuf_refcnt_read(buf) == 1)
		io->stock[io->stock_n++] = buf;
	else
		rte_pktmbuf_free(buf);
}

#endif
