/* bell - wakes an end of a memif link that sleeps: net_memif has no interrupt for its queues.
 *
 * Both ends map the lock file of the link's id. An end that goes to sleep writes the number of its
 * sleep there, fences, and polls its queues once more. Its peer sends, fences, reads that number,
 * and writes a byte to the sleeper's pipe unless it is zero. An end whose last frames found the
 * peer's queue full also sets a bit: the peer wakes it at its next poll after it took frames.
 * EAL's interrupt thread wakes a carrier when a link comes up or goes down.
 *
 * Layer: io. Threads: the carrier's, except dpdk_bell_wake().
 */
#ifndef LEND_IO_DPDK_BELL_H
#define LEND_IO_DPDK_BELL_H

#include "io/dpdk/dpdk.h"

enum { DPDK_BELL_ROOM = 1 }; /* bit of asleep: the sleeper waits for room, too */

struct dpdk_bell_end {
	_Alignas(64) _Atomic uint32_t asleep; /* even number of the sleep, and DPDK_BELL_ROOM; 0:
						 the end is awake, or was woken */
	/* Number in the name of its pipe; 0: the end has not mapped the page, so it wakes
	 * nothing. */
	_Atomic uint64_t pipe;
};

struct dpdk_bell {
	struct dpdk_bell_end end[2]; /* by dpdk_port.side */
};

/* Opens the carrier's pipe: 0 or -errno with lend_why() set. */
int dpdk_bell_open(struct dpdk *io);
void dpdk_bell_close(struct dpdk *io);
/* Maps the lock file of a client's id for its port: 0 or -errno with lend_why() set. */
int dpdk_bell_make(const struct dpdk *io, struct dpdk_port *port);
/* Maps the lock files of a listener's links that came up. dpdk_world held. */
void dpdk_bell_attach(struct dpdk *io);
void dpdk_bell_detach(struct dpdk_port *port);
/* Marks that no listener has mapped a client's page. The device is stopped. */
void dpdk_bell_forget(struct dpdk_port *port);
/* Returns whether every link's other end wakes this one. */
bool dpdk_bell_wakes(const struct dpdk *io);
/* Publishes that the carrier sleeps. False: there is work. Poll the queues before the sleep. */
bool dpdk_bell_arm(struct dpdk *io);
void dpdk_bell_end_sleep(struct dpdk *io);
/* Wakes the carrier's own thread. Any thread. */
void dpdk_bell_wake(const struct dpdk *io);
/* Wakes the link's other end if it sleeps. */
void dpdk_bell_ring(const struct dpdk *io, struct dpdk_port *port);

/* Returns the number of the other end's sleep; 0: it is awake. */
static inline uint32_t dpdk_bell_other(const struct dpdk_port *port)
{
	return atomic_load_explicit(&port->bell->end[1 - port->side].asleep, memory_order_relaxed);
}

/* Wakes the receiver of frames that were just sent. */
static inline void dpdk_bell_sent(const struct dpdk *io, struct dpdk_port *port)
{
	if (port->bell == NULL)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (dpdk_bell_other(port) != 0)
		dpdk_bell_ring(io, port);
}

/* Wakes a sender that waits for room, once frames were taken. There is no fence: a bit that is not
 * visible yet is seen by the next poll, or before the next sleep. */
static inline void dpdk_bell_polled(const struct dpdk *io, struct dpdk_port *port, uint16_t got)
{
	if (port->bell == NULL)
		return;
	port->drained |= got > 0;
	if (port->drained && dpdk_bell_other(port) & DPDK_BELL_ROOM)
		dpdk_bell_ring(io, port);
}

#endif
