/* Goal: DPDK devices between hosts keep the promises of a carrier.
 * Method: the conformance suite over a veth pair with a device of the same kind at each end:
 * net_af_packet over IPv4, net_af_xdp over IPv6.
 * Covers: src/io/dpdk/carrier.c, src/io/dpdk/port.c, src/io/dpdk/tx.c, src/io/dpdk/rx.c,
 * src/io/dpdk/rx_wake.c */
#include <stdio.h>

#include "io/conform.h"
#include "io/veth.h"

/* Of the running case, which is a process of its own. */
static const char *kind;
static bool six;

static const char *packet_absent(void)
{
	kind = "net_af_packet";
	return veth_make(kind, true);
}

static const char *xdp_absent(void)
{
	kind = "net_af_xdp";
	six = true;
	return veth_make(kind, true);
}

static void write_end(int end, char *text, size_t cap)
{
	(void)snprintf(text, cap, six ? "dpdk:%s%d@[fd09::%d]:0" : "dpdk:%s%d@10.9.0.%d:0", kind,
		       end, end + 1);
}

static void near_address(char *text, size_t cap)
{
	write_end(0, text, cap);
}

static void far_address(char *text, size_t cap)
{
	write_end(1, text, cap);
}

#define ROW(noun, missing)                                                                         \
	{                                                                                          \
		.name = noun, .absent = missing, .address = near_address, .far = far_address,      \
		.across = veth_across, .rebinds = true, .threads = true, .clients = 12,            \
		.both = true                                                                       \
	}

static const struct conform_row packet = ROW("af_packet", packet_absent);
static const struct conform_row xdp = ROW("af_xdp", xdp_absent);

CONFORM_SUITE(dpdk_af_packet, &packet)
CONFORM_SUITE(dpdk_af_xdp, &xdp)
