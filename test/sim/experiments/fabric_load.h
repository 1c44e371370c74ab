/* fabric_load - who sends how much to whom and when, and how fast that could be on an idle network.
 * Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_FABRIC_LOAD_H
#define SIM_EXPERIMENTS_FABRIC_LOAD_H

#include "sim/experiments/fabric.h"

struct fabric_message {
	lend_ns at; /* from the beginning */
	uint32_t from, to, bytes;
};
struct fabric_load {
	struct fabric_message *message;
	uint32_t n;
	lend_ns span; /* from the first to the last */
};

/* On a line, with its datagrams' heads. */
double fabric_line_ns(const struct fabric_plan *plan, uint32_t bytes);
/* From its sender to its receiver, if nobody else sends. */
double fabric_least_ns(const struct fabric_plan *plan, const struct fabric_message *m);
/* Sums up how long each message took: ns[i]; 0: it did not end, and over ns have passed since it
 * began. */
void fabric_judge(const struct fabric_plan *plan, const struct fabric_load *load, const double *ns,
		  double over, struct fabric_result *r);

#endif
