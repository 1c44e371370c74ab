/* numa - keeps a program on one NUMA node: option --numa N.
 * Layer: cli. Threads: the main one, before there are others, which inherit both. */
#ifndef LEND_CLI_NUMA_H
#define LEND_CLI_NUMA_H

#include <sched.h>
#include <stdbool.h>

#include "cli/option_table.h"

/* Parses a list of the kernel's, such as 0-3,8: the numbers of CPUs or nodes. False: not one. */
bool lend_numa_list(const char *text, cpu_set_t *set);
/* The `take` of --numa. Restricts this process and its children to the node's CPUs, if it has any,
 * and has them allocate memory there while it lasts. lend_cli_bad() for a node that does not exist,
 * with a list of those that do, and for one without CPUs that this process may use. */
void lend_numa_take(const struct lend_option *option, void *field, char *value);
/* Returns the node of the first device in a list of addresses such as "verbs:mlx5_0@10.0.0.2:0", or
 * -1 if the kernel reports none. sysfs: "/sys", or a folder like it. */
int lend_numa_of(const char *sysfs, const char *addresses);
/* Like lend_numa_take(), on that device's node, unless an option took a node. Changes nothing if
 * there is none, or if this process may not use its CPUs. */
void lend_numa_follow(const char *addresses);

#define OPT_NUMA(TAKE)                                                                             \
	OPT_TAKEN("numa", "N", TAKE,                                                               \
		  "Run on the CPUs of NUMA node N and allocate memory there; pools and rings of "  \
		  "a dpdk device stay on the device's own node, which is lend-mn's and "           \
		  "lend-broker's default")

#endif
