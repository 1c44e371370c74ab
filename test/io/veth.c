#include "io/veth.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool veth_run(const char *command)
{
	char quiet[400];

	(void)snprintf(quiet, sizeof(quiet), "{ %s; } >/dev/null 2>&1", command);
	return system(quiet) == 0;
}

const char *veth_make(const char *kind, bool both)
{
	char eal[400], second[100] = "";

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) != 0)
		return "lend_io_dpdk.so was not built (libdpdk-dev)";
	if (unshare(CLONE_NEWNET) != 0)
		return "no right to make a network namespace: run as root";
	if (!veth_run("ip link add lend0 address 02:00:00:00:00:01 type veth "
		      "peer name lend1 address 02:00:00:00:00:02 && "
		      "ip link set lend0 up && ip link set lend1 up"))
		return "no veth pair: install iproute2, load the kernel's module veth";
	if (both)
		(void)snprintf(second, sizeof(second), " --vdev=%s1,iface=lend1", kind);
	(void)snprintf(eal, sizeof(eal),
		       "--no-huge -m 192 --no-pci --no-shconf --vdev=%s0,iface=lend0%s", kind,
		       second);
	setenv("LEND_EAL", eal, 1);
	return NULL;
}

void veth_across(const char *address, char *text, size_t cap)
{
	char *digit;

	(void)snprintf(text, cap, "%s", address);
	digit = strchr(text, '@') - 1;
	*digit = *digit == '0' ? '1' : '0';
}
