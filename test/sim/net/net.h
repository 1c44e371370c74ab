/* net - the simulated network: links into switches with finite shared buffers, and every fault of
 * the plan. Node n has address n; its peer index in every core is n.
 *
 * A datagram's way: sim_net_send() at the sender's link (rate, faults), the switch (shared buffer,
 * ECN), the receiver's link (rate, delay, jitter), sim_node_arrive() at the receiver's ring.
 * Layer: test/sim. */
#ifndef SIM_NET_NET_H
#define SIM_NET_NET_H

#include "sim/sim.h"

void sim_net_open(struct sim *sim);
void sim_net_close(struct sim *sim);
/* Arrivals go there from now on, instead of to the nodes' rings. */
void sim_net_deliver(struct sim *sim,
		     void (*deliver)(struct sim *, uint32_t node, uint32_t flight));
enum { SIM_SHARES = 200 }; /* bytes of a piece that is read where it lies */
/* Whether one node reads the shared memory of another, where there is any. */
bool sim_net_reads(const struct sim *sim, uint32_t reader, uint32_t of);
/* What a carrier does with one datagram: takes a copy, or says full or dead. A lossless one is full
 * while what is on its way fills the receiver's ring, and dead when the receiver is down. */
enum lend_sent sim_net_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			    const struct lend_out *out);
/* Datagrams of full length, n at most, that a node's link takes before a short queue of it is full:
 * a carrier that keeps its own queue short, so that what is urgent need not wait in it. */
uint32_t sim_net_room(const struct sim *sim, uint32_t node, uint32_t n);
/* When half of that queue will be gone. */
lend_ns sim_net_drained(const struct sim *sim, uint32_t node);
/* Events of the heap that are its own: ARRIVE, PORT, PARTITION. */
void sim_net_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b);
/* The recorder sends up to n datagrams of before once more: after a restart, say. */
void sim_net_replay(struct sim *sim, uint32_t to, uint32_t n);
/* A rack's link to a spine breaks or works again; known: not the link, but what the leaves believe
 * of it. Until they know of a breach, what they send that way is lost. */
void sim_net_link(struct sim *sim, uint32_t rack, uint32_t spine, bool works, bool known);
/* The node died. On a lossless carrier what it sent arrives and then a hang-up does (a flight with
 * gone set, at every other node), and what is on its way to it is lost. */
void sim_net_crash(struct sim *sim, uint32_t node);
/* Faults stop; what is under way arrives. */
void sim_net_heal(struct sim *sim);
/* Nothing is left on the way: every flight is back in its pool. */
bool sim_net_idle(const struct sim *sim);
/* Hostile datagrams come from any node's address, and from so many behind the last node's: what is
 * sent there reaches nobody. */
enum { SIM_STRANGERS = 4 };
/* A datagram at a node's ring: from flight, valid until the end of the turn that takes it; the node
 * gives it back with sim_net_free(). */
struct sim_flight {
	uint32_t from, to, len;
	uint8_t ecn, gone;
	uint8_t queue; /* of a port: 0 is served first */
	/* Not what a node sent from this address: the node checks that it changes nothing, but for
	 * a short answer. */
	uint8_t forged;
	uint32_t index, next;
	uint32_t life; /* of its receiver when it was sent */
	lend_ns at;
	uint8_t *data; /* room for the plan's mtu and one more */
	uint8_t *body; /* NULL, or the payload: its sender's memory is read */
	uint32_t body_len;
};
struct sim_flight *sim_net_flight(struct sim *sim, uint32_t flight);
void sim_net_free(struct sim *sim, uint32_t flight);

#endif
