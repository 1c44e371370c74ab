/* Goal: DPDK devices keep the promises of a carrier, without root or hugepages.
 * Method: the conformance suite on net_ring and net_memif.
 * Covers: src/io/dpdk/carrier.c, src/io/dpdk/tx.c, src/io/dpdk/rx.c, src/io/dpdk/ring.c,
 * src/io/dpdk/memif.c */
#include <stdio.h>

#include "io/conform.h"
#include "io/dpdk_fixture.h"

static void ring_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:ring@127.0.0.1:0");
}

static void memif_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:memif@127.0.0.1:0?links=9");
}

/* A link takes two of EAL's 32 ports when both ends are in one process. */
static const struct conform_row ring = {.name = "dpdk-ring",
					.absent = dpdk_absent,
					.address = ring_address,
					.rebinds = true,
					.threads = true,
					.clients = 12,
					.both = true};
static const struct conform_row memif = {.name = "dpdk-memif",
					 .absent = dpdk_absent,
					 .address = memif_address,
					 .rebinds = true,
					 .threads = true,
					 .clients = 9,
					 .both = true};

CONFORM_SUITE(dpdk_ring, &ring)
CONFORM_SUITE(dpdk_memif, &memif)
