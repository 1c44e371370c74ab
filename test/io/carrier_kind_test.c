/* Goal: an address finds the row of its carrier, and nothing else finds one. Method: a table of
 * addresses. The case "traits" of the conformance suites compares the rows with open carriers.
 * Covers: src/io/carrier_kind.c, scripts/carriers.py */
#include <criterion/criterion.h>

#include "io/carrier_kind.h"

static const struct {
	const char *address;
	uint32_t has, lacks; /* some traits; neither: no carrier */
} rows[] = {
    {"shm:shop", LEND_CARRIER_SAME_HOST | LEND_CARRIER_IN_PLACE, LEND_CARRIER_REGISTERS},
    {"shm:shop@/dev/dax0.0", LEND_CARRIER_NAMES, LEND_CARRIER_SAME_HOST | LEND_CARRIER_WAKES},
    {"udp:10.0.0.2:7000", LEND_CARRIER_WAKES, LEND_CARRIER_SAME_HOST | LEND_CARRIER_LOSSLESS},
    {"udp:[::1]:0", LEND_CARRIER_WAKES, LEND_CARRIER_NAMES},
    {"dpdk:ring@127.0.0.1:1", LEND_CARRIER_QUEUES, LEND_CARRIER_WAKES | LEND_CARRIER_REGISTERS},
    {"dpdk:memif@127.0.0.1:1", LEND_CARRIER_SAME_HOST | LEND_CARRIER_WAKES, LEND_CARRIER_NAMES},
    {"dpdk:ring0@10.0.0.2:1", LEND_CARRIER_ONE_DEVICE,
     LEND_CARRIER_QUEUES | LEND_CARRIER_REGISTERS},
    {"dpdk:net_tap0@10.0.0.2:1", LEND_CARRIER_ONE_DEVICE, LEND_CARRIER_WAKES},
    {"verbs:any@10.0.0.2:1", LEND_CARRIER_CHECKED, LEND_CARRIER_ONE_DEVICE},
    {"raw:mlx5_0@10.0.0.2:1", LEND_CARRIER_WAKES, LEND_CARRIER_CHECKED | LEND_CARRIER_REGISTERS},
    {"broker:nic/udp:10.0.0.2:1", LEND_CARRIER_BROKERED,
     LEND_CARRIER_SAME_HOST | LEND_CARRIER_QUEUES},
    {"pool:mem", 0, 0},
    {"http2:h:1", 0, 0},
    {"udp", 0, 0},
    {"", 0, 0},
    {NULL, 0, 0},
};

Test(carrier_kind, addresses)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t traits = lend_carrier_traits(rows[i].address);
		const char *text = rows[i].address ? rows[i].address : "(null)";

		cr_expect_eq(traits & rows[i].has, rows[i].has, "%s: %x", text, traits);
		cr_expect_eq(traits & rows[i].lacks, 0, "%s: %x", text, traits);
		cr_expect_eq(traits != 0, rows[i].has != 0, "%s: %x", text, traits);
		cr_expect_eq(lend_carrier_kind(rows[i].address) != NULL, rows[i].has != 0, "%s",
			     text);
	}
}
