/* shared_port - a network device and the endpoints of this process that share it.
 *
 * The first endpoint sets the device up. The device then stays started for the life of the process,
 * because net_af_packet cannot be started twice. Each endpoint owns one address (VLAN, IP, UDP
 * port) on it.
 *
 * Layer: io. Threads: any, with dpdk_world held.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_ring.h>

#include "sys/rand.h"
#include "sys/last_error.h"

enum { OWNER_SLOTS = 1024, FLUSH_MAX = 4096 };

static struct dpdk_shared_port *shares;

/* Returns zeroed memory in cache lines of its own. size is a multiple of their length. */
static void *new_zeroed(size_t size)
{
	void *memory = aligned_alloc(RTE_CACHE_LINE_SIZE, size);

	return memory != NULL ? memset(memory, 0, size) : NULL;
}

static struct dpdk_shared_port *find_port(const char *device)
{
	struct dpdk_shared_port *share = shares;

	while (share && strcmp(share->device, device) != 0)
		share = share->next;
	return share;
}

/* Finds the only network device that EAL made. False: there is none, or more than one. */
static bool only_device(char name[64])
{
	char one[RTE_ETH_NAME_MAX_LEN];
	uint32_t n = 0;
	uint16_t id;

	RTE_ETH_FOREACH_DEV(id)
	{
		if (rte_eth_dev_get_name_by_port(id, one) != 0 || strlen(one) >= 64 ||
		    strncmp(one, "net_ring", 8) == 0 || strncmp(one, "net_memif", 9) == 0)
			continue;
		strcpy(name, one);
		n++;
	}
	return n == 1;
}

/* Replaces the device's name: an address printed by another host has that host's device name, and
 * is reached by our device. */
static void name_device(struct dpdk *io)
{
	char name[64];
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(io->device, &id) == 0 || find_port(io->device) ||
	    (io->listening && strcmp(io->device, "any") != 0))
		return;
	if (only_device(name))
		memcpy(io->device, name, sizeof(name));
}

static int start_port(struct dpdk_shared_port *share)
{
	int rc = rte_eth_dev_start(share->id);

	if (rc < 0)
		return lend_fail(ENODEV, "dpdk:%s does not start (%s): check its link and rights",
				 share->device, rte_strerror(-rc));
	if (rte_eth_allmulticast_enable(share->id) != 0) /* for neighbour discovery */
		(void)rte_eth_promiscuous_enable(share->id);
	share->tx_slots = dpdk_tx_slots(share->id);
	return 0;
}

/* Sets up the queues: with a transmit queue for urgent datagrams next to each other one, if the
 * device has as many, else without. A device that refuses gets half the queues, and so on. */
static int set_up_queues(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info,
			 const struct rte_eth_conf *wanted)
{
	int rc;

	share->ways = dpdk_queue_ways(info, share->queues);
	do {
		const struct dpdk_queues queues = {share->queues,
						   (uint16_t)(share->queues * share->ways),
						   share->socket, share->pool};
		struct rte_eth_conf conf = *wanted;

		dpdk_flow_spread(info, share->queues, &conf);
		rc = dpdk_eal_queues(share->id, share->device, &queues, &conf);
	} while (rc < 0 && dpdk_queue_fewer(&share->queues, &share->ways));
	return rc;
}

/* Starts the device with receive interrupts. False: its driver or the machine has none, and the
 * device is stopped. */
static bool set_up_interrupts(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info,
			      struct rte_eth_conf conf)
{
	uint16_t queues = share->queues;

	conf.intr_conf.rxq = 1;
	if (set_up_queues(share, info, &conf) == 0 && start_port(share) == 0) {
		dpdk_wake_find_interrupts(share);
		if (share->interrupts)
			return true;
		(void)rte_eth_dev_stop(share->id);
	}
	share->queues = queues;
	return false;
}

static int set_up(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info)
{
	struct rte_eth_conf conf = {0};
	int rc;

	share->tx_sums = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	share->device_of = info->device;
	share->reads = dpdk_zerocopy_how(info);
	/* Fast free requires buffers of one pool without other references. That holds if all pieces
	 * are copied. */
	conf.txmode.offloads = info->tx_offload_capa &
			       (RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
				(share->reads == DPDK_COPIED ? RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE
							     : RTE_ETH_TX_OFFLOAD_MULTI_SEGS));
	conf.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	if (share->if_index == 0)
		conf.rxmode.mtu = share->mtu;
	rc = dpdk_pool_queues(share, info);
	if (rc < 0)
		return rc;
	if (dpdk_wake_interrupts(info) && set_up_interrupts(share, info, conf))
		return 0;
	dpdk_wake_prepare();
	rc = set_up_queues(share, info, &conf);
	if (rc < 0)
		return dpdk_link_refused(share, info, rc);
	dpdk_wake_find(share, info);
	return start_port(share);
}

