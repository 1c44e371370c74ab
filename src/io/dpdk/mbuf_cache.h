/* mbuf_cache - buffers that a carrier keeps at hand: what came carries what goes next.
 *
 * Over a link, which brings plain buffers of the pool that it sends from, a call and its reply then
 * ask no pool for anything, and the lines that are written were read just now. More than a few go
 * back to the pool.
 *
 * Layer: io. Threads: the carrier's.
 */
#ifndef LEND_IO_DPDK_STOCK_H
#define LEND_IO_DPDK_STOCK_H

#include "io/dpdk/dpdk.h"

/* Gets some from the pool; false: it has none. */
bool dpdk_stock_fill(struct dpdk *io);
/* Gives all back to the pool. */
void dpdk_stock_drop(struct dpdk *io);

/* An empty buffer; NULL: none is left. */
static inline struct rte_mbuf *dpdk_stock_take(struct dpdk *io)
{
	struct rte_mbuf *buf;

	if (io->stock_n == 0 && !dpdk_stock_fill(io))
		return NULL;
	buf = io->stock[--io->stock_n];
	rte_pktmbuf_reset(buf);
	return buf;
}

/* A buffer that is done with. */
static inline void dpdk_stock_give(struct dpdk *io, struct rte_mbuf *buf)
{
	if (io->kind != DPDK_DEVICE && io->stock_n < DPDK_STOCK && buf->nb_segs == 1 &&
	    RTE_MBUF_DIRECT(buf) && rte_mbuf_refcnt_read(buf) == 1)
		io->stock[io->stock_n++] = buf;
	else
		rte_pktmbuf_free(buf);
}

#endif
