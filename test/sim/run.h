/* run - plans run in processes of their own, so that whatever ends one is told like any other
 * violation. Layer: test/sim. */
#ifndef TEST_SIM_RUN_H
#define TEST_SIM_RUN_H

#include "sim/sim.h"

enum { SIM_JOBS_MAX = 64, SIM_WHY = 256 };

struct sim_failure {
	struct sim_plan plan;
	char why[SIM_WHY];
};

/* This process dies once it has used so much more CPU time: the machine may be busy. */
void sim_limit(unsigned seconds);
/* How a child died. */
void sim_died(int status, char why[SIM_WHY]);
/* Runs a plan in a child. True: no violation. why tells of one, or how the child died. */
bool sim_try(const struct sim_plan *plan, unsigned limit_s, char why[SIM_WHY]);
/* Makes *failure shorter for so many seconds at most, keeping the kind of violation. */
void sim_shrink(struct sim_failure *failure, unsigned limit_s);
/* To stderr: the plan as a command; the last events before its end. */
void sim_tell(const struct sim_failure *failure);
void sim_tell_story(const struct sim_failure *failure);

#endif
