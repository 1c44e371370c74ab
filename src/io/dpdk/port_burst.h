/* port_burst - a device between hosts: set up once for all who share it, with its link, its
 * rules and its neighbours. What those files offer the rest of the module. Layer: io. Threads: as
 * dpdk.h says. */
#ifndef LEND_IO_DPDK_DEVICE_H
#define LEND_IO_DPDK_DEVICE_H

#include "io/dpdk/dpdk.h"

/* shared_port.c: dpdk_world held. */
/* The device of that name, set up when it is used for the first time. */
int dpdk_share_open(struct dpdk *io, const struct dpdk_address *address, struct dpdk_port *port);
void dpdk_share_close(struct dpdk_port *port);

/* port_state.c */
void dpdk_link_watch(struct dpdk_share *share, const struct rte_eth_dev_info *info);
void dpdk_link_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now);
/* 0, or why nothing can be reached over that device now. */
int dpdk_link_check(const struct dpdk_share *share);
/* Its queues could not be set up, by lend_fail() with rc: rc, with a better reason if there is one.
 */
int dpdk_link_refused(const struct dpdk_share *share, const struct rte_eth_dev_info *info, int rc);
/* The longest IP packet that a device and its interface can carry. */
uint32_t dpdk_link_mtu(const struct dpdk_share *share, const struct rte_eth_dev_info *info);

/* flow.c */
void dpdk_flow_spread(const struct rte_eth_dev_info *info, uint16_t queues,
		      struct rte_eth_conf *conf);
/* Has the device put an owner's frames into a queue of their own, if it can. */
void dpdk_flow_make(struct dpdk_share *share, struct dpdk_owner *owner);
void dpdk_flow_drop(struct dpdk_share *share, struct dpdk_owner *owner);

/* port_burst.c */
/* What is due: questions to neighbours, the link's state. */
void dpdk_device_tick(struct dpdk *io);
/* 0 and the MAC to send to, -EINPROGRESS, or -errno. */
int dpdk_device_resolve(struct dpdk *io, const struct dpdk_address *to, uint8_t mac[6]);
uint16_t dpdk_device_rx(struct dpdk *io, struct rte_mbuf **buf, uint16_t cap);
uint16_t dpdk_device_tx(struct dpdk_port *port, struct rte_mbuf **buf, uint16_t n);
/* Frames for another endpoint of this process on the same device: a card does not bring back what
 * it sends. */
uint16_t dpdk_device_loop(struct dpdk_port *port, struct rte_mbuf **buf, uint16_t n);
/* A datagram for us that a device brought: false, it is counted and dropped. */
bool dpdk_device_good(struct dpdk *io, const struct rte_mbuf *buf,
		      const struct lend_eth_frame *frame);
/* The UDP checksum of a frame that is about to leave. */
void dpdk_device_sum(const struct dpdk_share *share, struct rte_mbuf *buf,
		     const struct lend_eth_head *head, uint32_t len);

/* neigh.c: ARP and neighbour discovery on a shared device. */
void dpdk_neigh_heard(struct dpdk *io, struct dpdk_port *port, const uint8_t *bytes, uint32_t len);
/* A peer's frame came from another MAC than we send to. */
void dpdk_neigh_moved(struct dpdk *io, struct dpdk_port *port, struct dpdk_peer *peer,
		      const uint8_t mac[6]);
/* 0 and the MAC of a neighbour, -EINPROGRESS, or -errno. */
int dpdk_neigh_find(struct dpdk *io, struct dpdk_port *port, const struct lend_ip *ip,
		    uint8_t mac[6]);
void dpdk_neigh_announce(struct dpdk *io, struct dpdk_port *port);
void dpdk_neigh_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now);

#endif
