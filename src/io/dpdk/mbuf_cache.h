/* mbuf_cache - a carrier's cache of mbufs: buffers of received frames are reused for sending.
 *
 * A link delivers plain buffers of the pool that it sends from. A call and its reply then need no
 * access to the pool, and they write to cache lines that were just read. Buffers above the cache's
 * limit go back to the pool.
 *
 * Layer: io. Threads: the carrier's.
 */
#ifndef LEND_IO_DPDK_MBUF_CACHE_H
#define LEND_IO_DPDK_MBUF_CACHE_H

#include "io/dpdk/dpdk.h"

/* Refills the empty cache from the pool. False: the pool is empty. */
bool dpdk_mbuf_cache_fill(struct dpdk *io);
/* Returns all buffers to the pool. */
void dpdk_mbuf_cache_drop(struct dpdk *io);

/* Takes an empty buffer: one segment, with no flags. Its lengths are not set. NULL: none is left.
 */
static inline struct rte_mbuf *dpdk_mbuf_cache_take(struct dpdk *io)
{
	struct rte_mbuf *buf;

	if (io->mbuf_cache_n == 0 && !dpdk_mbuf_cache_fill(io))
		return NULL;
	buf = io->mbuf_cache[--io->mbuf_cache_n];
	buf->data_off = RTE_PKTMBUF_HEADROOM;
	buf->ol_flags = 0;
	return buf;
}

/* Gives a buffer back, to the cache or to its pool. */
static inline void dpdk_mbuf_cache_give(struct dpdk *io, struct rte_mbuf *buf)
{
	if (io->kind != DPDK_DEVICE && io->mbuf_cache_n < DPDK_MBUF_CACHE && buf->nb_segs == 1 &&
	    RTE_MBUF_DIRECT(buf) && rte_mbuf_refcnt_read(buf) == 1)
		io->mbuf_cache[io->mbuf_cache_n++] = buf;
	else
		rte_pktmbuf_free(buf);
}

#endif
