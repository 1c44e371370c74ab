/* dpdk/carrier - the carrier over DPDK's devices: its operations, except bursts.
 *
 * Layer: io. Threads: one per carrier.
 */
#include "io/dpdk/bell.h"
#include "io/dpdk/port_burst.h"
#include "io/dpdk/mbuf_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_ring.h>

#include "sys/last_error.h"

static struct dpdk *self(struct lend_io *io)
{
	return (struct dpdk *)io;
}

static bool flush_buf(struct lend_io *base, uint32_t buf)
{
	return dpdk_zerocopy_idle(self(base), buf);
}

static int get_fd(struct lend_io *base)
{
	struct dpdk *io = self(base);

	if (io->kind == DPDK_DEVICE)
		return io->wake_fds;
	return dpdk_bell_wakes(io) ? io->bell_fd : -1;
}

/* Polls the queues if they must be polled after interrupts were armed. False: there was a frame,
 * for this endpoint or for another one. */
static bool find_no_frame(struct dpdk *io)
{
	if (!dpdk_wake_must_look(io))
		return true;
	io->took = false;
	return !dpdk_rx_look(io) && !io->took;
}

static bool prepare_sleep(struct lend_io *base)
{
	struct dpdk *io = self(base);

	if (io->kind == DPDK_DEVICE)
		dpdk_device_tick(io);
	if (io->gone_n > 0 || io->grow || dpdk_rx_waiting(io) > 0 || atomic_load(&io->changed))
		return false;
	for (uint32_t i = 0; i < io->ports_n; i++) {
		const struct dpdk_port *port = io->port[i];

		if (port && (port->closing ||
			     (port->link && !rte_ring_empty(port->link->ring[port->side])) ||
			     (port->owner && !rte_ring_empty(port->owner->ring))))
			return false;
	}
	if (io->kind == DPDK_RING ||
	    (io->kind == DPDK_DEVICE && dpdk_wake_arm(io) && find_no_frame(io)) ||
	    (io->kind == DPDK_MEMIF && dpdk_bell_arm(io) && !dpdk_rx_look(io)))
		return true;
	dpdk_rx_end_sleep(io);
	return false;
}

/* Maps memory for sending in place. Data in memory that cannot be mapped is copied. */
static int register_memory(struct lend_io *base, void *memory, size_t len)
{
	dpdk_zerocopy_map(self(base), memory, len);
	return 0;
}

static int add_peer(struct dpdk *io, uint32_t port, const struct dpdk_address *to,
		    const uint8_t mac[6], uint32_t *peer)
{
	uint32_t i = dpdk_peer_find(io, (uint16_t)port, &to->ip, to->udp);

	if (i == DPDK_NONE)
		i = dpdk_peer_add(io, (uint16_t)port, &to->ip, to->udp, mac);
	if (i == DPDK_NONE)
		return lend_fail(ENOSPC,
				 "all %d peers of this carrier are in use: close some sessions",
				 DPDK_PEERS_MAX);
	if (io->kind == DPDK_DEVICE) {
		memcpy(io->peer[i].head.bytes, mac, 6);
		io->peer[i].fixed = to->has_mac;
		io->peer[i].has_hop = !to->has_mac;
		io->peer[i].hop = to->has_via ? to->via : to->ip;
	}
	io->peer[i].held = !io->peer[i].kept;
	*peer = i;
	return 0;
}

/* Makes the link to an address that has no peer on any link yet; on a network device, resolves the
 * next hop's MAC. */
static int link_to(struct dpdk *io, const struct dpdk_address *to, uint32_t *port, uint8_t mac[6])
{
	int rc = 0;

	if (io->kind == DPDK_DEVICE)
		return dpdk_device_resolve(io, to, mac);
	pthread_mutex_lock(&dpdk_world);
	if (io->kind == DPDK_RING)
		rc = dpdk_ring_resolve(io, to, port);
	else
		rc = dpdk_memif_resolve(io, to, port);
	pthread_mutex_unlock(&dpdk_world);
	return rc;
}

