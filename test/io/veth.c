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

static const char *make_veth(const char *kind, bool both, int queues, const char *more)
{
	char eal[400], second[100] = "", link[300];

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) != 0)
		return "lend_io_dpdk.so was not built (libdpdk-dev)";
	if (unshare(CLONE_NEWNET) != 0)
		return "no right to make a network namespace: run as root";
	(void)snprintf(link, sizeof(link),
		       "ip link add lend0 address 02:00:00:00:00:01 numrxqueues %d numtxqueues %d "
		       "type veth peer name lend1 address 02:00:00:00:00:02 numrxqueues %d "
		       "numtxqueues %d && ip link set lend0 up && ip link set lend1 up",
		       queues, queues, queues, queues);
	if (!veth_run(link))
		return "no veth pair: install iproute2, load the kernel's module veth";
	while (!veth_run(
	    "ip link show lend0 | grep 'state UP' && ip link show lend1 | grep 'state UP'"))
		; /* the kernel notes a link later; the carrier would take it for down */
	if (both)
		(void)snprintf(second, sizeof(second), " --vdev=%s1,iface=lend1%s", kind, more);
	(void)snprintf(eal, sizeof(eal),
		       "--no-huge -m 192 --no-pci --no-shconf --vdev=%s0,iface=lend0%s%s", kind,
		       more, second);
	setenv("LEND_EAL", eal, 1);
	return NULL;
}

const char *veth_make(const char *kind, bool both)
{
	return make_veth(kind, both, 1, "");
}

const char *veth_make_queues(const char *kind, int queues, const char *more)
{
	return make_veth(kind, true, queues, more);
}

void veth_across(const char *address, char *text, size_t cap)
{
	char *digit;

	(void)snprintf(text, cap, "%s", address);
	digit = strchr(text, '@') - 1;
	*digit = *digit == '0' ? '1' : '0';
}
