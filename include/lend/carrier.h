/* lend/carrier.h - what each carrier of datagrams can do.
 *
 * Threads: any. */
#ifndef LEND_CARRIER_H
#define LEND_CARRIER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Traits of a carrier. The table of all carriers is in src/io/README.md. */
enum lend_carrier_trait {
	LEND_CARRIER_SAME_HOST = 1 << 0,  /* both ends are on one host */
	LEND_CARRIER_NAMES = 1 << 1,      /* a listener has a name instead of an IP and a port */
	LEND_CARRIER_USER = 1 << 2,       /* both ends are processes of one user */
	LEND_CARRIER_LOSSLESS = 1 << 3,   /* no datagram is lost while the peer lives */
	LEND_CARRIER_CHECKED = 1 << 4,    /* corruption is detected without a checksum by Lend */
	LEND_CARRIER_PROVEN = 1 << 5,     /* a sender's address cannot be forged */
	LEND_CARRIER_HANGS_UP = 1 << 6,   /* the end of a peer is reported at once */
	LEND_CARRIER_IN_PLACE = 1 << 7,   /* long messages are read in the sender's memory */
	LEND_CARRIER_WAKES = 1 << 8,      /* a sleeping endpoint is woken by a file descriptor */
	LEND_CARRIER_REGISTERS = 1 << 9,  /* registered memory is sent in place: Lend copies none */
	LEND_CARRIER_OVERTAKES = 1 << 10, /* urgent datagrams have a queue of their own */
	LEND_CARRIER_QUEUES = 1 << 11,    /* the endpoints of a process have a queue each */
	LEND_CARRIER_ONE_DEVICE = 1 << 12, /* its devices belong to the process that opened one */
	LEND_CARRIER_BROKERED = 1 << 13,   /* its device belongs to a broker */
	LEND_CARRIER_ONE_SIDED = 1 << 14,  /* a peer's device reads memory of this end by itself */
	LEND_CARRIER_COUNTS = 1 << 15      /* long messages wait while the host's queue is long */
};

/* Finds the traits of the carrier that an address names, whether or not one is open.
 * Returns: a set of enum lend_carrier_trait, of those that do not depend on the device; 0: no
 * carrier has such an address.
 * Ownership: borrows address. */
uint32_t lend_carrier_traits(const char *address);
/* Finds how $LEND_LEVEL protects the datagrams of an address, in endpoints with config.level NULL.
 * Returns: "none", "authenticate" or "encrypt"; NULL: $LEND_LEVEL cannot be read, see lend_why().
 * Ownership: borrows address; the text is a constant. */
const char *lend_carrier_level(const char *address);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
