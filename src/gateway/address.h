/* address - addresses of HTTP/2 over TCP, and their sockets.
 *
 * Layer: gateway. Threads: any. No state. */
#ifndef LEND_GATEWAY_ADDRESS_H
#define LEND_GATEWAY_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>

enum { H2_HOST_MAX = 256 };
/* Finds the addresses of "HOST:PORT" or "[IPv6]:PORT"; a listener's host may be missing. Copies the
 * host. Returns 0; -EINVAL: text; -ENOENT: no such host. The caller frees *found. */
int h2_address_find(const char *text, bool listens, struct addrinfo **found,
		    char host[H2_HOST_MAX]);
/* Sets what every connection has: no delay, and an end if the peer's machine is gone. */
void h2_socket_options(int fd);

#endif
