/* port_burst - a network device shared by the endpoints of a process: its set-up, link, flow rules
 * and neighbours, as these files offer them to the rest of the module. Layer: io. Threads: see
 * dpdk.h. */
#ifndef LEND_IO_DPDK_DEVICE_H
#define LEND_IO_DPDK_DEVICE_H

#include "io/dpdk/dpdk.h"

/* shared_port.c: dpdk_world held. */
/* Attaches a port to the device of that name, and sets the device up at its first use. */
int dpdk_shared_port_open(struct dpdk *io, const struct dpdk_address *address,
			  struct dpdk_port *port);
void dpdk_shared_port_close(struct dpdk_port *port);

/* queue_plan.c */
/* Returns the number of receive queues to ask the device for. wanted: ?queues=; 0: not given. */
uint16_t dpdk_queue_count(const struct rte_eth_dev_info *info, uint32_t wanted);
/* Returns the number of transmit queues per receive queue: DPDK_ROUTES, or 1 if the device has
 * fewer. */
uint16_t dpdk_queue_ways(const struct rte_eth_dev_info *info, uint16_t queues);
/* Chooses what to try after a refusal. False: one queue of each direction was refused, too. */
bool dpdk_queue_fewer(uint16_t *queues, uint16_t *ways);

/* tx_waiting.c */
/* Returns the descriptors of a transmit queue of a device that was started; 0: its driver does not
 * tell which of them wait. */
uint16_t dpdk_tx_slots(uint16_t id);
/* Returns how many descriptors of a queue wait for the device. */
uint32_t dpdk_tx_waiting(uint16_t id, uint16_t queue, uint16_t slots);

/* frame_pool.c: dpdk_world held. */
/* Returns the longest frame that buffers for that device have room for. */
uint32_t dpdk_pool_room(const struct rte_eth_dev_info *info);
/* Makes a pool for each queue, on the device's NUMA node: 0, or -ENOMEM with lend_why_text() set.
 * Uses share->queues and share->mtu. */
int dpdk_pool_queues(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info);

/* port_state.c */
void dpdk_link_watch(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info);
void dpdk_link_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now);
/* Returns 0, or -errno: the reason why the device reaches nothing now. */
int dpdk_link_check(const struct dpdk_shared_port *share);
/* Handles a failed set-up of queues, already reported by lend_fail() with rc. Returns rc, with a
 * better reason if there is one. */
int dpdk_link_refused(const struct dpdk_shared_port *share, const struct rte_eth_dev_info *info,
		      int rc);
/* Returns the length of the longest IP packet that a device and its interface can carry. */
uint32_t dpdk_link_mtu(const struct dpdk_shared_port *share, const struct rte_eth_dev_info *info);

/* flow.c */
void dpdk_flow_spread(const struct rte_eth_dev_info *info, uint16_t queues,
		      struct rte_eth_conf *conf);
/* Makes the device steer an owner's frames to a queue of their own, if it can. */
void dpdk_flow_make(struct dpdk_shared_port *share, struct dpdk_owner *owner);
void dpdk_flow_drop(struct dpdk_shared_port *share, struct dpdk_owner *owner);

/* port_burst.c */
/* Runs periodic work: requests to neighbours, a check of the link. */
void dpdk_device_tick(struct dpdk *io);
/* Resolves an address to the MAC to send to: 0, -EINPROGRESS, or -errno. */
int dpdk_device_resolve(struct dpdk *io, const struct dpdk_address *to, uint8_t mac[6]);
uint16_t dpdk_device_rx(struct dpdk *io, struct rte_mbuf **buf, uint16_t cap);
/* Sends frames in the endpoint's transmit queue for urgent (way 1) or other datagrams (way 0).
 * Returns how many the device took. */
uint16_t dpdk_device_tx(struct dpdk_port *port, uint16_t way, struct rte_mbuf **buf, uint16_t n);
/* Returns the bytes that wait in the endpoint's transmit queue. */
uint64_t dpdk_device_queued(struct lend_io *io);
/* Passes frames to another endpoint of this process on the same device, as a card does not loop
 * back what it sends. */
uint16_t dpdk_device_loop(struct dpdk_port *port, struct rte_mbuf **buf, uint16_t n);
/* True for a valid datagram for this carrier. False: it was counted and must be dropped. */
bool dpdk_device_good(struct dpdk *io, const struct rte_mbuf *buf,
		      const struct lend_eth_frame *frame);
/* Sets the UDP checksum of a frame to send, or has the device compute it. */
void dpdk_device_sum(const struct dpdk_shared_port *share, struct rte_mbuf *buf,
		     const struct lend_eth_head *head, uint32_t len);

/* rx_wake.c: sleep until a device has frames. */
/* Remembers the sockets of the devices so far, before one more is set up. dpdk_world held. */
void dpdk_wake_prepare(void);
/* Finds the sockets that are the queues of a device that was just set up. dpdk_world held. */
void dpdk_wake_find(struct dpdk_shared_port *share, const struct rte_eth_dev_info *info);
/* Returns whether the device's driver is asked for receive interrupts. */
bool dpdk_wake_interrupts(const struct rte_eth_dev_info *info);
/* Finds the interrupts of a device that was just started with them. dpdk_world held. */
void dpdk_wake_find_interrupts(struct dpdk_shared_port *share);
/* Makes what the endpoint sleeps on: 0, or -errno with lend_why() set. */
int dpdk_wake_open(struct dpdk *io);
void dpdk_wake_close(struct dpdk *io);
/* Wakes sleeping owners whose rings were just filled. Any thread that may read the list of owners.
 */
void dpdk_wake_owners(struct dpdk_shared_port *share);
/* Publishes that the endpoint sleeps, and arms interrupts. False: there are frames, or there may
 * be. */
bool dpdk_wake_arm(struct dpdk *io);
/* Returns whether the queues must be polled once more before the endpoint sleeps: interrupts were
 * armed, and signal only what arrives from now on. */
static inline bool dpdk_wake_must_look(const struct dpdk *io)
{
	return io->watches && io->port[0]->share->interrupts;
}

/* Decides what the next sleep waits for, and how long at most. polls: the endpoint polled many
 * times since its last tick. */
void dpdk_wake_tick(struct dpdk *io, bool polls, lend_ns now);
void dpdk_wake_end(struct dpdk *io);

/* neigh.c: ARP and neighbour discovery on a shared device. */
void dpdk_neigh_update(struct dpdk *io, struct dpdk_port *port, const uint8_t *bytes, uint32_t len);
/* Handles a peer's frame from another MAC than the one we send to. */
void dpdk_neigh_moved(struct dpdk *io, struct dpdk_port *port, struct dpdk_peer *peer,
		      const uint8_t mac[6]);
/* Resolves a neighbour's MAC: 0, -EINPROGRESS, or -errno. */
int dpdk_neigh_find(struct dpdk *io, struct dpdk_port *port, const struct lend_ip *ip,
		    uint8_t mac[6]);
void dpdk_neigh_announce(struct dpdk *io, struct dpdk_port *port);
void dpdk_neigh_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now);

#endif
