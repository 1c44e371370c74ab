/* carrier_kind - the table of carriers: their addresses, what each can do, how one is opened.
 *
 * Layer: io. Any thread. scripts/carriers.py prints the table into the README, and the case
 * "traits" of the conformance suite compares each row with an open carrier.
 */
#ifndef LEND_IO_CARRIER_KIND_H
#define LEND_IO_CARRIER_KIND_H

#include "lend/carrier.h"

struct lend_io;
struct lend_io_config;

struct lend_carrier_kind {
	const char *begin; /* of an address */
	const char *part;  /* NULL, or what the rest of the address contains, too */
	uint32_t traits;   /* set of enum lend_carrier_trait */
	uint32_t some;     /* those that depend on the device, or on the traffic */
	uint32_t mtu;      /* longest datagram */
	/* Opens one, as lend_io_open(). NULL: that is in a module, and built with a package. */
	int (*open)(const struct lend_io_config *config, struct lend_io **io);
	const char *module, *package;
};

/* Returns the kind of carrier that an address names, or NULL. */
const struct lend_carrier_kind *lend_carrier_kind(const char *address);

#endif
