/* lent_command - what the commands `lent` and `named` share: runs of seeds in several processes,
 * and the print of their sums. Layer: test/sim. */
#ifndef TEST_SIM_LENT_COMMAND_H
#define TEST_SIM_LENT_COMMAND_H

#include <stddef.h>
#include <stdint.h>

enum { LENT_COMMAND_SUMS = 32 };

struct lent_command {
	const char *name;
	void (*run_seed)(uint64_t seed);
	const char *const *text; /* name and meaning of each sum */
	uint64_t *sum;           /* sums of this process; the first one is the number of runs */
	size_t n;
};
/* Runs the seeds of the arguments. Returns the exit status: 1 for a violation, or for a sum that
 * many runs did not reach. */
int lent_command_run(const struct lent_command *command, int argc, char **argv);

#endif
