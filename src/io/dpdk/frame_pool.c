/* frame_pool - pools of frames: one per queue of a network device, in memory of the device's NUMA
 * node; one for the rings and memifs of the process.
 *
 * Endpoints with queues of their own then share no free list. If memory is short, queues share the
 * pool of the queue before. A pool is never freed: a device keeps its queues, and other threads may
 * still hold frames.
 *
 * Layer: io. Threads: any, with dpdk_world held.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/last_error.h"

enum {
	QUEUE_BUFS = 4095, /* both rings of a queue, lent frames, caches, and an owner's ring */
	POOL_CACHE = 256,
	SHORT_FRAME = 2048, /* room for an MTU of 1500 */
	PAGE = 4096,        /* size of a buffer with its headers and headroom */
	PAGE_ROOM = PAGE - sizeof(struct rte_mbuf) -
		    RTE_ALIGN(sizeof(struct rte_mempool_objhdr), RTE_MEMPOOL_ALIGN),
};

/* Returns whether the driver needs buffers of a page: net_af_xdp passes them to the kernel page by
 * page. */
static bool wants_pages(const struct rte_eth_dev_info *info)
{
	return strcmp(info->driver_name, "net_af_xdp") == 0;
}

uint32_t dpdk_pool_room(const struct rte_eth_dev_info *info)
{
	return wants_pages(info) ? PAGE_ROOM - RTE_PKTMBUF_HEADROOM : DPDK_FRAME_MAX;
}

static const char *new_name(char name[16])
{
	static unsigned number;

	(void)snprintf(name, 16, "lend-pool%u", number++);
	return name;
}

static struct rte_mempool *no_memory(uint32_t bufs)
{
	(void)lend_fail(ENOMEM, "no memory for %u DPDK buffers: give EAL more with -m", bufs);
	return NULL;
}

struct rte_mempool *dpdk_pool_make(uint32_t bufs, uint32_t frame, int socket)
{
	char name[16];
	struct rte_mempool *pool = rte_pktmbuf_pool_create(
	    new_name(name), bufs, POOL_CACHE, 0, (uint16_t)(RTE_PKTMBUF_HEADROOM + frame), socket);

	return pool != NULL ? pool : no_memory(bufs);
}

/* Makes a pool of page-sized buffers without gaps. net_af_xdp registers a memory area of their
 * number times their size with the kernel, which drops frames in buffers behind its end.
 * rte_pktmbuf_pool_create() always spreads buffers over memory channels. */
static struct rte_mempool *make_pages(int socket)
{
	struct rte_pktmbuf_pool_private priv = {.mbuf_data_room_size = PAGE_ROOM};
	char name[16];
	struct rte_mempool *pool = rte_mempool_create_empty(
	    new_name(name), QUEUE_BUFS, sizeof(struct rte_mbuf) + PAGE_ROOM, POOL_CACHE,
	    sizeof(priv), socket, RTE_MEMPOOL_F_NO_SPREAD);

	if (pool == NULL)
		return no_memory(QUEUE_BUFS);
	rte_pktmbuf_pool_init(pool, &priv);
	if (rte_mempool_populate_default(pool) != QUEUE_BUFS) {
		rte_mempool_free(pool);
		return no_memory(QUEUE_BUFS);
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

static struct rte_mempool *make_one(const struct rte_eth_dev_info *info, uint16_t mtu, int socket)
{
	if (wants_pages(info))
		return make_pages(socket);
	return dpdk_pool_make(
	    QUEUE_BUFS, mtu + LEND_ETH_AROUND_IP <= SHORT_FRAME ? SHORT_FRAME : DPDK_FRAME_MAX,
	    socket);
}

/* Has the queues from q on use the pool of an earlier queue. Frees the last pool that was made, so
 * that rings and descriptors have memory, too. */
static void share_pool(struct dpdk_shared_port *share, uint16_t q)
{
	if (q > 1)
		rte_mempool_free(share->pool[--q]);
	for (; q < share->queues; q++)
		share->pool[q] = share->pool[q - 1];
}

int dpdk_pool_queues(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info)
{
	share->socket = rte_eth_dev_socket_id(share->id);
	for (uint16_t q = 0; q < share->queues; q++) {
		share->pool[q] = make_one(info, share->mtu, share->socket);
		if (share->pool[q] == NULL && q == 0 && share->socket != SOCKET_ID_ANY) {
			share->socket = SOCKET_ID_ANY; /* EAL has no memory on that node */
			share->pool[q] = make_one(info, share->mtu, share->socket);
		}
		if (share->pool[q] == NULL && q == 0)
			return -ENOMEM;
		if (share->pool[q] == NULL) {
			share_pool(share, q);
			return 0;
		}
	}
	return 0;
}
