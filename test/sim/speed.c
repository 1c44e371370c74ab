/* speed - how many datagrams per second one core simulates with all oracles on. Calls have a
 * request and a reply of 64 bytes in one datagram each, without faults. Layer: test/sim. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/command.h"
#include "sim/sim.h"

enum { RUNS = 5 };

static const char *const plan_text = "seed=1 nodes=4 calls=400000 burst=64 span_us=40000 "
				     "len_min=64 sessions=16 slots=64 inflight=256 audit=0";

/* CPU time of this process, because the machine may be busy. */
static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int sim_cmd_speed(int argc, char **argv)
{
	static struct sim sim;
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	double rate[RUNS];
	struct sim_plan plan;

	if ((argc != 1 && !json) || !sim_plan_read(plan_text, &plan)) {
		fprintf(stderr, "usage: lend-sim speed [--json]\n");
		return 2;
	}
	for (int i = 0; i < RUNS; i++) {
		double start = cpu_s();

		if (!sim_run(&sim, &plan)) {
			fprintf(stderr, "%s\n  lend-sim replay '%s'\n", sim.why, plan_text);
			return 1;
		}
		rate[i] = (double)sim.count.datagrams / (cpu_s() - start);
	}
	qsort(rate, RUNS, sizeof(rate[0]), compare_doubles);
	printf(json ? "{\"datagrams_per_s\": %.0f, \"lowest\": %.0f, \"highest\": %.0f, "
		      "\"datagrams\": %llu, \"runs\": %d}\n"
		    : "%.0f datagrams of 64 bytes per second and core (%.0f to %.0f; %llu in each "
		      "of %d runs)\n",
	       rate[RUNS / 2], rate[0], rate[RUNS - 1], (unsigned long long)sim.count.datagrams,
	       RUNS);
	return 0;
}
