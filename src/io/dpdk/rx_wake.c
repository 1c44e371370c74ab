/* rx_wake - lets an endpoint on a network device sleep until frames arrive.
 *
 * The queues of net_af_packet and net_af_xdp are sockets of the kernel, which poll(2) reports as
 * readable while frames wait in the queue. Drivers of cards signal an eventfd for each queue
 * instead, once per arming, and only for frames that arrive after it. So an endpoint arms the
 * interrupts of all queues, and then polls the queues: it sleeps only if that poll found no frame,
 * neither for itself nor for another endpoint.
 *
 * An endpoint sleeps on all queues, because a frame for it may arrive in any of them, and on an
 * eventfd: an endpoint that takes frames of another one from a queue puts them into that one's
 * ring, fences, and wakes it if it sleeps. The sleeper sets asleep, fences, and looks into its
 * ring. While another endpoint polls the queues, only the eventfd wakes the sleeper, which else
 * would wake up for each frame of the other one. Devices without sockets and interrupts are polled
 * at intervals. test/model/rx_intr.pml checks the interrupts in all interleavings.
 *
 * Layer: io. Threads: the carrier's, except where port_burst.h says otherwise.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ring.h>

#include "sys/last_error.h"

enum {
	FDS_MAX = 1024,
	POLLS_NS = 2000000,  /* an endpoint polls if it did so within this time */
	ALONE_NS = 20000000, /* between two ticks of an endpoint that sleeps on the queues */
};

static int read_option(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, option, &value, &len) == 0 ? value : -1;
}

/* Returns whether the socket is a queue of net_af_packet on that interface. */
static bool is_packet_queue(int fd, unsigned if_index)
{
	struct sockaddr_ll at = {0};
	socklen_t len = sizeof(at);

	return read_option(fd, SOL_SOCKET, SO_DOMAIN) == AF_PACKET &&
	       read_option(fd, SOL_PACKET, PACKET_VERSION) == TPACKET_V2 &&
	       getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
	       at.sll_ifindex == (int)if_index;
}

/* Sockets of AF_XDP that other devices had before; dpdk_world held. */
static uint64_t xdp_before[FDS_MAX / 64];

static bool is_xdp(int fd)
{
	return read_option(fd, SOL_SOCKET, SO_DOMAIN) == AF_XDP;
}

void dpdk_wake_prepare(void)
{
	memset(xdp_before, 0, sizeof(xdp_before));
	for (int fd = 3; fd < FDS_MAX; fd++)
		xdp_before[fd / 64] |= (uint64_t)is_xdp(fd) << fd % 64;
}

void dpdk_wake_find(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info)
{
	bool xdp = strcmp(info->driver_name, "net_af_xdp") == 0;

	if (!xdp && strcmp(info->driver_name, "net_af_packet") != 0)
		return;
	for (int fd = 3; fd < FDS_MAX && share->queue_fds < DPDK_QUEUES_MAX; fd++) {
		if (xdp ? !(xdp_before[fd / 64] >> fd % 64 & 1) && is_xdp(fd)
			: is_packet_queue(fd, share->if_index))
			share->queue_fd[share->queue_fds++] = fd;
	}
}

/* Returns whether fd is an eventfd, which can be drained. Other interrupt descriptors (/dev/uio0,
 * /dev/net/tun) would need calls of their own. */
static bool is_eventfd(int fd)
{
	char path[40], target[32];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return strcmp(target, "anon_inode:[eventfd]") == 0;
}

/* Interfaces of the kernel have sockets; net_vhost's eventfds change with each connection; of
 * cards, only those on vfio-pci have eventfds. */
bool dpdk_wake_interrupts(const struct rte_eth_dev_info *info)
{
	char path[128], driver[128];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/driver",
		       rte_dev_name(info->device));
	n = readlink(path, driver, sizeof(driver) - 1);
	driver[n > 0 ? n : 0] = '\0';
	return info->if_index == 0 && strcmp(info->driver_name, "net_vhost") != 0 &&
	       (n < 0 || strstr(driver, "/vfio-pci") != NULL);
}

void dpdk_wake_find_interrupts(struct dpdk_shared_port *share)
{
	for (uint16_t q = 0; q < share->queues; q++) {
		int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(share->id, q);

		if (fd < 0 || !is_eventfd(fd) || rte_eth_dev_rx_intr_enable(share->id, q) < 0)
			return;
		(void)fcntl(fd, F_SETFL, O_NONBLOCK); /* several endpoints may drain it */
		share->queue_fd[q] = fd;
	}
	share->queue_fds = share->queues;
	share->interrupts = true;
}

static int watch_fd(int epoll, int how, uint32_t events, int fd)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return fd < 0 ? -1 : epoll_ctl(epoll, how, fd, &event);
}

