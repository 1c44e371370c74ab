/* tx_zerocopy - pieces of messages that a driver reads in place.
 *
 * Two sorts of drivers get pieces in place: those that have read all when their burst returns, and
 * those with a device that reads later, by DMA. For DMA, memory is mapped under its own addresses
 * (IOVA is VA). Where that is impossible, and for memory that was not registered, pieces are
 * copied.
 *
 * A piece is lent from its burst until the driver frees the frame. Drivers free frames late, some
 * only when their ring wraps, so a query has the driver free them. Each buffer has a reference
 * count, shared with the buffers of the same number modulo DPDK_ZEROCOPY_MAX, so that most other
 * traffic does not delay it.
 *
 * Layer: io. Threads: the carrier's; mappings belong to all carriers, under dpdk_world.
 */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_eal.h>

#include "sys/last_error.h"

enum {
	PAGE = 4096,
	HUGE = 2 << 20,
	DEVICES = 8, /* maximum devices per mapping */
	CLOSE_TRIES = 200,
	CLOSE_US = 100, /* pause between two tries */
};

struct dpdk_loans {
	struct dpdk_loans *next; /* list of those still in use when their carrier closed */
	struct rte_mbuf_ext_shared_info count[DPDK_ZEROCOPY_MAX]; /* pieces lent, plus 1 */
};

/* Memory mapped for devices, as long as a carrier uses it. */
struct dpdk_region {
	struct dpdk_region *next;
	uint8_t *base;
	size_t len;
	uint32_t holders;
	struct rte_device *device[DEVICES]; /* first ones; then NULL */
};

static struct dpdk_region *regions; /* regions and their number change under dpdk_world */
static struct dpdk_loans *kept;

enum dpdk_reads dpdk_zerocopy_how(const struct rte_eth_dev_info *info)
{
	static const char *const at_once[] = {"net_af_packet", "net_tap"};

	if (!(info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS))
		return DPDK_COPIED;
	for (size_t i = 0; i < RTE_DIM(at_once); i++) {
		if (strcmp(info->driver_name, at_once[i]) == 0)
			return DPDK_AT_ONCE;
	}
	if (strcmp(rte_bus_name(rte_dev_bus(info->device)), "vdev") == 0)
		return DPDK_COPIED; /* unknown whether it can read memory that is not EAL's */
	return rte_eal_iova_mode() == RTE_IOVA_VA ? DPDK_BY_DMA : DPDK_COPIED;
}

/* Is never called: the carrier's own reference is the last one. */
static void never_last(void *piece, void *arg)
{
	(void)piece;
	(void)arg;
}

int dpdk_zerocopy_open(struct dpdk *io)
{
	io->loans = calloc(1, sizeof(*io->loans));
	if (io->loans == NULL)
		return lend_fail(ENOMEM, "no memory for a dpdk carrier");
	for (uint32_t i = 0; i < DPDK_ZEROCOPY_MAX; i++) {
		io->loans->count[i].free_cb = never_last;
		rte_mbuf_ext_refcnt_set(&io->loans->count[i], 1);
	}
	return 0;
}

/* Has the driver free the frames that its device has sent. */
static void reclaim_sent(const struct dpdk *io)
{
	const struct dpdk_port *port = io->port[0];
	struct rte_mbuf *none[1] = {NULL};
	struct dpdk_shared_port *share;

	if (port == NULL || port->reads != DPDK_BY_DMA)
		return;
	share = port->share;
	rte_spinlock_lock(&share->tx[port->owner->queue].spin);
	if (rte_eth_tx_done_cleanup(share->id, port->owner->queue, 0) == -ENOTSUP)
		(void)rte_eth_tx_burst(share->id, port->owner->queue, none, 0);
	rte_spinlock_unlock(&share->tx[port->owner->queue].spin);
}

static bool is_quiet(const struct dpdk *io, uint32_t i)
{
	return rte_mbuf_ext_refcnt_read(&io->loans->count[i]) == 1;
}

bool dpdk_zerocopy_idle(struct dpdk *io, uint32_t buf)
{
	if (is_quiet(io, buf % DPDK_ZEROCOPY_MAX))
		return true;
	reclaim_sent(io);
	return is_quiet(io, buf % DPDK_ZEROCOPY_MAX);
}

static bool all_quiet(const struct dpdk *io)
{
	for (uint32_t i = 0; i < DPDK_ZEROCOPY_MAX; i++) {
		if (!is_quiet(io, i))
			return false;
	}
	return true;
}

static void unmap_region(struct dpdk_region *r)
{
	struct dpdk_region **at = &regions;

	for (uint32_t i = 0; i < DEVICES && r->device[i] != NULL; i++)
		(void)rte_dev_dma_unmap(r->device[i], r->base, (uintptr_t)r->base, r->len);
	(void)rte_extmem_unregister(r->base, r->len);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	free(r);
}

