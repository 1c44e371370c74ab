/* intr_gate - mutual exclusion of EAL's interrupt thread and bursts on memif devices; watches
 * memif's links.
 *
 * net_memif handles its control sockets in EAL's interrupt thread. When a peer dies, that thread
 * unmaps the shared rings, and a burst that uses them at that moment crashes: the driver has no
 * lock. So the interrupt thread may run only while every memif carrier of the process is outside
 * its bursts. One of the thread's event sources is an eventfd that is always readable; its callback
 * ends each round of the thread:
 *
 *	callback: unblock bursts - sleep until another source has an event - block bursts
 *	return, the rest of the round, then one epoll_wait() and its events, all with bursts blocked
 *	callback: check the links - unblock bursts - ...
 *
 * EAL reads all events of a round at once, the gate's own among them. If dpdk_world were released
 * while others of that round are still to be handled, the program could close the socket of one
 * and reuse its number meanwhile. The driver would then wait forever for a message on the new
 * socket. So while another source has an event, the callback unblocks bursts for REST_NS only and
 * keeps dpdk_world. Bursts need that time: a peer that closes its link has sent its last datagrams
 * before, and what is not received by then is lost. A peer that never stops sending control
 * messages may keep dpdk_world from others for ROUNDS_MAX rounds.
 *
 * A round runs only when there is an event, because each one costs a thread that polls on that CPU
 * two context switches, and more where other threads wait for the CPU. The gate's own source is
 * always readable, so it stays the first in each round.
 *
 * A blocked burst receives and sends nothing and is retried (dpdk_enter). The interrupt thread
 * waits for bursts that are running. Each burst sets its busy flag before it reads the block flag,
 * a store before a load. The interrupt thread runs rarely, so it has the kernel fence every thread
 * (membarrier), and bursts need no fence of their own. The links are checked after every round, so
 * every change of a link is seen. Devices are set up with dpdk_world held, which the thread holds
 * while it runs.
 *
 * The driver has another defect. When a client dies between its connect() and the accept, the
 * driver closes the accepted socket but leaves it with EAL, and EAL panics on a closed descriptor.
 * A round accepts at most one connection per listener, and accepted sockets take the lowest free
 * descriptor numbers. Numbers that are closed again after the round are filled with an eventfd that
 * never has an event, before EAL reads them: the gate's own event comes before the pipe that makes
 * EAL rebuild its list. The remaining risk is a client that dies in the same millisecond as another
 * link comes or goes.
 *
 * Layer: io.
 */
#include "io/dpdk/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "sys/last_error.h"

enum {
	PLUGS_MAX = 8,
	ROUNDS_MAX = 64,    /* with dpdk_world held */
	REST_NS = 30000,    /* minimum time between two rounds */
	TICK_NS = 50000000, /* without an event, the pass count increases after this time */
};

pthread_mutex_t dpdk_world = PTHREAD_MUTEX_INITIALIZER;
bool dpdk_gate_fences = true;

