/* worker_address - where the workers of one memory node are reached: a rule, so that one address
 * tells all.
 *
 *   shm:NAME[@PATH]              worker i at shm:NAME.i[@PATH]; worker 0 at the name itself
 *   udp:HOST:PORT and devices    worker i at PORT + i, whatever stands around it
 *
 * Layer: wire (pure). Any thread.
 */
#ifndef LEND_WIRE_WORKER_ADDRESS_H
#define LEND_WIRE_WORKER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Given the address of worker from, that of worker to, at most cap bytes with its zero. False, and
 * out is undefined: no such address (the port ends at 65535), too long, or not one of worker from.
 */
bool lend_shard_address(const char *address, uint32_t from, uint32_t to, char *out, size_t cap);
/* The port in it; 0: none, or one that is to be picked. */
uint32_t lend_shard_port(const char *address);

#endif