void dpdk_zerocopy_close(struct dpdk *io)
{
	if (io->loans == NULL)
		return;
	for (int tries = 0; tries < CLOSE_TRIES && !all_quiet(io); tries++) {
		reclaim_sent(io);
		rte_delay_us_sleep(CLOSE_US);
	}
	if (!all_quiet(io)) {
		io->loans->next = kept;
		kept = io->loans;
		return;
	}
	while (io->regions > 0) {
		struct dpdk_region *r = io->region[--io->regions];

		if (--r->holders == 0)
			unmap_region(r);
	}
	free(io->loans);
}

/* Registers memory with EAL. Returns the region, with no holder yet, or NULL. */
static struct dpdk_region *new_region(uint8_t *base, size_t len)
{
	size_t page = (((uintptr_t)base | len) & (HUGE - 1)) == 0 ? HUGE : PAGE;
	struct dpdk_region *r = calloc(1, sizeof(*r));

	if (r == NULL || rte_extmem_register(base, len, NULL, 0, page) != 0) {
		free(r);
		return NULL;
	}
	r->base = base;
	r->len = len;
	r->next = regions;
	regions = r;
	return r;
}

/* Maps the region for that device, if it is not yet. True when it is mapped. */
static bool is_mapped(struct dpdk_region *r, struct rte_device *device)
{
	uint32_t i = 0;

	while (i < DEVICES && r->device[i] != NULL && r->device[i] != device)
		i++;
	if (i == DEVICES)
		return false;
	if (r->device[i] == NULL &&
	    rte_dev_dma_map(device, r->base, (uintptr_t)r->base, r->len) != 0)
		return false;
	r->device[i] = device;
	return true;
}

void dpdk_zerocopy_map(struct dpdk *io, void *memory, size_t len)
{
	const struct dpdk_port *port = io->port[0];
	uint8_t *base = RTE_PTR_ALIGN_FLOOR(memory, PAGE);
	struct dpdk_region *r;

	if (port == NULL || port->reads != DPDK_BY_DMA || io->regions == DPDK_REGIONS)
		return;
	len = RTE_ALIGN_CEIL(len + (size_t)((uint8_t *)memory - base), PAGE);
	pthread_mutex_lock(&dpdk_world);
	for (r = regions; r != NULL && (r->base != base || r->len != len);)
		r = r->next;
	if (r == NULL)
		r = new_region(base, len);
	if (r != NULL && is_mapped(r, port->share->device_of)) {
		r->holders++;
		io->region[io->regions++] = r;
	} else if (r != NULL && r->holders == 0) {
		unmap_region(r);
	}
	pthread_mutex_unlock(&dpdk_world);
}

/* Returns whether the device has all of data mapped. A carrier has few regions; the newest is used
 * most. */
static bool is_held(const struct dpdk *io, const uint8_t *data, uint32_t len)
{
	for (uint32_t i = io->regions; i-- > 0;) {
		const struct dpdk_region *r = io->region[i];

		if (data >= r->base && data + len <= r->base + r->len)
			return true;
	}
	return false;
}

/* Makes a buffer of the driver that refers to len bytes at data. */
static struct rte_mbuf *wrap_memory(struct dpdk *io, struct rte_mbuf_ext_shared_info *count,
				    uint8_t *data, uint32_t len, bool dma)
{
	struct rte_mbuf *buf = rte_pktmbuf_alloc(io->pool);

	if (buf == NULL)
		return NULL;
	rte_mbuf_ext_refcnt_update(count, 1);
	rte_pktmbuf_attach_extbuf(buf, data, dma ? (uintptr_t)data : RTE_BAD_IOVA, (uint16_t)len,
				  count);
	buf->data_len = (uint16_t)len;
	return buf;
}

struct rte_mbuf *dpdk_zerocopy_lend(struct dpdk *io, const struct dpdk_port *port,
				    const struct lend_piece *piece, uint8_t *data)
{
	struct rte_mbuf_ext_shared_info *count = &io->loans->count[piece->buf % DPDK_ZEROCOPY_MAX];
	struct rte_mbuf *first = NULL, **end = &first;
	bool dma = port->reads == DPDK_BY_DMA;
	uint16_t parts = 0;

	if (dma && !is_held(io, data, piece->len))
		return NULL;
	for (uint32_t at = 0, len; at < piece->len; at += len) {
		len = piece->len - at;
		if (dma)
			len = RTE_MIN(len, PAGE - (uint32_t)((uintptr_t)(data + at) % PAGE));
		*end = wrap_memory(io, count, data + at, len, dma);
		if (*end == NULL) {
			rte_pktmbuf_free(first);
			return NULL;
		}
		end = &(*end)->next;
		parts++;
	}
	first->nb_segs = parts;
	return first;
}