static struct {
	struct dpdk *first;
	struct rte_intr_handle *handle;
	int own;             /* an eventfd that is always readable */
	int quiet;           /* an eventfd that stays at zero */
	int plug[PLUGS_MAX]; /* descriptor numbers that the round's accepts will take */
	uint32_t plugs;
	uint32_t rounds; /* since the interrupt thread took dpdk_world */
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

static void watch_links(struct dpdk *io)
{
	struct rte_eth_link link;

	for (uint32_t i = 0; i < DPDK_PORTS_MAX; i++) {
		struct dpdk_port *port = io->port[i];

		if (port == NULL || rte_eth_link_get_nowait(port->id, &link) < 0)
			continue;
		if ((link.link_status == RTE_ETH_LINK_UP) == atomic_load(&port->up))
			continue;
		if (atomic_exchange(&port->up, link.link_status == RTE_ETH_LINK_UP))
			atomic_fetch_add(&port->downs, 1);
		atomic_store(&io->changed, true);
		dpdk_bell_wake(io);
	}
}

/* Full barrier between this thread and all others: their earlier stores are visible here, and ours
 * to them. */
static void fence_all(void)
{
	if (dpdk_gate_fences)
		atomic_thread_fence(memory_order_seq_cst);
	else
		(void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void hold_off(void)
{
	struct dpdk *io;

	for (io = gate.first; io; io = io->next)
		atomic_store(&io->want, io->kind == DPDK_MEMIF);
	fence_all();
	for (io = gate.first; io; io = io->next) {
		while (io->kind == DPDK_MEMIF && atomic_load(&io->busy))
			(void)sched_yield();
	}
}

bool dpdk_enter_slow(void)
{
	(void)sched_yield();
	return false;
}

static void foresee_accepts(void)
{
	uint32_t accepts = 0;

	for (struct dpdk *io = gate.first; io; io = io->next) {
		struct pollfd pending = {.fd = io->listener, .events = POLLIN};

		accepts += io->listener >= 0 && poll(&pending, 1, 0) == 1;
	}
	gate.plugs = 0;
	for (int fd = 3; gate.plugs < accepts && gate.plugs < PLUGS_MAX; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			gate.plug[gate.plugs++] = fd;
	}
}

static void plug_closed(void)
{
	for (uint32_t i = 0; i < gate.plugs; i++) {
		if (fcntl(gate.plug[i], F_GETFD) < 0)
			(void)dup3(gate.quiet, gate.plug[i], O_CLOEXEC);
	}
}

/* Lets EAL's thread run on any CPU. If the program was pinned before it started EAL, that thread
 * would stay on the CPU where the program polls. */
static void unpin_thread(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	(void)sched_setaffinity(0, sizeof(all), &all);
}

static void unblock_bursts(void)
{
	plug_closed();
	for (struct dpdk *io = gate.first; io; io = io->next) {
		if (io->kind != DPDK_MEMIF)
			continue;
		watch_links(io);
		atomic_store(&io->want, false);
	}
}

static void rest_round(void)
{
	const struct timespec least = {.tv_nsec = REST_NS};

	(void)nanosleep(&least, NULL);
}

static void sleep_round(void)
{
	pthread_mutex_unlock(&dpdk_world);
	rest_round();
	do
		atomic_fetch_add(&gate.pass, 1);
	while (!dpdk_events_wait(gate.own, TICK_NS));
	pthread_mutex_lock(&dpdk_world);
}

static void run_round(void *unused)
{
	(void)unused;
	if (!atomic_exchange(&gate.entered, true)) {
		unpin_thread();
		pthread_mutex_lock(&dpdk_world);
	} else {
		unblock_bursts();
		if (++gate.rounds < ROUNDS_MAX && dpdk_events_wait(gate.own, 0)) {
			rest_round();
		} else {
			sleep_round();
			/* Sockets made meanwhile become non-blocking: EAL may still have events. */
			if (gate.rounds == ROUNDS_MAX)
				(void)dpdk_events_wait(gate.own, 0);
			gate.rounds = 0;
		}
	}
	hold_off();
	foresee_accepts();
}

static void close_own(void)
{
	if (gate.own >= 0)
		(void)close(gate.own);
	if (gate.quiet >= 0)
		(void)close(gate.quiet);
}

static int start_gate(void)
{
	gate.own = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	gate.quiet = eventfd(0, EFD_CLOEXEC);
	if (gate.own < 0 || gate.quiet < 0) {
		int rc = lend_fail(
		    errno, "no eventfd for DPDK's interrupt thread: raise the limit of open files");

		close_own();
		return rc;
	}
	dpdk_gate_fences =
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
	gate.handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (gate.handle && rte_intr_fd_set(gate.handle, gate.own) == 0 &&
	    rte_intr_type_set(gate.handle, RTE_INTR_HANDLE_EXT) == 0 &&
	    rte_intr_callback_register(gate.handle, run_round, NULL) == 0) {
		while (!atomic_load(&gate.entered)) /* from now on it waits for dpdk_world */
			(void)sched_yield();
		return 0;
	}
	rte_intr_instance_free(gate.handle);
	gate.handle = NULL;
	close_own();
	return lend_fail(ENOMEM,
			 "DPDK's interrupt thread takes no callback: give EAL more memory with -m");
}

int dpdk_world_add(struct dpdk *io, bool gated)
{
	if (gated && gate.handle == NULL) {
		int rc = start_gate();

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
