/* veth - a veth pair in a network namespace of this process, for devices that DPDK drives.
 *
 * lend0 (02:00:00:00:00:01) is for the device KIND0, lend1 (...:02) for KIND1 (or for the kernel:
 * it is up, without an address). The devices take frames below the kernel's stack, so both ends can
 * be in one namespace; it ends with the process, and nothing has a name outside. Threads: before
 * others are started.
 */
#ifndef LEND_TEST_IO_VETH_H
#define LEND_TEST_IO_VETH_H

#include <stdbool.h>
#include <stddef.h>

/* kind: "net_af_packet" or "net_af_xdp". NULL: it is there, and $LEND_EAL makes the devices (both:
 * at both ends, else at lend0 only); else why this machine has none. */
const char *veth_make(const char *kind, bool both);
/* The same at both ends of a pair with several queues; more: of each device's arguments,
 * ",qpairs=4". */
const char *veth_make_queues(const char *kind, int queues, const char *more);
/* How the device at the other end writes an address that KIND0 or KIND1 gave. */
void veth_across(const char *address, char *text, size_t cap);
/* Runs a shell command there; true: it ended well. */
bool veth_run(const char *command);

#endif