/* Chooses the MTU: a card is set to the requested one, a kernel interface keeps its own. */
static int choose_mtu(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info,
		      uint32_t wanted)
{
	uint32_t most = dpdk_link_mtu(share, info);

	if (wanted > most && share->if_index)
		return lend_fail(EINVAL,
				 "dpdk:%s: its interface and driver carry an MTU of %u, not %u: "
				 "ip link set ... mtu %u; net_af_packet needs framesz=9216,"
				 "blocksz=36864 too, net_af_xdp cannot do more than a page",
				 share->device, most, wanted, wanted);
	if (wanted > most)
		return lend_fail(EINVAL, "dpdk:%s: its largest MTU is %u, not %u: ask for less",
				 share->device, most, wanted);
	if (share->if_index == 0) {
		(void)rte_eth_dev_get_mtu(share->id, &share->mtu);
		most = wanted ? wanted : share->mtu ? share->mtu : 1500;
	}
	share->mtu = (uint16_t)most;
	return 0;
}

static int make_port(struct dpdk_shared_port *share, const struct dpdk_address *address)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int rc;

	if (rte_eth_dev_get_port_by_name(share->device, &share->id) != 0)
		return lend_fail(
		    ENODEV,
		    "dpdk:%s: no such device, or the name fits several; create it by EAL arguments "
		    "(--vdev, -a); LEND_EAL_LOG=1 shows how EAL read them",
		    share->device);
	rc = rte_eth_dev_info_get(share->id, &info);
	if (rc < 0)
		return lend_fail(ENODEV, "dpdk:%s: DPDK has no information on it: %s",
				 share->device, rte_strerror(-rc));
	share->if_index = info.if_index;
	share->queues = dpdk_queue_count(&info, address->queues);
	rc = choose_mtu(share, &info, address->mtu);
	if (rc == 0 &&
	    strcmp(info.driver_name, "net_tap") != 0) /* net_tap sets its interface up itself */
		rc = dpdk_link_check(share);
	if (rc == 0)
		rc = set_up(share, &info);
	if (rc == 0 && rte_eth_macaddr_get(share->id, &mac) == 0)
		memcpy(share->mac, mac.addr_bytes, 6);
	if (rc == 0)
		dpdk_link_watch(share, &info);
	return rc;
}

static void lock_all(struct dpdk_shared_port *share)
{
	for (uint16_t q = 0; q < share->queues; q++)
		rte_spinlock_lock(&share->rx[q].spin);
	rte_spinlock_lock(&share->lock);
}

static void unlock_all(struct dpdk_shared_port *share)
{
	rte_spinlock_unlock(&share->lock);
	for (uint16_t q = 0; q < share->queues; q++)
		rte_spinlock_unlock(&share->rx[q].spin);
}

static bool is_taken(const struct dpdk_shared_port *share, const struct lend_eth_end *end)
{
	for (uint32_t i = 0; i < share->owners; i++) {
		const struct lend_eth_end *other = &share->owner[i]->end;

		if (other->udp == end->udp && other->vlan == end->vlan &&
		    lend_ip_same(&other->ip, &end->ip))
			return true;
	}
	return false;
}

/* Drops frames that arrived while the device had no endpoint. */
static void flush_frames(const struct dpdk_shared_port *share)
{
	struct rte_mbuf *buf[DPDK_BURST];

	for (uint16_t q = 0; q < share->queues; q++) {
		uint16_t n = 1;

		for (uint32_t i = 0; i < FLUSH_MAX && n > 0; i += n) {
			n = rte_eth_rx_burst(share->id, q, buf, DPDK_BURST);
			rte_pktmbuf_free_bulk(buf, n);
		}
	}
}

