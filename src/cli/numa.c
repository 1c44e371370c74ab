/* numa - see numa.h. */
#include "cli/numa.h"

#include <errno.h>
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

static void stay_on_cpus(const char *option, unsigned node)
{
	char name[32], list[LIST_MAX];
	cpu_set_t cpus, both;

	(void)snprintf(name, sizeof(name), "node%u/cpulist", node);
	read_line(name, list);
	if (!lend_numa_list(list, &cpus))
		return; /* a node of memory alone, or a kernel without nodes */
	CPU_AND(&both, &cpus, cpus_at_first());
	if (CPU_COUNT(&both) == 0)
		lend_cli_bad("--%s %u: its CPUs are %s, and this process may use none of them: "
			     "choose another node, or start it with other CPUs (taskset -c)",
			     option, node, list);
	if (sched_setaffinity(0, sizeof(both), &both) != 0)
		lend_cli_bad("--%s %u: %s", option, node, strerror(errno));
}

static void prefer_memory(const char *option, unsigned node)
{
	unsigned long mask[NODES_MAX / WORD_BITS] = {0};

	mask[node / WORD_BITS] = 1ul << node % WORD_BITS;
	if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, NODES_MAX) != 0)
		lend_cli_bad("--%s %u: set_mempolicy: %s: allow this system call in the "
			     "container's seccomp profile",
			     option, node, strerror(errno));
}

void lend_numa_take(const struct lend_option *option, void *field, char *value)
{
	unsigned node = (unsigned)lend_cli_u64(option->name, value, 0, NODES_MAX - 1);
	char list[LIST_MAX];
	cpu_set_t nodes;

	(void)field;
	read_line("has_memory", list);
	if (!lend_numa_list(list, &nodes)) { /* a kernel without nodes */
		strcpy(list, "0");
		(void)lend_numa_list(list, &nodes);
	}
	if (!CPU_ISSET(node, &nodes))
		lend_cli_bad("--%s %u: no such NUMA node with memory; there are: %s", option->name,
			     node, list);
	stay_on_cpus(option->name, node);
	if (CPU_COUNT(&nodes) > 1)
		prefer_memory(option->name, node);
}
