#include "io/carrier_kind.h"

#include <stddef.h>
#include <string.h>

#include "io/builtin.h"

enum {
	SAME_HOST = LEND_CARRIER_SAME_HOST,
	NAMES = LEND_CARRIER_NAMES,
	USER = LEND_CARRIER_USER,
	LOSSLESS = LEND_CARRIER_LOSSLESS,
	CHECKED = LEND_CARRIER_CHECKED,
	PROVEN = LEND_CARRIER_PROVEN,
	HANGS_UP = LEND_CARRIER_HANGS_UP,
	IN_PLACE = LEND_CARRIER_IN_PLACE,
	WAKES = LEND_CARRIER_WAKES,
	REGISTERS = LEND_CARRIER_REGISTERS,
	OVERTAKES = LEND_CARRIER_OVERTAKES,
	QUEUES = LEND_CARRIER_QUEUES,
	ONE_DEVICE = LEND_CARRIER_ONE_DEVICE,
	BROKERED = LEND_CARRIER_BROKERED,
	ONE_SIDED = LEND_CARRIER_ONE_SIDED,
	COUNTS = LEND_CARRIER_COUNTS,
};

/* An address belongs to the first row that fits. */
static const struct lend_carrier_kind kinds[] = {
    {.begin = "shm:",
     .part = "@",
     .traits = NAMES | LOSSLESS | PROVEN | HANGS_UP | QUEUES,
     .mtu = 16640,
     .open = lend_io_multihost_open},
    {.begin = "shm:",
     .traits = SAME_HOST | NAMES | USER | LOSSLESS | CHECKED | PROVEN | HANGS_UP | IN_PLACE |
	       WAKES | OVERTAKES | QUEUES,
     .mtu = 16640,
     .open = lend_io_shm_open},
    {.begin = "udp:",
     .traits = WAKES | QUEUES | COUNTS,
     .some = OVERTAKES,
     .mtu = 65507,
     .open = lend_io_udp_open},
    {.begin = "dpdk:ring@",
     .traits = SAME_HOST | USER | LOSSLESS | CHECKED | PROVEN | HANGS_UP | QUEUES | ONE_DEVICE,
     .mtu = 9174,
     .module = "dpdk",
     .package = "libdpdk-dev"},
    {.begin = "dpdk:memif@",
     .traits = SAME_HOST | USER | LOSSLESS | CHECKED | PROVEN | HANGS_UP | WAKES | REGISTERS |
	       OVERTAKES | QUEUES | ONE_DEVICE,
     .mtu = 9174,
     .module = "dpdk",
     .package = "libdpdk-dev"},
    {.begin = "dpdk:",
     .traits = ONE_DEVICE,
     .some = WAKES | REGISTERS | OVERTAKES | QUEUES | COUNTS,
     .mtu = 9174,
     .module = "dpdk",
     .package = "libdpdk-dev"},
    {.begin = "verbs:",
     .traits = CHECKED | WAKES | REGISTERS | QUEUES | COUNTS,
     .some = ONE_SIDED,
     .mtu = 4096,
     .module = "verbs",
     .package = "librdmacm-dev"},
    {.begin = "raw:",
     .traits = WAKES | QUEUES | COUNTS,
     .mtu = 9152,
     .module = "raw",
     .package = "libibverbs-dev"},
    {.begin = "broker:",
     .traits = WAKES | BROKERED,
     .some = SAME_HOST | USER | CHECKED | PROVEN,
     .mtu = 16640,
     .open = lend_io_broker_open},
};

const struct lend_carrier_kind *lend_carrier_kind(const char *address)
{
	for (size_t i = 0; address && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t len = strlen(kinds[i].begin);

		if (strncmp(address, kinds[i].begin, len) == 0 &&
		    (kinds[i].part == NULL || strstr(address + len, kinds[i].part)))
			return &kinds[i];
	}
	return NULL;
}

uint32_t lend_carrier_traits(const char *address)
{
	const struct lend_carrier_kind *kind = lend_carrier_kind(address);

	return kind ? kind->traits : 0;
}
