/* address - addresses of HTTP/2 over TCP, and their sockets.
 *
 * Layer: gateway. Threads: any. No state. */
#ifndef LEND_GATEWAY_ADDRESS_H
#define LEND_GATEWAY_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>

enum { H2_HOST_MAX = 256, H2_PORT_MAX = 6 };
/* Copies host and port of "HOST:PORT" or "[IPv6]:PORT"; a listener's host may be "". Returns 0 or
 * -EINVAL. */
int h2_address_split(const char *text, char host[H2_HOST_MAX], char port[H2_PORT_MAX]);
/* Finds the addresses to listen on. Returns 0 or -EINVAL. The caller frees *found. */
int h2_address_listen(const char *text, struct addrinfo **found);
/* Finds the address of a numeric host; *found NULL: it is a name. Copies the host. Returns 0 or
 * -EINVAL. */
int h2_address_numeric(const char *text, struct addrinfo **found, char host[H2_HOST_MAX]);
/* Sets what every connection has: no delay, and an end if the peer's machine is gone. */
void h2_socket_options(int fd);

#endif
