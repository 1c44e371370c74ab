/* intr_gate - keeps EAL's interrupt thread and the bursts on memif devices apart, and watches
 * memif's links.
 *
 * net_memif answers its control sockets in EAL's interrupt thread. When a peer dies that thread
 * unmaps the shared rings, and a burst that is in them at that moment dies too: the driver has
 * no lock. So the interrupt thread is let run only while every memif carrier of the process is
 * outside its bursts. An eventfd that is always readable is one of its sources; its callback
 * ends each of the thread's rounds:
 *
 *	callback: let bursts go - sleep until another source has something - hold bursts off
 *	return, the rest of the round, then one epoll_wait() and its events, all held off, until
 *	callback: look at the links - let bursts go - ...
 *
 * Rounds come only when there is something to do, for each costs who polls on that CPU a switch to
 * the thread and back, and more where others wait for the CPU. That the gate's own source is always
 * readable keeps it the first in each round.
 *
 * A burst that finds itself held off takes and sends nothing and comes again (dpdk_enter); the
 * interrupt thread waits for bursts that are under way. Each says so before it looks whether it
 * is held off, a store before a load: the interrupt thread, which comes seldom, has
 * the kernel fence every thread (membarrier), so that no burst needs a fence of its own. As every
 * round is looked at, no link can go down and up again unseen. Devices are set up with dpdk_world
 * held, which the thread holds while it runs.
 *
 * The driver has one more trap. When a client dies between its connect() and the accept, the
 * driver closes the accepted socket but leaves it with EAL, and EAL panics on a closed
 * descriptor. A round accepts at most one connection per listener, and takes the lowest free
 * numbers for them: those that are closed again after the round are plugged with an eventfd that
 * never has anything, before EAL looks (the gate's own event comes ahead of the pipe that makes
 * EAL rebuild its list). What is left is a death in the same millisecond as another link's
 * coming or going.
 *
 * Layer: io.
 */
#include "io/dpdk/dpdk.h"

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
	REST_NS = 100000,   /* between two rounds, whatever there is to do */
	TICK_NS = 20000000, /* after so long without a round the world may count one */
};

pthread_mutex_t dpdk_world = PTHREAD_MUTEX_INITIALIZER;
bool dpdk_gate_fences = true;

static struct {
	struct dpdk *first;
	struct rte_intr_handle *handle;
	int own;             /* an eventfd that is always readable */
	int quiet;           /* an eventfd that stays at zero */
	int plug[PLUGS_MAX]; /* numbers that the round's accepts will take */
	uint32_t plugs;
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

static void watch(struct dpdk *io)
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
	}
}

/* From here on each thread's stores and loads before are seen, and it sees ours. */
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

/* A program that pins itself before it starts EAL leaves EAL's thread on the cpu where it polls. */
static void roam(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	(void)sched_setaffinity(0, sizeof(all), &all);
}

static void end_round(void)
{
	gate.running = false;
	plug_closed();
	for (struct dpdk *io = gate.first; io; io = io->next) {
		if (io->kind != DPDK_MEMIF)
			continue;
		watch(io);
		atomic_store(&io->want, false);
	}
	pthread_mutex_unlock(&dpdk_world);
}

static void rest(void)
{
	const struct timespec least = {.tv_nsec = REST_NS};

	do {
		atomic_fetch_add(&gate.pass, 1);
		(void)nanosleep(&least, NULL);
	} while (!dpdk_events_wait(gate.own, TICK_NS));
}

static void turn(void *unused)
{
	(void)unused;
	if (!atomic_exchange(&gate.entered, true))
		roam();
	if (gate.running) {
		end_round();
		rest();
	}
	pthread_mutex_lock(&dpdk_world);
	gate.running = true;
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

static int start(void)
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
	    rte_intr_callback_register(gate.handle, turn, NULL) == 0) {
		while (!atomic_load(&gate.entered)) /* from there on it waits for dpdk_world */
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
