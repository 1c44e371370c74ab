/* veth - a veth pair in a network namespace of this process, for devices that DPDK drives.
 *
 * lend0 (02:00:00:00:00:01) is for the device KIND0, lend1 (...:02) for KIND1, or for the kernel:
 * it is up, without an address. The devices take frames below the kernel's stack, so both ends can
 * be in one namespace. The namespace ends with the process, and nothing has a name outside it.
 * Layer: test. Threads: before others are started. */
#ifndef LEND_TEST_IO_VETH_H
#define LEND_TEST_IO_VETH_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the pair. kind: "net_af_packet" or "net_af_xdp". Returns NULL on success, with $LEND_EAL
 * set for the devices (both: at both ends, else at lend0 only); else the reason why this machine
 * has none. */
const char *veth_make(const char *kind, bool both);
/* The same with several queues at both ends. more: further arguments of each device, such as
 * ",qpairs=4". */
const char *veth_make_queues(const char *kind, int queues, const char *more);
/* Writes an address that KIND0 or KIND1 gave in the form that the other end uses. */
void veth_across(const char *address, char *text, size_t cap);
/* Runs a shell command in the namespace; true: it succeeded. */
bool veth_run(const char *command);

#endif
