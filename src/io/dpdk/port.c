/* port - the devices of a carrier: one per link. Layer: io. Threads: the carrier's, with the
 * exceptions in dpdk.h. */
#include "io/dpdk/bell.h"
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_bus_vdev.h>

#include "sys/last_error.h"

struct dpdk_port *dpdk_port_new(void)
{
	struct dpdk_port *port = calloc(1, sizeof(*port));

	if (port == NULL) {
		(void)lend_fail(ENOMEM, "no memory for a link");
		return NULL;
	}
	port->id = RTE_MAX_ETHPORTS;
	port->lock = -1;
	port->ringer = -1;
	port->last_peer = DPDK_NONE;
	port->ways = 1;
	for (uint32_t i = 0; i < DPDK_ROUTES; i++)
		port->window[i] = DPDK_BURST;
	return port;
}

void dpdk_port_check(struct dpdk *io)
{
	io->looks = io->turn = 0;
	for (uint32_t i = 0; i < io->ports_n; i++) {
		if (io->port[i] && io->port[i]->active)
			io->look[io->looks++] = (struct dpdk_rx_source){io->port[i], i};
	}
	io->one_ring = io->kind == DPDK_RING && io->looks == 1;
}

int dpdk_port_add(struct dpdk *io, struct dpdk_port *port)
{
	for (uint32_t i = 0; i < DPDK_PORTS_MAX; i++) {
		if (io->port[i])
			continue;
		io->port[i] = port;
		if (i >= io->ports_n)
			io->ports_n = i + 1;
		dpdk_port_check(io);
		return (int)i;
	}
	return lend_fail(
	    ENOSPC, "all %d links of this endpoint are in use: close some or open another endpoint",
	    DPDK_PORTS_MAX);
}

void dpdk_port_free(struct dpdk_port *port)
{
	if (port->name[0] && port->id < RTE_MAX_ETHPORTS) {
		(void)rte_eth_dev_stop(port->id);
		(void)rte_eth_dev_close(port->id);
	}
	if (port->name[0])
		(void)rte_vdev_uninit(port->name);
	if (port->share)
		dpdk_shared_port_close(port);
	if (port->link)
		dpdk_ring_drop(port);
	dpdk_bell_detach(port);
	if (port->lock >= 0)
		(void)close(port->lock);
	free(port);
}

void dpdk_port_drop(struct dpdk *io, uint32_t index)
{
	struct dpdk_port *port = io->port[index];

	io->port[index] = NULL;
	while (io->ports_n > 0 && io->port[io->ports_n - 1] == NULL)
		io->ports_n--;
	dpdk_port_check(io);
	dpdk_port_free(port);
}

static void reconcile_memif(struct dpdk *io, uint32_t index)
{
	struct dpdk_port *port = io->port[index];
	struct rte_mbuf *none[1];
	uint32_t downs = atomic_load(&port->downs);

	if (downs != port->downs_seen) {
		port->downs_seen = downs;
		port->connecting = false;
		if (port->side == 0)
			dpdk_bell_detach(port);
		dpdk_peer_hangup(io, (uint16_t)index);
	}
	port->active = atomic_load(&port->up);
	port->connecting &= !port->active;
	/* A poll makes a memif client post its receive buffers: the peer may send first. */
	for (uint16_t i = 0; port->active && i < port->ways; i++)
		(void)rte_eth_rx_burst(port->id, i, none, 0);
}

static void take_inbox(struct dpdk *io)
{
	pthread_mutex_lock(&dpdk_world);
	while (io->inbox_n > 0) {
		struct dpdk_port *port = io->inbox[--io->inbox_n];

		if (dpdk_port_add(io, port) < 0) {
			io->io.stats.peers_refused++;
			dpdk_port_free(port);
		}
	}
	pthread_mutex_unlock(&dpdk_world);
}

void dpdk_port_reconcile(struct dpdk *io)
{
	if (dpdk_rx_waiting(io) > 0)
		return; /* received frames come before the end of their peers */
	atomic_store(&io->changed, false);
	dpdk_telemetry_answer(io);
	io->grow = io->made > 0;
	if (io->kind == DPDK_RING)
		take_inbox(io);
	for (uint32_t i = 0; i < io->ports_n; i++) {
		struct dpdk_port *port = io->port[i];

		if (port && io->kind == DPDK_MEMIF)
			reconcile_memif(io, i);
		else if (port && port->link)
			port->closing = !atomic_load(&port->link->open[1 - port->side]);
		io->ending |= port && port->closing;
	}
	dpdk_port_check(io);
}
