/* dpdk/ring - links between carriers of one process: two rings, and net_ring's ethdevs over them.
 * Layer: io. Threads: any, with dpdk_world held. */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "sys/rand.h"
#include "sys/last_error.h"

static struct dpdk *find_listener(const struct dpdk *but, const struct lend_ip *ip, uint16_t udp)
{
	for (struct dpdk *io = dpdk_world_first(); io; io = io->next) {
		if (io != but && io->kind == DPDK_RING && io->listening && io->self.udp == udp &&
		    lend_ip_same(&io->self.ip, ip))
			return io;
	}
	return NULL;
}

int dpdk_ring_listen(struct dpdk *io)
{
	uint16_t udp = io->self.udp;

	for (int tries = 0; udp == 0 || find_listener(io, &io->self.ip, udp); tries++) {
		if (io->self.udp != 0 || tries == 1000)
			return lend_fail(EADDRINUSE,
					 "dpdk:ring port %u is in use in this process; choose "
					 "another, or 0 for any",
					 io->self.udp);
		lend_random(&udp, sizeof(udp));
		udp |= 0xc000;
	}
	io->self.udp = udp;
	return 0;
}

static void free_ring(struct rte_ring *ring)
{
	void *buf;

	while (ring && rte_ring_dequeue(ring, &buf) == 0)
		rte_pktmbuf_free(buf);
	rte_ring_free(ring);
}

static void free_link(struct dpdk_link *link)
{
	free_ring(link->ring[0]);
	free_ring(link->ring[1]);
	free(link);
}

void dpdk_ring_drop(struct dpdk_port *port)
{
	struct dpdk_link *link = port->link;
	struct dpdk *other = link->side[1 - port->side];

	port->link = NULL;
	link->side[port->side] = NULL;
	atomic_store(&link->open[port->side], false);
	if (other)
		atomic_store(&other->changed, true);
	else
		free_link(link);
}

static struct dpdk_link *make_link(struct dpdk *a, struct dpdk *b, unsigned number)
{
	struct dpdk_link *link = calloc(1, sizeof(*link));
	char name[32];

	if (link == NULL)
		return NULL;
	for (int i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof(name), "lend%u%c", number, 'a' + i);
		link->ring[i] = rte_ring_create(name, DPDK_RING_SLOTS, SOCKET_ID_ANY,
						RING_F_SP_ENQ | RING_F_SC_DEQ);
	}
	if (link->ring[0] == NULL || link->ring[1] == NULL) {
		free_link(link);
		return NULL;
	}
	link->side[0] = a;
	link->side[1] = b;
	atomic_init(&link->open[0], true);
	atomic_init(&link->open[1], true);
	return link;
}

/* Makes one end of a link as an ethdev. The port owns its side of the link, even after a
 * failure. */
static int make_end(struct dpdk_port *port, struct dpdk_link *link, uint8_t side, unsigned number)
{
	char name[24];
	int id, started = 0;

	port->link = link;
	port->side = side;
	port->used = port->active = true;
	(void)snprintf(name, sizeof(name), "lend%u%c", number, 'a' + side);
	id = rte_eth_from_rings(name, &link->ring[side], 1, &link->ring[1 - side], 1, 0);
	if (id < 0 || id >= RTE_MAX_ETHPORTS)
		return lend_fail(ENOSPC, "DPDK has no room for another ring device: close some "
					 "endpoints of this process");
	port->id = (uint16_t)id;
	(void)snprintf(port->name, sizeof(port->name), "net_ring_%s", name);
	return dpdk_eal_port(port->id, "dpdk:ring", 1, &started);
}

int dpdk_ring_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *port)
{
	static unsigned number;
	struct dpdk *other = find_listener(NULL, &to->ip, to->udp);
	struct dpdk_port *end[2] = {NULL, NULL};
	struct dpdk_link *link = NULL;
	int rc = -ENOMEM;

	if (other == NULL)
		return lend_fail(
		    ECONNREFUSED,
		    "dpdk:ring port %u: no endpoint of this process listens there; open it first",
		    to->udp);
	if (other->inbox_n == DPDK_PORTS_MAX)
		return lend_fail(EAGAIN, "dpdk:ring port %u: its endpoint is not polled; poll it",
				 to->udp);
	end[0] = dpdk_port_new();
	end[1] = dpdk_port_new();
	if (end[0] && end[1])
		link = make_link(io, other, ++number);
	if (link == NULL) {
		rc = lend_fail(ENOMEM, "no memory for a ring link: give EAL more with -m");
		free(end[0]);
		free(end[1]);
		return rc;
	}
	rc = make_end(end[0], link, 0, number);
	end[1]->link = link;
	end[1]->side = 1;
	if (rc == 0)
		rc = make_end(end[1], link, 1, number);
	if (rc == 0)
		rc = dpdk_port_add(io, end[0]);
	if (rc < 0) {
		dpdk_port_free(end[0]);
		dpdk_port_free(end[1]);
		return rc;
	}
	*port = (uint32_t)rc;
	other->inbox[other->inbox_n++] = end[1];
	atomic_store(&other->changed, true);
	return 0;
}
