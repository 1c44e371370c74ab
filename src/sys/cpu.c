#include "sys/cpu.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "sys/last_error.h"

int lend_cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	return CPU_COUNT(&set);
}

int lend_cpu_at(int index)
{
	cpu_set_t set;
	int left;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	left = index % CPU_COUNT(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set) && left-- == 0)
			return cpu;
	}
	return 0;
}

int lend_cpu_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return lend_fail(
		    EINVAL, "cpu %d: no such CPU; choose one below the number that nproc prints",
		    cpu);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		return lend_fail(errno, "cpu %d: %s; choose one that taskset -p $$ allows", cpu,
				 strerror(errno));
	return 0;
}