int dpdk_wake_open(struct dpdk *io)
{
	const struct dpdk_shared_port *share = io->port[0]->share;
	struct dpdk_owner *owner = io->port[0]->owner;
	int rc;

	if (share->queue_fds == 0)
		return 0;
	owner->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	io->wake_fds = epoll_create1(EPOLL_CLOEXEC);
	rc = io->wake_fds < 0 ? -1 : watch_fd(io->wake_fds, EPOLL_CTL_ADD, EPOLLIN, owner->wake_fd);
	for (uint16_t i = 0; i < share->queue_fds && rc == 0; i++)
		rc = watch_fd(io->wake_fds, EPOLL_CTL_ADD, 0, share->queue_fd[i]);
	return rc == 0
		   ? 0
		   : lend_fail(errno, "dpdk:%s: no file descriptor to sleep on: raise ulimit -n",
			       io->device);
}

void dpdk_wake_close(struct dpdk *io)
{
	if (io->wake_fds >= 0)
		(void)close(io->wake_fds);
}

void dpdk_wake_tick(struct dpdk *io, bool polls, lend_ns now)
{
	struct dpdk_shared_port *share = io->port[0]->share;
	const struct dpdk_owner *owner = io->port[0]->owner;

	if (polls) {
		atomic_store(&share->poller, owner);
		atomic_store(&share->polled_ns, now);
	}
	io->watches =
	    atomic_load(&share->poller) == owner || atomic_load(&share->polled_ns) + POLLS_NS < now;
	io->io.due = now + (io->watches ? ALONE_NS : POLLS_NS / 2);
}

void dpdk_wake_owners(struct dpdk_shared_port *share)
{
	uint32_t n = atomic_load_explicit(&share->owners, memory_order_relaxed);

	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < n; i++) {
		struct dpdk_owner *owner = share->owner[i];

		if (atomic_load_explicit(&owner->asleep, memory_order_relaxed) &&
		    !rte_ring_empty(owner->ring) && atomic_exchange(&owner->asleep, false))
			(void)eventfd_write(owner->wake_fd, 1);
	}
}

/* Arms the interrupts of all queues. False: another endpoint polls one of them now. */
static bool arm_interrupts(struct dpdk_shared_port *share)
{
	for (uint16_t q = 0; q < share->queues; q++) {
		int rc;

		if (!rte_spinlock_trylock(&share->rx[q].spin))
			return false;
		rc = rte_eth_dev_rx_intr_enable(share->id, q);
		rte_spinlock_unlock(&share->rx[q].spin);
		if (rc < 0)
			return false;
	}
	return true;
}

/* Drains the interrupts' eventfds, before the poll that follows each sleep. Arms them again for
 * other endpoints, which may sleep on them. Without others it disables the interrupts, each of
 * which would cost a system call while this endpoint polls. */
static void end_interrupts(struct dpdk_shared_port *share)
{
	bool shared = atomic_load(&share->owners) > 1;

	for (uint16_t q = 0; q < share->queues; q++) {
		eventfd_t count;

		(void)eventfd_read(share->queue_fd[q], &count);
		rte_spinlock_lock(&share->rx[q].spin);
		if (shared)
			(void)rte_eth_dev_rx_intr_enable(share->id, q);
		else
			(void)rte_eth_dev_rx_intr_disable(share->id, q);
		rte_spinlock_unlock(&share->rx[q].spin);
	}
}

bool dpdk_wake_arm(struct dpdk *io)
{
	struct dpdk_shared_port *share = io->port[0]->share;
	struct dpdk_owner *owner = io->port[0]->owner;

	io->armed = true;
	for (uint16_t i = 0; io->watches && i < share->queue_fds; i++)
		(void)watch_fd(io->wake_fds, EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT,
			       share->queue_fd[i]);
	atomic_store_explicit(&owner->asleep, io->wake_fds >= 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (!io->watches || !share->interrupts)
		return rte_ring_empty(owner->ring);
	return arm_interrupts(share) && rte_ring_empty(owner->ring);
}

/* A socket whose interface went down stays readable until its error was read. */
void dpdk_wake_end(struct dpdk *io)
{
	struct dpdk_shared_port *share = io->port[0]->share;
	struct dpdk_owner *owner = io->port[0]->owner;
	eventfd_t count;

	io->armed = false;
	if (io->wake_fds >= 0) {
		atomic_store(&owner->asleep, false);
		(void)eventfd_read(owner->wake_fd, &count); /* may have come after another event */
		if (share->interrupts)
			end_interrupts(share);
		for (uint16_t i = 0; !share->interrupts && i < share->queue_fds; i++)
			(void)read_option(share->queue_fd[i], SOL_SOCKET, SO_ERROR);
	}
}
