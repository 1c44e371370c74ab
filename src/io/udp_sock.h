/* udp_sock - a datagram socket for an address, and how large a datagram may be on its way. Layer:
 * io. */
#ifndef LEND_IO_UDP_SOCK_H
#define LEND_IO_UDP_SOCK_H

#include <stdint.h>
#include <sys/socket.h>

#include "io/addr.h"
#include "io/io.h"

enum { LEND_UDP_MTU_MAX = 65507, LEND_UDP_MTU_MIN = 512, LEND_UDP_MARK_SPACE = 64 };

/* A name or number to the first address of that family (AF_UNSPEC: any). Asks the resolver, so it
 * may wait. 0, or -EINVAL, -ENOENT, -EAGAIN with lend_why_text() set. */
int lend_udp_lookup(const char *text, int family, struct sockaddr_storage *address);
/* Opens a non-blocking socket, bound, with large buffers; *mtu is the largest payload that needs no
 * IP fragment towards config->peer or at config->listen. 0 or -errno with lend_why_text() set. */
int lend_udp_socket(const struct lend_io_config *config, int *fd, int *family, uint32_t *mtu);
/* It came marked: congestion was experienced. msg has LEND_UDP_MARK_SPACE bytes of control. */
bool lend_udp_is_marked(struct msghdr *msg);
/* "udp:IP:PORT"; 0 or -ERANGE. */
int lend_udp_format(const struct sockaddr_storage *address, char *text, size_t cap);

#endif
