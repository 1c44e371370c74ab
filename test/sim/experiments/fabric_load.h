/* fabric_load - the messages of a run (sender, receiver, time, length), and their latency in an
 * idle network. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_FABRIC_LOAD_H
#define SIM_EXPERIMENTS_FABRIC_LOAD_H

#include "sim/experiments/fabric.h"

struct fabric_message {
	lend_ns at; /* from the start */
	uint32_t from, to, bytes;
};
struct fabric_load {
	struct fabric_message *message;
	uint32_t n;
	lend_ns span; /* time from the first message to the last */
};

/* Time on a host's link, with datagram headers. */
double fabric_link_ns(const struct fabric_plan *plan, uint32_t bytes);
/* Least latency from sender to receiver, in an idle network. */
double fabric_least_ns(const struct fabric_plan *plan, const struct fabric_message *m);
/* Summarises the latencies of all messages. ns[i]: of message i; 0: it did not end, and counts with
 * the time that it has waited. over: the end of the run. */
void fabric_judge(const struct fabric_plan *plan, const struct fabric_load *load, const double *ns,
		  double over, struct fabric_result *r);

#endif
