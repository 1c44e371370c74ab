/* Goal: DPDK's devices between hosts are carriers like the others. Method: the conformance suite
 * over a veth pair, a device of the same kind at each end: net_af_packet, over IPv4.
 */
#include <stdio.h>

#include "io/conform.h"
#include "io/veth.h"

static const char *absent(void)
{
	return veth_make("net_af_packet", true);
}

static void near(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_af_packet0@10.9.0.1:0");
}

static void far(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_af_packet1@10.9.0.2:0");
}

static const struct conform_row row = {.name = "af_packet",
				       .absent = absent,
				       .address = near,
				       .far = far,
				       .across = veth_across,
				       .rebinds = true,
				       .threads = true,
				       .clients = 12,
				       .both = true};

CONFORM_SUITE(dpdk_af_packet, &row)
