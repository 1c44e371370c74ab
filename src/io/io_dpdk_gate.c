/* io_dpdk_gate - keeps EAL's interrupt thread and the bursts on memif devices apart, and watches
 *memif's links.
 *
 * net_memif answers its control sockets in EAL's interrupt thread. When a peer dies that thread
 *unmaps the shared rings, and a burst that is in them at that moment dies too: the driver has no
 *lock. So the interrupt thread is let run only while every memif carrier of the process is outside
 *its bursts. An eventfd that is always readable is one of its sources; its callback ends each of
 *the thread's rounds:
 *
 *	callback: let bursts go - sleep a tick - hold bursts off - return
 *	the rest of the round, then one epoll_wait() and its events, all with bursts held off, until
 *	callback: look at the links - let bursts go - ...
 *
 * A burst that finds itself held off takes and sends nothing and comes again (dpdk_enter); the
 *interrupt thread waits for bursts that are under way. As every round is looked at, no link can go
 *down and up again unseen. Devices are set up with dpdk_world held, which the thread holds while it
 *runs.
 *
 * Layer: io.
 */
#include "io/io_dpdk.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "sys/why.h"

enum { TICK_NS = 1000000, TICK_FAST_NS = 100000, TICK_IDLE_NS = 20000000 };

pthread_mutex_t dpdk_world = PTHREAD_MUTEX_INITIALIZER;

static struct {
	struct dpdk *first;
	struct rte_intr_handle *handle;
	bool running; /* the interrupt thread is in its round: only it reads and writes this */
	_Atomic bool entered;
	_Atomic uint64_t pass;
} gate;

struct dpdk *dpdk_world_first(void)
{
	return gate.first;
}

uint64_t dpdk_gate_pass(void)
{
	return atomic_load(&gate.pass);
}

/* True while a link is being made. */
static bool watch(struct dpdk *io)
{
	struct rte_eth_link link;
	bool making = false;

	for (uint32_t i = 0; i < DPDK_PORTS_MAX; i++) {
		struct dpdk_port *port = io->port[i];

		if (port == NULL || rte_eth_link_get_nowait(port->id, &link) < 0)
			continue;
		making |= port->to_udp != 0 && link.link_status == RTE_ETH_LINK_DOWN;
		if ((link.link_status == RTE_ETH_LINK_UP) == atomic_load(&port->up))
			continue;
		if (atomic_exchange(&port->up, link.link_status == RTE_ETH_LINK_UP))
			atomic_fetch_add(&port->downs, 1);
		atomic_store(&io->changed, true);
	}
	return making;
}

static void hold_off(struct dpdk *io)
{
	atomic_store(&io->want, true);
	while (atomic_load(&io->busy))
		(void)sched_yield();
}

static void nap(long ns)
{
	struct timespec tick = {.tv_nsec = ns};

	(void)nanosleep(&tick, NULL);
}

static void turn(void *unused)
{
	long tick = TICK_IDLE_NS;

	(void)unused;
	atomic_store(&gate.entered, true);
	if (gate.running) {
		gate.running = false;
		for (struct dpdk *io = gate.first; io; io = io->next) {
			if (io->kind != DPDK_MEMIF)
				continue;
			tick = watch(io) || tick == TICK_FAST_NS ? TICK_FAST_NS : TICK_NS;
			atomic_store(&io->want, false);
		}
		atomic_fetch_add(&gate.pass, 1);
		pthread_mutex_unlock(&dpdk_world);
		nap(tick);
	}
	pthread_mutex_lock(&dpdk_world);
	gate.running = true;
	for (struct dpdk *io = gate.first; io; io = io->next) {
		if (io->kind == DPDK_MEMIF)
			hold_off(io);
	}
}

static int start(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return lend_fail(
		    errno, "no eventfd for DPDK's interrupt thread: raise the limit of open files");
	gate.handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (gate.handle && rte_intr_fd_set(gate.handle, fd) == 0 &&
	    rte_intr_type_set(gate.handle, RTE_INTR_HANDLE_EXT) == 0 &&
	    rte_intr_callback_register(gate.handle, turn, NULL) == 0) {
		while (!atomic_load(&gate.entered)) /* from there on it waits for dpdk_world */
			(void)sched_yield();
		return 0;
	}
	rte_intr_instance_free(gate.handle);
	gate.handle = NULL;
	(void)close(fd);
	return lend_fail(ENOMEM,
			 "DPDK's interrupt thread takes no callback: give EAL more memory with -m");
}

int dpdk_world_add(struct dpdk *io, bool gated)
{
	if (gated && gate.handle == NULL) {
		int rc = start();

		if (rc < 0)
			return rc;
	}
	io->next = gate.first;
	gate.first = io;
	return 0;
}

void dpdk_world_remove(struct dpdk *io)
{
	struct dpdk **link = &gate.first;

	while (*link && *link != io)
		link = &(*link)->next;
	if (*link)
		*link = io->next;
}
