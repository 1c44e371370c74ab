/* worker_address - the addresses of the workers of one memory node, derived from one address.
 *
 *   shm:NAME[@PATH]              worker i at shm:NAME.i[@PATH]; worker 0 at the name itself
 *   udp:HOST:PORT and devices    worker i at PORT + i; the rest of the address is the same
 *
 * Layer: wire (pure). Any thread. */
#ifndef LEND_WIRE_WORKER_ADDRESS_H
#define LEND_WIRE_WORKER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the address of worker `to`, at most cap bytes with its zero, from that of worker `from`.
 * False, and out is undefined: there is no such address (ports end at 65535), it is too long, or
 * the given one is not an address of worker `from`. */
bool lend_worker_address(const char *address, uint32_t from, uint32_t to, char *out, size_t cap);
/* Returns the port in the address; 0: it has none, or a port is to be chosen. */
uint32_t lend_worker_address_port(const char *address);

#endif
