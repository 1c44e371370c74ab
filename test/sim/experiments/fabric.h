/* fabric - messages of a mix between all hosts of a network of racks, in an open loop at a given
 * load.
 *
 * Links of a spine may fail and recover during the run. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_FABRIC_H
#define SIM_EXPERIMENTS_FABRIC_H

#include <stdbool.h>

#include "sim/experiments/mix.h"
#include "sim/plan.h"
#include "util/dgram.h"

struct fabric_plan {
	struct sim_plan net;   /* its nodes are the hosts */
	uint64_t peers;        /* number of destinations per host; 0: all hosts */
	uint64_t load;         /* percent of a host's link, with datagram headers and replies */
	uint64_t us, messages; /* us: the span of arrivals; messages: upper limit of their number */
	uint64_t fail; /* links of a spine that fail after a third of the time and recover after two
			  thirds */
	uint64_t detect_us; /* from the failure until leaves route around it */
	const struct mix *mix;
};

enum { FABRIC_PARTS = 10, FABRIC_TICKS = 200 };

struct fabric_slowdown {
	uint32_t n; /* messages */
	double mean, p50, p99, p999;
};
/* Bytes up to which a message belongs to each size: one datagram, 64 KiB, 1 MiB, any. */
enum { FABRIC_SIZES = 4 };
extern const double fabric_size[FABRIC_SIZES];
struct fabric_result {
	bool ok;
	char why[256];
	/* Slowdown: latency over the least latency of this message in an idle network. Of all
	 * messages, of those up to the mix's median, of the longest tenth, by tenth of the mix, and
	 * by size. */
	struct fabric_slowdown all, small, large, part[FABRIC_PARTS], size[FABRIC_SIZES];
	uint32_t measured, unfinished;
	double
	    goodput; /* percent of the requested bytes that arrived during the span of arrivals */
	uint64_t datagrams, drops, cut, repeats, marks;
	uint32_t held;                        /* messages that waited for a free slot */
	double queue_host_kb, queue_spine_kb; /* the longest */
	lend_ns span, every;
	double moved[FABRIC_TICKS]; /* percent of all hosts' links, by tick */
};

/* The messages of a plan, the same for each algorithm. */
struct fabric_load;

struct fabric_load *fabric_load_open(const struct fabric_plan *plan);
void fabric_load_close(struct fabric_load *load);
void fabric_run(const struct fabric_plan *plan, const struct fabric_load *load,
		struct fabric_result *result);
/* Runs the algorithm of ideal.h on the same messages. */
void fabric_ideal(const struct fabric_plan *plan, const struct fabric_load *load,
		  struct fabric_result *result);

#endif
