/* port_state - link state, removal and MTU of a network device.
 *
 * Ten times a second the state is read from the driver, or from the kernel if the device has a
 * kernel interface: net_af_packet always reports that its link is up. Most drivers of cards do not
 * report the removal of their card, so sysfs is checked for it. While the link is down nothing is
 * sent (the core sends it again) and all state is kept. When a device is removed, its peers are
 * gone, too.
 *
 * Layer: io. Threads: any carrier's; one of them checks for all.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_dev.h>

#include "sys/last_error.h"

enum {
	LOOK_NS = 100000000,
	PACKET_AROUND = 52, /* bytes of a net_af_packet frame that are not payload */
	XDP_MTU = 3500      /* a veth's limit is 3506, a card's may be less */
};

/* Queries the kernel about the device's interface. False: it does not exist now. */
static bool ask_kernel(const struct dpdk_shared_port *share, unsigned long what,
		       struct ifreq *request)
{
	int fd, rc;

	memset(request, 0, sizeof(*request));
	if (if_indextoname(share->if_index, request->ifr_name) == NULL)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	rc = ioctl(fd, what, request);
	(void)close(fd);
	return rc == 0 || errno != ENODEV;
}

static bool is_up(struct dpdk_shared_port *share)
{
	struct rte_eth_link link;
	struct ifreq request;

	if (share->sysfs[0] && access(share->sysfs, F_OK) != 0 && errno == ENOENT) {
		atomic_store(&share->removed, true);
		return false;
	}
	if (share->if_index) {
		if (!ask_kernel(share, SIOCGIFFLAGS, &request))
			atomic_store(&share->removed, true);
		return (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
	}
	return rte_eth_link_get_nowait(share->id, &link) < 0 || link.link_status == RTE_ETH_LINK_UP;
}

/* Returns the number of frames that the device dropped for lack of room since the last check. */
static uint64_t missed_frames(struct dpdk_shared_port *share)
{
	struct rte_eth_stats stats;
	uint64_t before = share->missed;

	if (rte_eth_stats_get(share->id, &stats) < 0 || stats.imissed < before)
		return 0;
	share->missed = stats.imissed;
	return stats.imissed - before;
}

void dpdk_link_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now)
{
	struct dpdk_shared_port *share = port->share;
	lend_ns due = atomic_load(&share->look_ns);
	uint32_t downs;

	if (now >= due && atomic_compare_exchange_strong(&share->look_ns, &due, now + LOOK_NS)) {
		bool up = is_up(share);

		if (atomic_exchange(&share->up, up) && !up)
			atomic_fetch_add(&share->downs, 1);
		io->io.stats.rx_missed += missed_frames(share);
	}
	io->io.stats.rx_missed += atomic_exchange(&port->owner->overrun, 0);
	downs = atomic_load(&share->downs);
	io->io.stats.link_down += downs - io->downs;
	io->downs = downs;
	port->down = !atomic_load(&share->up);
	if (port->active && atomic_load(&share->removed)) {
		port->active = false;
		dpdk_port_check(io);
		dpdk_peer_hangup(io, 0);
	}
}

int dpdk_link_check(const struct dpdk_shared_port *share)
{
	struct ifreq request;

	if (atomic_load(&share->removed) ||
	    (share->if_index && !ask_kernel(share, SIOCGIFFLAGS, &request)))
		return lend_fail(ENODEV,
				 "dpdk:%s was removed: put it back, then start this process again",
				 share->device);
	if (share->if_index && !(request.ifr_flags & IFF_UP))
		return lend_fail(ENETDOWN, "dpdk:%s: its interface is down: ip link set %s up",
				 share->device, request.ifr_name);
	return 0;
}

/* Returns the room in a frame of net_af_packet, which drops longer frames silently. */
static uint32_t frame_room(const struct rte_eth_dev_info *info)
{
	const struct rte_devargs *args = rte_dev_devargs(info->device);
	const char *size = args && args->args ? strstr(args->args, "framesz=") : NULL;

	if (strcmp(info->driver_name, "net_af_packet") != 0)
		return UINT16_MAX;
	return (size ? (uint32_t)strtoul(size + 8, NULL, 10) : 2048u) - PACKET_AROUND;
}

uint32_t dpdk_link_mtu(const struct dpdk_shared_port *share, const struct rte_eth_dev_info *info)
{
	uint32_t room = dpdk_pool_room(info) - LEND_ETH_AROUND_IP;
	uint32_t most = frame_room(info);
	struct ifreq request;

	most = most < room ? most : room;
	most = most < info->max_mtu ? most : info->max_mtu;
	if (share->if_index == 0 || !ask_kernel(share, SIOCGIFMTU, &request) ||
	    request.ifr_mtu <= 0)
		return most;
	return (uint32_t)request.ifr_mtu < most ? (uint32_t)request.ifr_mtu : most;
}

int dpdk_link_refused(const struct dpdk_shared_port *share, const struct rte_eth_dev_info *info,
		      int rc)
{
	struct ifreq request;

	if (strcmp(info->driver_name, "net_af_xdp") != 0 ||
	    !ask_kernel(share, SIOCGIFMTU, &request) || request.ifr_mtu <= XDP_MTU)
		return rc;
	return lend_fail(
	    -rc,
	    "dpdk:%s: XDP carries no frame longer than a page, and %s has an MTU of %d: "
	    "ip link set %s mtu %d (a veth's other end too), or use net_af_packet with "
	    "framesz=9216,blocksz=36864",
	    share->device, request.ifr_name, request.ifr_mtu, request.ifr_name, XDP_MTU);
}

static int on_removed(uint16_t id, enum rte_eth_event_type type, void *arg, void *unused)
{
	(void)id;
	(void)type;
	(void)unused;
	atomic_store(&((struct dpdk_shared_port *)arg)->removed, true);
	return 0;
}

void dpdk_link_watch(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info)
{
	(void)snprintf(share->sysfs, sizeof(share->sysfs), "/sys/bus/pci/devices/%s",
		       rte_dev_name(info->device));
	if (access(share->sysfs, F_OK) != 0)
		share->sysfs[0] = '\0';
	atomic_store(&share->up, true);
	(void)rte_eth_dev_callback_register(share->id, RTE_ETH_EVENT_INTR_RMV, on_removed, share);
}
