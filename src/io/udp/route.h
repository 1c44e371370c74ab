/* route - properties of the route to a peer: the first device, its packet size, whether GSO batches
 * are split. Layer: io. Any thread. Each function queries the kernel, so none is for the fast path.
 */
#ifndef LEND_IO_UDP_ROUTE_H
#define LEND_IO_UDP_ROUTE_H

#include <stdbool.h>
#include <sys/socket.h>

enum { LEND_UDP_ETHERNET = 1500 }; /* packet size in bytes where the kernel knows no route */

socklen_t lend_udp_length(const struct sockaddr_storage *address);
/* Returns the packet size of the interface that has this address. */
int lend_udp_interface_mtu(const struct sockaddr_storage *local);
/* Returns the packet size of the route to a peer, as far as the kernel knows it. */
int lend_udp_route_mtu(const struct sockaddr_storage *peer);
/* Returns whether the peer is on this host, at the same address that we use on that route. */
bool lend_udp_route_is_local(const struct sockaddr_storage *peer);
/* Returns whether GSO batches may be sent on the route: the receiver gets single datagrams, or
 * asked for joined ones. So it is for a peer on this host, or behind a hardware device. Other
 * devices, such as veth, forward joined datagrams unsplit, and a reader of raw frames behind them
 * (DPDK's net_af_packet) would get a frame that is too long. */
bool lend_udp_route_takes_gso(const struct sockaddr_storage *peer);

#endif
