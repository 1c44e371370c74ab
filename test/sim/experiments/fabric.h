/* fabric - messages of a mix between all hosts of a network of racks, an open loop at a load; a
 * spine's links may break and come back meanwhile. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_FABRIC_H
#define SIM_EXPERIMENTS_FABRIC_H

#include <stdbool.h>

#include "sim/experiments/mix.h"
#include "sim/plan.h"
#include "util/dgram.h"

struct fabric_plan {
	struct sim_plan net;   /* nodes are the hosts */
	uint64_t peers;        /* that a host sends to; 0: all */
	uint64_t load;         /* percent of a host's line, with heads of datagrams and answers */
	uint64_t us, messages; /* so long, and no more than so many in all */
	uint64_t fail; /* links of a spine that break after a third of the time; back after two */
	uint64_t detect_us; /* from the breach until leaves go round it */
	const struct mix *mix;
};

enum { FABRIC_PARTS = 10, FABRIC_TICKS = 200 };

struct fabric_slowdown {
	double p50, p99;
};
struct fabric_result {
	bool ok;
	char why[256];
	/* Time over the least that this message can take, where nobody else sends: of all, of those
	 * no longer than the mix's median, of the tenth that is longest, and by tenth of the mix.
	 */
	struct fabric_slowdown all, small, large, part[FABRIC_PARTS];
	uint32_t measured, unfinished;
	double goodput; /* percent of what was asked for that arrived while it was asked for */
	uint64_t datagrams, drops, cut, repeats, marks;
	uint32_t held;                        /* messages that waited for a free slot */
	double queue_host_kb, queue_spine_kb; /* the longest */
	lend_ns span, every;
	double
	    moved[FABRIC_TICKS]; /* percent of all hosts' lines, in and out of phase of failure */
};

/* The messages of a plan, the same for each algorithm. */
struct fabric_load;

struct fabric_load *fabric_load_open(const struct fabric_plan *plan);
void fabric_load_close(struct fabric_load *load);
void fabric_run(const struct fabric_plan *plan, const struct fabric_load *load,
		struct fabric_result *result);
/* What ideal.h does with the same messages. */
void fabric_ideal(const struct fabric_plan *plan, const struct fabric_load *load,
		  struct fabric_result *result);

#endif
