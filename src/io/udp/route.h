/* route - the way to a peer: its first device, how long packets may be on it, whether what was
 * joined comes apart. Layer: io. Any thread; each asks the kernel, so none is for the fast path. */
#ifndef LEND_IO_UDP_ROUTE_H
#define LEND_IO_UDP_ROUTE_H

#include <stdbool.h>
#include <sys/socket.h>

enum { LEND_UDP_ETHERNET = 1500 }; /* bytes of a packet where nobody knows better */

socklen_t lend_udp_length(const struct sockaddr_storage *address);
/* Packet size of the interface that has this address. */
int lend_udp_interface_mtu(const struct sockaddr_storage *local);
/* Packet size of the route to a peer, as far as the kernel knows it. */
int lend_udp_way_mtu(const struct sockaddr_storage *peer);
/* It is on this host, at the address that we have on that way. */
bool lend_udp_way_is_near(const struct sockaddr_storage *peer);
/* Whoever is at its end gets datagrams one by one, or asked for joined ones: the peer is on this
 * host, or behind a device of hardware. Others, as veth, hand joined ones on as they are, and who
 * reads frames behind them (DPDK's net_af_packet) would get one that is too long. */
bool lend_udp_way_joins(const struct sockaddr_storage *peer);

#endif
