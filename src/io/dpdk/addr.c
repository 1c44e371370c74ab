/* dpdk/addr - addresses of the form dpdk:KIND@IP:PORT[?key=value&...], IPv6 in brackets.
 * Layer: io. Threads: any.
 */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <string.h>

#include "io/eth/addr.h"
#include "sys/last_error.h"

enum {
	KEYS = LEND_ETH_FROM | LEND_ETH_VIA | LEND_ETH_MAC | LEND_ETH_VLAN | LEND_ETH_MTU |
	       LEND_ETH_LINKS | LEND_ETH_QUEUES
};

static int fail_address(const char *text)
{
	return lend_fail(EINVAL,
			 "%.100s: does not parse; write dpdk:ring@IP:PORT, dpdk:memif@IP:PORT, "
			 "dpdk:DEVICE@IP:PORT or dpdk:DEVICE@[IPV6]:PORT",
			 text);
}

/* Checks the limits of EAL and its devices. ring and memif use an IPv4 address, and only as a
 * name. */
static bool is_possible(const struct lend_eth_address *a, enum dpdk_kind kind)
{
	return a->links <= DPDK_PORTS_MAX - 4 && a->queues <= DPDK_QUEUES_MAX &&
	       a->mtu <= DPDK_FRAME_MAX - LEND_ETH_HEAD_MAX &&
	       (kind == DPDK_DEVICE || lend_ip_is4(&a->ip));
}

int dpdk_address_parse(const char *text, struct dpdk_address *address)
{
	struct lend_eth_address a;
	enum dpdk_kind kind;

	if (!lend_eth_address_parse("dpdk", text, KEYS, &a))
		return fail_address(text);
	kind = strcmp(a.device, "ring") == 0    ? DPDK_RING
	       : strcmp(a.device, "memif") == 0 ? DPDK_MEMIF
						: DPDK_DEVICE;
	if (!is_possible(&a, kind))
		return fail_address(text);
	*address = (struct dpdk_address){.kind = kind,
					 .ip = a.ip,
					 .udp = a.udp,
					 .links = a.links ? a.links : DPDK_LINKS,
					 .from = a.from,
					 .via = a.via,
					 .has_from = a.given & LEND_ETH_FROM,
					 .has_via = a.given & LEND_ETH_VIA,
					 .has_mac = a.given & LEND_ETH_MAC,
					 .vlan = a.vlan,
					 .mtu = a.mtu,
					 .queues = a.queues};
	memcpy(address->device, a.device, sizeof(address->device));
	memcpy(address->mac, a.mac, sizeof(address->mac));
	return 0;
}

int dpdk_address_print(const char *device, const struct lend_eth_end *end, char *text, size_t cap)
{
	return lend_eth_address_print("dpdk", device, end, text, cap);
}
