/* io_dpdk_open - opens a dpdk carrier: its address, its device or its name.
 * Layer: io. Threads: any; the carrier then belongs to the thread that opened it.
 */
#include "io/io_dpdk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/rand.h"
#include "sys/why.h"

/* An ethdev that EAL's arguments made. */
static int open_device(struct dpdk *io)
{
	struct dpdk_port *port;
	struct rte_ether_addr mac;
	uint16_t mtu = 1500;
	int started = 0, rc;

	for (struct dpdk *other = dpdk_world_first(); other; other = other->next) {
		if (other != io && strcmp(other->device, io->device) == 0)
			return lend_fail(
			    EADDRINUSE,
			    "dpdk:%s is open in this process already: use that endpoint",
			    io->device);
	}
	port = dpdk_port_new();
	if (port == NULL)
		return -ENOMEM;
	rc = dpdk_port_add(io, port);
	if (rte_eth_dev_get_port_by_name(io->device, &port->id) != 0) {
		port->id = RTE_MAX_ETHPORTS;
		return lend_fail(ENODEV,
				 "dpdk:%s: no such device; make it by EAL arguments (--vdev, -a)",
				 io->device);
	}
	if (rc >= 0)
		rc = dpdk_eal_port(port->id, io->device, &started);
	if (rc < 0)
		return rc;
	if (started != 0)
		return lend_fail(ENODEV, "dpdk:%s does not start: check its link and rights",
				 io->device);
	io->pool = dpdk_eal_pool(port->id);
	if (rte_eth_macaddr_get(port->id, &mac) == 0)
		memcpy(io->mac, mac.addr_bytes, 6);
	(void)rte_eth_dev_get_mtu(port->id, &mtu);
	io->io.path.mtu = mtu - 28 < DPDK_FRAME_MAX - LEND_FRAME_HEAD
			      ? mtu - 28u
			      : DPDK_FRAME_MAX - LEND_FRAME_HEAD;
	port->used = port->active = true;
	return 0;
}

/* The address that peers answer to: a listener's own, or a made-up one of the link-local range. */
static void choose_address(struct dpdk *io, const struct dpdk_address *address)
{
	uint8_t bits[4];

	lend_random(bits, sizeof(bits));
	io->udp = address->udp;
	io->ip = address->ip;
	if (!io->listening) {
		io->udp = (uint16_t)(0xc000 | bits[0] << 8 | bits[1]);
		io->ip = address->from ? address->from
				       : 0xa9fe0000u | (bits[2] % 254u + 1) << 8 | bits[3];
	} else if (io->kind == DPDK_DEVICE && io->udp == 0) {
		io->udp = (uint16_t)(0xc000 | bits[0] << 8 | bits[1]);
	}
	io->mac[0] = 2;
	for (int i = 0; i < 4; i++)
		io->mac[2 + i] = (uint8_t)(io->ip >> (24 - 8 * i));
}

static int open_kind(struct dpdk *io)
{
	int rc = dpdk_world_add(io, io->kind == DPDK_MEMIF);

	if (rc < 0)
		return rc;
	if (io->kind == DPDK_DEVICE)
		return open_device(io);
	/* checked stays false: the trailer keeps the payload's bytes those of udp. */
	io->io.path.lossless = io->io.path.proven = true;
	if (!io->listening)
		return 0;
	return io->kind == DPDK_RING ? dpdk_ring_listen(io) : dpdk_memif_listen(io);
}

static int make(const struct lend_io_config *config, const struct dpdk_address *address,
		struct dpdk *io)
{
	int rc;

	io->io.ops = &dpdk_ops;
	io->io.path.mtu = DPDK_FRAME_MAX - LEND_FRAME_HEAD;
	io->kind = address->kind;
	io->links = address->links;
	io->lock = io->listener = -1;
	memcpy(io->device, address->device, sizeof(io->device));
	io->listening = config->listen != NULL;
	dpdk_peer_init(io);
	choose_address(io, address);
	pthread_mutex_lock(&dpdk_world);
	rc = dpdk_eal_start(config->eal);
	if (rc == 0)
		io->pool = dpdk_eal_pool(RTE_MAX_ETHPORTS);
	if (rc == 0)
		rc = open_kind(io);
	pthread_mutex_unlock(&dpdk_world);
	if (config->mtu > 0 && config->mtu < io->io.path.mtu)
		io->io.path.mtu = config->mtu;
	return rc;
}

__attribute__((visibility("default"))) int lend_io_dpdk_open(const struct lend_io_config *config,
							     struct lend_io **out)
{
	const char *text = config->listen ? config->listen : config->peer;
	struct dpdk_address address;
	struct dpdk *io;
	int rc;

	if (text == NULL)
		return lend_fail(
		    EINVAL,
		    "a dpdk carrier needs an address to listen at or to connect to: give one");
	rc = dpdk_address_parse(text, &address);
	if (rc < 0)
		return rc;
	io = calloc(1, sizeof(*io));
	if (io == NULL)
		return lend_fail(ENOMEM, "no memory for a dpdk carrier");
	rc = make(config, &address, io);
	if (rc < 0) {
		dpdk_close(&io->io);
		return rc;
	}
	dpdk_eal_thread();
	*out = &io->io;
	return 0;
}
