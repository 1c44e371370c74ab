/* replay - runs one plan and reports how it ended. Layer: test/sim. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/command.h"
#include "sim/sim.h"

int sim_cmd_replay(int argc, char **argv)
{
	static struct sim sim;
	struct sim_plan plan;

	if (argc != 2 || !sim_plan_read(argv[1], &plan)) {
		fprintf(stderr, "usage: lend-sim replay 'seed=7 nodes=3 ...'\n");
		return 2;
	}
	sim_print_cores = true;
	if (!sim_run(&sim, &plan)) {
		sim_trace_print(&sim.trace, stdout);
		printf("%s\n", sim.why);
		return 1;
	}
	printf("hash %016llx, %llu events, %llu datagrams, %llu calls, %llu faults\n",
	       (unsigned long long)sim.hash, (unsigned long long)sim.count.events,
	       (unsigned long long)sim.count.datagrams, (unsigned long long)sim.count.calls,
	       (unsigned long long)sim.count.faults);
	return 0;
}
