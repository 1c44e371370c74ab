/* numa - see numa.h. */
#include "cli/numa.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES_MAX = 1024, LIST_MAX = 512, WORD_BITS = 8 * sizeof(unsigned long) };

bool lend_numa_list(const char *text, cpu_set_t *set)
{
	char *end;

	CPU_ZERO(set);
	while (*text >= '0' && *text <= '9') {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= CPU_SETSIZE)
			return false;
		for (; first <= last; first++)
			CPU_SET(first, set);
		if (*end != ',')
			return *end == '\0';
		text = end + 1;
	}
	return false;
}

/* Reads a line of /sys/devices/system/node. Empty: there is no such file, or it is empty. */
static void read_line(const char *name, char line[LIST_MAX])
{
	char path[64];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/sys/devices/system/node/%s", name);
	line[0] = '\0';
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(line, LIST_MAX, file))
		line[0] = '\0';
	(void)fclose(file);
	line[strcspn(line, "\n")] = '\0';
}

/* A process that may run on a node's CPUs could have been kept from others by an earlier --numa. */
static const cpu_set_t *cpus_at_first(void)
{
	static cpu_set_t set;

	if (CPU_COUNT(&set) == 0 && sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_SET(0, &set);
	return &set;
}

/* Finds the CPUs of a node that this process may use. False: the node has none, or the kernel has
 * no nodes. */
static bool find_cpus(unsigned node, char list[LIST_MAX], cpu_set_t *cpus)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "node%u/cpulist", node);
	read_line(name, list);
	if (!lend_numa_list(list, cpus))
		return false;
	CPU_AND(cpus, cpus, cpus_at_first());
	return true;
}

static void stay_on_cpus(const char *option, unsigned node)
{
	char list[LIST_MAX];
	cpu_set_t cpus;

	if (!find_cpus(node, list, &cpus))
		return;
	if (CPU_COUNT(&cpus) == 0)
		lend_cli_bad("--%s %u: its CPUs are %s, and this process may use none of them: "
			     "choose another node, or start it with other CPUs (taskset -c)",
			     option, node, list);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		lend_cli_bad("--%s %u: %s", option, node, strerror(errno));
}

static bool prefer_memory(unsigned node)
{
	unsigned long mask[NODES_MAX / WORD_BITS] = {0};

	mask[node / WORD_BITS] = 1ul << node % WORD_BITS;
	return syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, NODES_MAX) == 0;
}

static void read_nodes(char list[LIST_MAX], cpu_set_t *nodes)
{
	read_line("has_memory", list);
	if (!lend_numa_list(list, nodes)) { /* a kernel without nodes */
		strcpy(list, "0");
		(void)lend_numa_list(list, nodes);
	}
}

static bool taken; /* the node, by an option */

void lend_numa_take(const struct lend_option *option, void *field, char *value)
{
	unsigned node = (unsigned)lend_cli_u64(option->name, value, 0, NODES_MAX - 1);
	char list[LIST_MAX];
	cpu_set_t nodes;

	(void)field;
	read_nodes(list, &nodes);
	if (!CPU_ISSET(node, &nodes))
		lend_cli_bad("--%s %u: no such NUMA node with memory; there are: %s", option->name,
			     node, list);
	stay_on_cpus(option->name, node);
	if (CPU_COUNT(&nodes) > 1 && !prefer_memory(node))
		lend_cli_bad("--%s %u: set_mempolicy: %s: allow this system call in the "
			     "container's seccomp profile",
			     option->name, node, strerror(errno));
	taken = true;
}

/* Reads a node's number from a file of sysfs. -1: there is none. */
static int read_node(const char *path)
{
	FILE *file = fopen(path, "re");
	int node = -1;

	if (file && fscanf(file, "%d", &node) != 1)
		node = -1;
	if (file)
		(void)fclose(file);
	return node >= 0 && node < NODES_MAX ? node : -1;
}

/* Finds the node of the device in one address, of len bytes. */
static int node_of_one(const char *sysfs, const char *address, size_t len)
{
	static const char *const place[][2] = {
	    {"bus/pci/devices", ""}, {"class/infiniband", "/device"}, {"class/net", "/device"}};
	const char *device = memchr(address, ':', len);
	const char *end = device ? memchr(device, '@', len - (size_t)(device - address)) : NULL;
	char path[PATH_MAX];
	int node = -1;

	if (end == NULL || memchr(device, '/', (size_t)(end - device)))
		return -1;
	device++;
	for (size_t i = 0; node < 0 && i < sizeof(place) / sizeof(place[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s/%.*s%s/numa_node", sysfs, place[i][0],
			       (int)(end - device), device, place[i][1]);
		node = read_node(path);
	}
	return node;
}

int lend_numa_of(const char *sysfs, const char *addresses)
{
	int node = -1;

	for (size_t len; node < 0 && *addresses; addresses += len + (addresses[len] == ',')) {
		len = strcspn(addresses, ",");
		node = node_of_one(sysfs, addresses, len);
	}
	return node;
}

void lend_numa_follow(const char *addresses)
{
	int node = taken ? -1 : lend_numa_of("/sys", addresses);
	char list[LIST_MAX];
	cpu_set_t nodes, cpus;

	if (node < 0)
		return;
	read_nodes(list, &nodes);
	if (CPU_COUNT(&nodes) < 2 || !CPU_ISSET(node, &nodes) ||
	    !find_cpus((unsigned)node, list, &cpus) || CPU_COUNT(&cpus) == 0)
		return;
	if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
		(void)prefer_memory((unsigned)node);
}
