/* plan_run - runs plans in child processes, so that a crash is reported like any other violation.
 * Layer: test/sim. */
#ifndef TEST_SIM_PLAN_RUN_H
#define TEST_SIM_PLAN_RUN_H

#include "sim/sim.h"

enum { SIM_JOBS_MAX = 64, SIM_WHY = 256 };

struct sim_failure {
	struct sim_plan plan;
	char why[SIM_WHY];
};

/* Ends this process once it has used this much more CPU time. Not wall-clock time, because the
 * machine may be busy. */
void sim_limit(unsigned seconds);
/* Describes how a child died. */
void sim_died(int status, char why[SIM_WHY]);
/* Runs a plan in a child. True: no violation. why: the violation, or how the child died. */
bool sim_try(const struct sim_plan *plan, unsigned limit_s, char why[SIM_WHY]);
/* Shrinks *failure for at most limit_s seconds, keeping the kind of violation. */
void sim_shrink(struct sim_failure *failure, unsigned limit_s);
/* Print to stderr: the plan as a command; the last events before its end. */
void sim_print_failure(const struct sim_failure *failure);
void sim_print_trace(const struct sim_failure *failure);

#endif
