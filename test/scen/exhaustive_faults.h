/* exhaustive_faults - cores on a network that does one chosen thing to each of the first sixteen
 * datagrams. A run lasts from faults_reset() until nothing is in flight; faults_all() makes one run
 * for every set of marked datagrams. Marked datagrams are lost, duplicated (the copy late), or held
 * back until one or six later ones have arrived; on a lossless network the carrier was full
 * instead. A run that sent n < 16 datagrams stands for all masks with the same n first bits. All
 * memory is static and reused. Nothing is logged, except that a run which failed is repeated with
 * its log. Layer: test. Threads: none. */
#ifndef TEST_SCEN_EXHAUSTIVE_FAULTS_H
#define TEST_SCEN_EXHAUSTIVE_FAULTS_H

#include "core/core.h"
#include "core/arena.h"

enum { FAULTS = 16, FAULTS_NODES = 3, FAULTS_BUFS = 16, FAULTS_WIRE = 64 };
enum { FAULTS_UNSCHEDULED = 65536, FAULTS_LONG = 12288 /* longest message with a pattern */ };

enum fault { FAULT_LOST, FAULT_TWICE, FAULT_LATE, FAULT_STALE, FAULT_FULL };

struct faults_dgram {
	lend_ns at;
	uint32_t order, len; /* order: as sent; copies keep it */
	uint8_t from, to;
	uint8_t waits; /* until this many with a higher order were delivered */
	uint8_t data[1472];
};

struct faults_node {
	struct lend_core *core;
	struct lend_seg seg[FAULTS_BUFS];
	struct lend_bufs bufs;
	uint32_t free[FAULTS_BUFS], n_free;
};

struct faults {
	lend_ns now, alarm; /* alarm: when on_alarm is due */
	enum fault fault;
	uint32_t mask; /* bit i: datagram i, counted from faults_begin() */
	uint32_t sent;
	bool begun, told;
	const char *wrong; /* the first violation, or NULL */
	uint32_t steps;
	uint32_t left;               /* datagrams of requests that the carrier accepted */
	bool played;                 /* not the first run: a core must initialise its memory */
	lend_ns heard[FAULTS_NODES]; /* time of the last arrival */
	uint64_t carried;            /* datagrams of all runs */
	lend_ns longest;             /* over all runs: the longest time that run() reports */
	struct faults_node node[FAULTS_NODES];
	uint32_t nodes, wires;
	struct faults_dgram *wire[FAULTS_WIRE]; /* [0, wires): in flight, in any order */
	struct faults_dgram slot[FAULTS_WIRE];
	void (*on_event)(struct faults *f, uint32_t node, const struct lend_event *e);
	void (*on_alarm)(struct faults *f);
	/* For a segment with memory that is not the node's own. */
	void (*on_give)(struct faults *f, const struct lend_seg *seg);
};

/* Upper bound of the time that a client's timers add if every marked datagram costs one expiry. */
lend_ns faults_bound(void);

/* Resets everything; no datagram is marked. */
void faults_reset(struct faults *f, uint32_t nodes);
/* Counts and marks datagrams from now on. */
void faults_begin(struct faults *f);
/* Remembers the first violation. */
void faults_wrong(struct faults *f, const char *what);
/* Runs the next event; false: there is none before `until`, or there was a violation. */
bool faults_step(struct faults *f, lend_ns until);

uint64_t faults_connect(struct faults *f, uint32_t from, uint32_t to);
/* A buffer with len bytes of a pattern that depends on salt; len 0: the memory of a short reply. */
uint32_t faults_buf(struct faults *f, uint32_t node, uint32_t len, unsigned salt);
void faults_fill(uint8_t *to, uint32_t len, unsigned salt);
/* A buffer in external memory, which on_give gets back. */
uint32_t faults_wrap(struct faults *f, uint32_t node, void *data, uint32_t len);
void faults_give(struct faults *f, uint32_t node, uint32_t buf);
/* True: the event's message (data, or a chain at buf) is len bytes of this pattern. */
bool faults_same(struct faults *f, uint32_t node, const struct lend_event *e, uint32_t buf,
		 unsigned salt);

/* After all calls have ended: waits until the servers know it too. A live session probes its peer
 * before it declares it dead, whatever acknowledgements were lost, and soon if none was. Sessions
 * stay up; credit, slots, orphans and call records must be free again. */
void faults_rest(struct faults *f, lend_ns since);
/* At the end of a run: sessions, timers, pools, lists, budget and buffers must be free. */
void faults_over(struct faults *f);

/* Runs run(f, plan) for all masks; prints one line of JSON. */
void faults_all(const char *name, enum fault fault, void (*run)(struct faults *, const void *),
		const void *plan);

#endif
