/* explore_search - explores all states of a scope, nearest first, so that the first path to a
 * violation is a shortest one. Layer: test. */
#ifndef SIM_EXPLORE_EXPLORE_SEARCH_H
#define SIM_EXPLORE_EXPLORE_SEARCH_H

#include "sim/explore/explore_world.h"

struct ex_limits {
	double seconds;  /* time limit of this scope */
	uint32_t states; /* at most */
};
struct ex_found {
	uint64_t states, moves, pruned, drained;
	uint32_t depth;
	bool whole; /* every state within the budgets was explored */
	struct ex_node_stats nodes;
	const char *bad;  /* NULL: no violation */
	char replay[512]; /* choices that lead to the violation */
	double seconds;
};

/* Returns the CPU time of this process, which depends less on the load of the machine. */
double ex_seconds(void);
void ex_search(const struct ex_scope *scope, struct ex_limits limits, struct ex_found *found);
/* Makes and prints these choices, then continues without faults to the end. Returns NULL, or the
 * violation. */
const char *ex_search_replay(const struct ex_scope *scope, const char *choices, FILE *to);

#endif
