/* congest - incast through one switch with the real core.
 *
 * Many senders, one receiver, and two bystanders that make small calls, one to the same receiver
 * and one to another node. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_CONGEST_H
#define SIM_EXPERIMENTS_CONGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plan.h"
#include "util/dgram.h"
#include "util/hist.h"

struct congest_plan {
	uint64_t senders;
	uint64_t bytes;    /* bytes of each message */
	uint64_t messages; /* per sender */
	uint64_t depth;    /* of them, in flight at once */
	uint64_t records;  /* of the receiver, for calls in progress; 0: enough */
	struct sim_plan net;
};

enum { CONGEST_SAME, CONGEST_OTHER, CONGEST_VICTIMS };
enum { CONGEST_CALLS = 256 }; /* slots of a session */

struct congest_result {
	bool ok;       /* all messages arrived unchanged */
	char why[256]; /* the error, when not ok */
	lend_ns completion, ideal;
	double fairness; /* Jain's index of the senders' rates */
	uint64_t datagrams, drops, marks;
	uint64_t repeats;       /* retransmitted data datagrams */
	uint64_t no_memory;     /* datagrams that found no memory at the receiver */
	struct lend_hist queue; /* samples of the bytes queued at the receiver's port */
	struct lend_hist victim[CONGEST_VICTIMS]; /* latency in ns of calls of 64 bytes */
	struct lend_hist message;                 /* and of the senders' messages */
	uint64_t *series;                         /* the samples, freed by the caller */
	uint32_t samples;
	lend_ns every; /* time between two samples */
};

void congest_run(const struct congest_plan *plan, struct congest_result *result);

#endif
