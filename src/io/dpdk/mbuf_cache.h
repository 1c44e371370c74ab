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

#include <string.h>

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

/* Returns whether a buffer is one segment with memory of its own and no other user. */
static inline bool dpdk_mbuf_is_plain(const struct rte_mbuf *buf)
{
	static const uint16_t one[2] = {1, 1}; /* refcnt, nb_segs */

	_Static_assert(offsetof(struct rte_mbuf, nb_segs) ==
			   offsetof(struct rte_mbuf, refcnt) + sizeof(uint16_t),
		       "one comparison");
	return memcmp(&buf->refcnt, one, sizeof(one)) == 0 && RTE_MBUF_DIRECT(buf);
}

/* Gives buffers back to the cache, up to the first one that must go to its pool. Returns their
 * number. */
static inline uint32_t dpdk_mbuf_cache_keep(struct dpdk *io, struct rte_mbuf **buf, uint32_t n)
{
	uint32_t room = io->kind == DPDK_DEVICE ? 0 : DPDK_MBUF_CACHE - io->mbuf_cache_n, i;

	for (i = 0; i < RTE_MIN(n, room) && dpdk_mbuf_is_plain(buf[i]); i++)
		io->mbuf_cache[io->mbuf_cache_n + i] = buf[i];
	io->mbuf_cache_n += i;
	return i;
}

/* Gives a buffer back, to the cache or to its pool. */
static inline void dpdk_mbuf_cache_give(struct dpdk *io, struct rte_mbuf *buf)
{
	if (!dpdk_mbuf_cache_keep(io, &buf, 1))
		rte_pktmbuf_free(buf);
}

#endif
