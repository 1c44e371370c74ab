/* mbuf_cache - see mbuf_cache.h. */
#include "io/dpdk/mbuf_cache.h"

bool dpdk_mbuf_cache_fill(struct dpdk *io)
{
	if (rte_mempool_get_bulk(io->pool, (void **)io->mbuf_cache, DPDK_MBUF_CACHE / 2) == 0)
		io->mbuf_cache_n = DPDK_MBUF_CACHE / 2;
	else if (rte_mempool_get(io->pool, (void **)io->mbuf_cache) == 0)
		io->mbuf_cache_n = 1;
	return io->mbuf_cache_n > 0;
}

void dpdk_mbuf_cache_drop(struct dpdk *io)
{
	rte_pktmbuf_free_bulk(io->mbuf_cache, io->mbuf_cache_n);
	io->mbuf_cache_n = 0;
}
