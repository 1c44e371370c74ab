/* net - the simulated network: links into switches with finite shared buffers, and every network
 * fault of the plan.
 *
 * Node n has address n, and peer index n in every core. The path of a datagram: sim_net_send() at
 * the sender's link (rate, faults), the switch (shared buffer, ECN), the receiver's link (rate,
 * delay, jitter), sim_node_arrive() at the receiver's ring. Layer: test/sim. */
#ifndef SIM_NET_NET_H
#define SIM_NET_NET_H

#include "sim/sim.h"

void sim_net_open(struct sim *sim);
void sim_net_close(struct sim *sim);
/* Redirects arrivals to this function instead of the nodes' rings. */
void sim_net_deliver(struct sim *sim,
		     void (*deliver)(struct sim *, uint32_t node, uint32_t flight));
enum {
	SIM_SHARES = 200
}; /* shortest piece in bytes that the receiver reads in the sender's memory */
/* True when the reader node can read the shared memory of the other node. */
bool sim_net_reads(const struct sim *sim, uint32_t reader, uint32_t of);
/* Sends one datagram as a carrier does: copies it, or returns full or dead. A lossless carrier is
 * full while datagrams on their way fill the receiver's ring, and dead when the receiver is
 * down. */
enum lend_sent sim_net_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			    const struct lend_out *out);
/* Returns how many datagrams of full length, at most n, a node's link accepts before its short
 * queue is full. Such a carrier keeps its queue short, so that urgent datagrams need not wait in
 * it. */
uint32_t sim_net_room(const struct sim *sim, uint32_t node, uint32_t n);
/* Returns the bytes queued at a node's link. */
uint64_t sim_net_queued(const struct sim *sim, uint32_t node);
/* Returns when half of that queue will be sent. */
lend_ns sim_net_drained(const struct sim *sim, uint32_t node);
/* Handles the network's events of the heap: ARRIVE, PORT, PARTITION. */
void sim_net_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b);
/* Replays up to n recorded datagrams, such as after a restart. */
void sim_net_replay(struct sim *sim, uint32_t to, uint32_t n);
/* Breaks or repairs a rack's link to a spine. known: changes the leaves' routing instead of the
 * link. Until leaves know of a failure, datagrams over that link are lost. */
void sim_net_link(struct sim *sim, uint32_t rack, uint32_t spine, bool works, bool known);
/* Sends foreign datagrams of full length to a node from now on, plan.foreign_mbps of them. They
 * come from any other node's rack, take room and time of switches, and end at the node's port. */
void sim_net_foreign(struct sim *sim, uint32_t to);
/* Handles a node's death. On a lossless carrier its datagrams arrive, then a hang-up (a flight with
 * gone set) at every other node, and datagrams on their way to it are lost. */
void sim_net_crash(struct sim *sim, uint32_t node);
/* Stops the faults; datagrams under way arrive. */
void sim_net_heal(struct sim *sim);
/* True when no datagram is on its way and every flight is back in its pool. */
bool sim_net_idle(const struct sim *sim);
/* Hostile datagrams come from any node's address, and from this many addresses behind the last
 * node's, which no node receives at. */
enum { SIM_STRANGERS = 4 };
/* A datagram at a node's ring. Valid from arrival until the end of the turn that receives it; the
 * node frees it with sim_net_free(). */
struct sim_flight {
	uint32_t from, to, len;
	uint8_t ecn, gone;
	uint8_t queue; /* switch queue of a port: 0 is served first */
	/* not sent by the node at this address: it must change nothing, and may cause one short
	 * reply */
	uint8_t forged;
	uint8_t foreign; /* not Lend's: no node receives it */
	uint32_t index, next;
	uint32_t life; /* life of its receiver when it was sent */
	lend_ns at;
	uint8_t *data; /* room for the plan's mtu plus one byte */
	uint8_t *body; /* NULL, or the payload when it is read in the sender's memory */
	uint32_t body_len;
	uint32_t parts; /* 0: body is contiguous for its receiver as well */
	struct lend_part part[LEND_PARTS];
};
struct sim_flight *sim_net_flight(struct sim *sim, uint32_t flight);
void sim_net_free(struct sim *sim, uint32_t flight);

#endif
