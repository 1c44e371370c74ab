/* sock - opens datagram sockets for an address and finds the MTU of their route. Layer: io. */
#ifndef LEND_IO_UDP_SOCK_H
#define LEND_IO_UDP_SOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "io/addr.h"
#include "io/io.h"

enum { LEND_UDP_MTU_MAX = 65507, LEND_UDP_MTU_MIN = 512, LEND_UDP_CONTROL = 96 };

/* Resolves a name or number to the first address of that family (AF_UNSPEC: any). Queries the
 * resolver, so it may wait. 0, or -EINVAL, -ENOENT, -EAGAIN with lend_why_text() set. */
int lend_udp_lookup(const char *text, int family, struct sockaddr_storage *address);
struct lend_udp_socket {
	int fd;
	int family;
	uint32_t mtu;    /* largest payload that needs no IP fragment on its route */
	bool keeps_port; /* the socket keeps its port when it is disconnected */
};
/* Opens a non-blocking socket, bound, with large buffers, for config->listen or towards
 * config->peer. 0 or -errno with lend_why_text() set. */
int lend_udp_socket(const struct lend_io_config *config, struct lend_udp_socket *sock);
/* Opens one more socket at fd's address. other: a further socket of this endpoint there, or -1.
 * While it binds, sockets of the same user that ask for SO_REUSEPORT can bind too; no other user
 * can, at any moment. Returns it or -errno; a process that changed its user since it opened fd gets
 * -EADDRINUSE. */
int lend_udp_socket_second(int fd, int other);
/* Opens a socket as lend_udp_socket_second() does and makes a group of it and fd: datagrams are
 * spread over both, unless a filter selects a member. Both keep SO_REUSEPORT. other: an earlier
 * second socket, or -1. */
int lend_udp_socket_twin(int fd, int other);
/* Attaches a filter that delivers all datagrams to the first socket of fd's group. False: fd is
 * in no group. A second socket is in one until a connect() changes its address. */
bool lend_udp_socket_to_first(int fd);
/* Reads the kernel's control data of a message, in LEND_UDP_CONTROL bytes. Sets *tos to the TOS
 * of IPv4 or the traffic class of IPv6. Returns the length of each datagram that the kernel
 * joined; 0: the message is one datagram. */
uint32_t lend_udp_control(struct msghdr *msg, uint8_t *tos);
/* Appends control data to a message: the low len bytes of value. msg_control has
 * LEND_UDP_CONTROL bytes, aligned, of which msg_controllen are used. */
void lend_udp_control_add(struct msghdr *msg, int level, int type, int value, size_t len);
/* Returns whether the kernel takes a message's queueing priority as control data: since Linux 6.14.
 * Sends itself a datagram. */
bool lend_udp_takes_priority(void);
/* Returns whether err is one that the ICMP reply to an earlier datagram left on the socket. It does
 * not concern this call. */
bool lend_udp_is_stale(int err);
/* Writes "udp:IP:PORT". 0 or -ERANGE. */
int lend_udp_format(const struct sockaddr_storage *address, char *text, size_t cap);

#endif
