/* sim - one simulated run: nodes with the real core and the real store, a network, a virtual clock,
 * and oracles that check every event.
 *
 *   heap (time, sequence) --> sim_net  arrive --> node's ring --> turn: input, handlers, output --+
 *            ^                                                                                    |
 *            +------------------------------- sim_net_send <--------------------------------------+
 *
 * A run is a function of its plan. A violation jumps out of the run (sim_fail), so callers of
 * checks need no error path. Each concern has its own random stream, so that adding a fault does
 * not change the workload. Layer: test/sim. Threads: none; a run shares no state with others. */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include <setjmp.h>

#include "core/core.h"
#include "sim/heap.h"
#include "sim/oracle/marks.h"
#include "sim/plan.h"
#include "sim/trace.h"
#include "util/rng.h"

enum sim_stream {
	SIM_RNG_WORK,    /* stream for calls: which, when, and their length */
	SIM_RNG_HANDLER, /* behaviour of handlers */
	SIM_RNG_MEM,     /* memory operations */
	SIM_RNG_TURN,
	SIM_RNG_FULL,
	SIM_RNG_LOSS,
	SIM_RNG_BURST,
	SIM_RNG_DUP,
	SIM_RNG_DELAY,
	SIM_RNG_REORDER,
	SIM_RNG_CORRUPT,
	SIM_RNG_TRUNCATE,
	SIM_RNG_REPLAY,
	SIM_RNG_HOSTILE,
	SIM_RNG_PARTITION,
	SIM_RNG_CRASH,
	SIM_RNG_PAUSE,
	SIM_RNG_ROUTE,
	SIM_RNG_ROT,      /* stream for the pages that lose bits */
	SIM_RNG_SHARED,   /* stream for the messages that are in shared memory */
	SIM_RNG_ZERO_RTT, /* stream for the calls that may be 0-RTT */
	SIM_RNG_BULK_PAUSE,
	SIM_STREAMS,
};

/* Kinds of events in the heap; a and b are their arguments. */
enum sim_what {
	SIM_ARRIVE,    /* a: flight reached its node's ring (net) */
	SIM_PORT,      /* a: port of the switch may send its next datagram (net) */
	SIM_TURN,      /* a: node, b: its life */
	SIM_WORK,      /* the next scripted call (work) */
	SIM_ANSWER,    /* a: a handler that answers now (work) */
	SIM_CANCEL,    /* a: call to cancel (work) */
	SIM_MEM,       /* a: actor with a memory operation due (memory) */
	SIM_PARTITION, /* start or end of one (net) */
	SIM_CRASH,     /* a: node dies, or b: is restarted */
	SIM_PAUSE,     /* a: node pauses, or b: continues */
	SIM_AUDIT,
	SIM_HOARD, /* the hoarder starts more calls or sessions (hoard) */
	SIM_HEAL,  /* faults stop */
	SIM_DONE,  /* everything must have ended */
	SIM_WHATS,
};

#define SIM_START UINT64_C(1000000000) /* time at which a run starts */

struct sim_node;
struct sim_net;
struct sim_work;
struct sim_mem;
struct sim_hoard;
struct sim_seals;

struct sim_count {
	uint64_t events, datagrams, faults, hostile, calls, memops, crashes, audits;
};

struct sim {
	struct sim_plan plan;
	lend_ns now;
	bool healing; /* faults are over */
	bool refused; /* a node had no session for a CONNECT */
	lend_ns calm_since;
	struct sim_heap heap;
	struct lend_rng rng[SIM_STREAMS];
	struct sim_node *node;
	struct sim_net *net;
	struct sim_work *work;
	struct sim_mem *mem;
	struct sim_hoard *hoard; /* NULL: no node hoards */
	struct sim_seals *seals;
	struct sim_marks marks;
	struct sim_trace trace;
	struct sim_count count;
	uint64_t hash; /* hash of all events, in order */
	jmp_buf out;
	char why[256]; /* the violation; empty: none */
};

/* Runs a plan to its end. True: no violation; else sim->why and sim->trace describe it. sim is the
 * caller's, and holds no memory afterwards. */
bool sim_run(struct sim *sim, const struct sim_plan *plan);
/* Whether the cores are printed to stderr when a run fails. */
extern bool sim_print_cores;

/* For the other files of the simulator. */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define SIM_CHECK(sim, that, ...)                                                                  \
	do {                                                                                       \
		if (__builtin_expect(!(that), 0))                                                  \
			sim_fail(sim, __VA_ARGS__);                                                \
	} while (0)

static inline uint64_t sim_below(struct sim *sim, enum sim_stream stream, uint64_t n)
{
	return lend_rng_below(&sim->rng[stream], n);
}
/* True with a probability of ppm per million; never once faults are over, for the streams of
 * faults. Draws nothing when ppm is 0. */
static inline bool sim_odds(struct sim *sim, enum sim_stream stream, uint64_t ppm)
{
	return ppm && sim_below(sim, stream, 1000000) < ppm;
}
static inline void sim_at(struct sim *sim, lend_ns when, enum sim_what what, uint32_t a, uint32_t b)
{
	sim_heap_push(&sim->heap, when < sim->now ? sim->now : when, what, a, b);
}
/* Adds an event to the run's hash. */
static inline void sim_note(struct sim *sim, uint64_t a, uint64_t b)
{
	sim->hash = (sim->hash ^ a) * UINT64_C(0x9e3779b97f4a7c15);
	sim->hash = ((sim->hash ^ sim->hash >> 29) + b) * UINT64_C(0xbf58476d1ce4e5b9);
}

#endif
