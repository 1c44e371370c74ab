/* name_lookup - finds the addresses of a host in a thread of its own, so that the endpoint's does
 * not wait for a name server.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_NAME_LOOKUP_H
#define LEND_GATEWAY_NAME_LOOKUP_H

#include "gateway/address.h"

struct lookup;
/* Begins with the addresses of "HOST:PORT". Returns 0; -EINVAL: text; or another -errno. */
int lookup_start(const char *text, struct lookup **made);
/* Returns a descriptor that is readable when the result is there. */
int lookup_fd(const struct lookup *l);
/* Ends a lookup with a result. Returns the addresses, which the caller frees; NULL: *error is
 * getaddrinfo's. */
struct addrinfo *lookup_take(struct lookup *l, int *error);
/* Ends a lookup at any time. Its thread frees it when the name server answers or is given up. */
void lookup_drop(struct lookup *l);

#endif
