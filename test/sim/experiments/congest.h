/* congest - incast through one switch with the real core: many senders, one receiver, and two
 * bystanders that make small calls, one to the same receiver and one to another node.
 * Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_CONGEST_H
#define SIM_EXPERIMENTS_CONGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plan.h"
#include "util/dgram.h"
#include "util/hist.h"

struct congest_plan {
	uint64_t senders;
	uint64_t bytes;    /* of each message */
	uint64_t messages; /* of each sender, one after the other */
	struct sim_plan net;
};

enum { CONGEST_SAME, CONGEST_OTHER, CONGEST_VICTIMS };

struct congest_result {
	bool ok;       /* all that was sent arrived, as it was sent */
	char why[256]; /* not */
	lend_ns completion, ideal;
	double fairness; /* Jain's index of the senders' rates */
	uint64_t datagrams, drops, marks;
	uint64_t repeats;       /* data datagrams retransmitted */
	uint64_t no_memory;     /* datagrams that found no memory at the receiver */
	struct lend_hist queue; /* bytes that wait for the receiver's port, sampled */
	struct lend_hist victim[CONGEST_VICTIMS]; /* ns of a call of 64 bytes */
	uint64_t *series;                         /* the samples: the caller frees them */
	uint32_t samples;
	lend_ns every; /* between two of them */
};

void congest_run(const struct congest_plan *plan, struct congest_result *result);

#endif