static int add_owner(struct dpdk *io, struct dpdk_port *port, bool any)
{
	static unsigned number;
	struct dpdk_shared_port *share = port->share;
	struct dpdk_owner *owner;
	char name[32];

	while (any && is_taken(share, &io->self)) {
		lend_random(&io->self.udp, sizeof(io->self.udp));
		io->self.udp |= 0xc000;
	}
	if (is_taken(share, &io->self))
		return lend_fail(EADDRINUSE,
				 "dpdk:%s port %u is open in this process already: choose another, "
				 "or use that endpoint",
				 share->device, io->self.udp);
	if (share->owners == DPDK_OWNERS_MAX)
		return lend_fail(ENOSPC, "dpdk:%s: %d endpoints share it already: close some",
				 share->device, DPDK_OWNERS_MAX);
	owner = new_zeroed(sizeof(*owner));
	if (owner == NULL)
		return lend_fail(ENOMEM, "no memory for an endpoint of dpdk:%s", share->device);
	(void)snprintf(name, sizeof(name), "lendo%u", number++);
	owner->end = io->self;
	owner->wake_fd = -1;
	owner->queue = (uint16_t)(share->owners % share->queues);
	owner->ring = rte_ring_create(name, OWNER_SLOTS, share->socket, RING_F_SC_DEQ);
	if (owner->ring == NULL) /* EAL has no memory on that node */
		owner->ring = rte_ring_create(name, OWNER_SLOTS, SOCKET_ID_ANY, RING_F_SC_DEQ);
	if (owner->ring == NULL) {
		free(owner);
		return lend_fail(ENOMEM, "no memory for a queue of dpdk:%s: give EAL more with -m",
				 share->device);
	}
	dpdk_flow_make(share, owner);
	lock_all(share);
	if (share->owners == 0 && share->used)
		flush_frames(share);
	share->used = true;
	share->owner[share->owners] = owner;
	atomic_fetch_add(&share->owners, 1);
	unlock_all(share);
	port->owner = owner;
	return 0;
}

/* Takes the address of another endpoint on the device for a client without one: other hosts already
 * know it. */
static void borrow_address(struct dpdk *io, const struct dpdk_shared_port *share)
{
	for (uint32_t i = 0; i < share->owners; i++) {
		const struct lend_eth_end *end = &share->owner[i]->end;

		if (end->vlan == io->self.vlan &&
		    lend_ip_is4(&end->ip) == lend_ip_is4(&io->self.ip))
			io->self.ip = end->ip;
	}
}

int dpdk_shared_port_open(struct dpdk *io, const struct dpdk_address *address,
			  struct dpdk_port *port)
{
	uint32_t around = lend_ip_is4(&io->self.ip) ? LEND_ETH_UDP4 : LEND_ETH_UDP6;
	struct dpdk_shared_port *share;
	int rc = 0;

	name_device(io);
	share = find_port(io->device);
	if (share == NULL) {
		share = new_zeroed(sizeof(*share));
		if (share == NULL)
			return lend_fail(ENOMEM, "no memory for dpdk:%s", io->device);
		memcpy(share->device, io->device, sizeof(share->device));
		rc = make_port(share, address);
		if (rc < 0) {
			free(share);
			return rc;
		}
		share->next = shares;
		shares = share;
	}
	rc = dpdk_link_check(share);
	if (rc < 0)
		return rc;
	port->share = share;
	port->reads = (uint8_t)share->reads;
	port->ways = (uint8_t)share->ways;
	port->id = share->id;
	memcpy(io->self.mac, share->mac, 6);
	if (address->mtu > share->mtu)
		return lend_fail(EINVAL,
				 "dpdk:%s: its first endpoint set an MTU of %u: give that one "
				 "?mtu=%u too",
				 share->device, share->mtu, address->mtu);
	io->mtu = address->mtu ? address->mtu : share->mtu;
	io->io.path.mtu = io->mtu - around;
	io->downs = atomic_load(&share->downs);
	if (!io->listening && !address->has_from)
		borrow_address(io, share);
	return add_owner(io, port, address->udp == 0 || !io->listening);
}

static void free_owner(struct dpdk_owner *owner)
{
	void *buf;

	while (rte_ring_dequeue(owner->ring, &buf) == 0)
		rte_pktmbuf_free(buf);
	rte_ring_free(owner->ring);
	if (owner->wake_fd >= 0)
		(void)close(owner->wake_fd);
	free(owner);
}

void dpdk_shared_port_close(struct dpdk_port *port)
{
	struct dpdk_shared_port *share = port->share;
	uint32_t i = 0;

	if (port->owner == NULL)
		return;
	lock_all(share);
	while (share->owner[i] != port->owner)
		i++;
	share->owner[i] = share->owner[share->owners - 1];
	atomic_fetch_sub(&share->owners, 1);
	unlock_all(share);
	dpdk_flow_drop(share, port->owner);
	free_owner(port->owner);
	port->owner = NULL;
}