/* Returns whether our device reaches the address. A name that is not a device of this host is the
 * name that another host has for its own. */
static bool is_reached(const struct dpdk *io, const struct dpdk_address *to)
{
	uint16_t id;

	return io->kind != DPDK_DEVICE || strcmp(to->device, io->device) == 0 ||
	       rte_eth_dev_get_port_by_name(to->device, &id) != 0;
}

static int resolve_address(struct lend_io *base, const char *address, uint32_t *peer)
{
	struct dpdk *io = self(base);
	struct dpdk_address to;
	uint8_t mac[6] = {0};
	uint32_t port = 0;
	int rc = dpdk_address_parse(address, &to);

	if (rc < 0)
		return rc;
	if (to.udp == 0 || to.kind != io->kind || !is_reached(io, &to))
		return lend_fail(EINVAL,
				 "%.100s: not an address that a dpdk:%s carrier reaches: name one "
				 "on that device",
				 address, io->device);
	if (atomic_load(&io->changed))
		dpdk_port_reconcile(io);
	*peer = dpdk_peer_any(io, &to.ip, to.udp);
	if (*peer != DPDK_NONE && io->kind != DPDK_DEVICE &&
	    io->port[io->peer[*peer].port]->active) {
		io->peer[*peer].held = !io->peer[*peer].kept;
		return 0;
	}
	rc = link_to(io, &to, &port, mac);
	return rc < 0 ? rc : add_peer(io, port, &to, mac, peer);
}

static void pin_peer(struct lend_io *base, uint32_t peer, bool kept)
{
	dpdk_peer_pin(self(base), peer, kept);
}

static void describe_peer(struct lend_io *base, uint32_t index, struct lend_io_peer_info *info)
{
	struct dpdk *io = self(base);
	const struct dpdk_peer *peer = &io->peer[index & (DPDK_PEERS_MAX - 1)];
	const struct lend_eth_end end = {peer->ip, peer->udp, io->self.vlan, {0}};

	memset(info, 0, sizeof(*info));
	info->uid = io->kind == DPDK_DEVICE ? -1 : (int64_t)getuid();
	(void)dpdk_address_print(io->device, &end, info->address, sizeof(info->address));
}

static int write_name(struct lend_io *base, char *address, size_t cap)
{
	struct dpdk *io = self(base);

	return dpdk_address_print(io->device, &io->self, address, cap);
}

void dpdk_close(struct lend_io *base)
{
	struct dpdk *io = self(base);

	dpdk_rx_drop(io);
	dpdk_mbuf_cache_drop(io);
	if (io->kind == DPDK_MEMIF)
		dpdk_memif_accept(io);
	pthread_mutex_lock(&dpdk_world);
	dpdk_world_remove(io);
	dpdk_telemetry_forget(io);
	dpdk_bell_close(io);
	dpdk_wake_close(io);
	dpdk_zerocopy_close(io);
	for (uint32_t i = 0; i < DPDK_PORTS_MAX; i++) {
		if (io->port[i])
			dpdk_port_drop(io, i);
	}
	while (io->inbox_n > 0)
		dpdk_port_free(io->inbox[--io->inbox_n]);
	if (io->kind == DPDK_MEMIF)
		dpdk_memif_close(io);
	pthread_mutex_unlock(&dpdk_world);
	free(io);
}

const struct lend_io_ops dpdk_ops = {
    .rx = dpdk_rx,
    .rx_done = dpdk_rx_done,
    .tx = dpdk_tx,
    .queued = dpdk_device_queued,
    .flush = flush_buf,
    .fd = get_fd,
    .arm = prepare_sleep,
    .reg = register_memory,
    .resolve = resolve_address,
    .pin = pin_peer,
    .peer_info = describe_peer,
    .name = write_name,
    .close = dpdk_close,
};
