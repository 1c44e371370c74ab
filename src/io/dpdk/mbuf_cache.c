/* mbuf_cache - see mbuf_cache.h. */
#include "io/dpdk/mbuf_cache.h"

bool dpdk_stock_fill(struct dpdk *io)
{
	if (rte_mempool_get_bulk(io->pool, (void **)io->stock, DPDK_STOCK / 2) == 0)
		io->stock_n = DPDK_STOCK / 2;
	else if (rte_mempool_get(io->pool, (void **)io->stock) == 0)
		io->stock_n = 1;
	return io->stock_n > 0;
}

void dpdk_stock_drop(struct dpdk *io)
{
	rte_pktmbuf_free_bulk(io->stock, io->stock_n);
	io->stock_n = 0;
}
