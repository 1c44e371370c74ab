/* fates - cores on a network that does one chosen thing to each of the first sixteen datagrams.
 *
 * A run is played from fates_reset() to silence; fates_all() plays one for every set of marked
 * datagrams. The marked ones are lost, delivered twice (the copy late), or held back until a later
 * one, or the sixth later one, has arrived; or, where nothing gets lost, the carrier was full. Runs
 * that sent n < 16 datagrams stand for all masks with the same n first bits. All memory is static
 * and used again, and nothing is written down but by a run that failed, which is played once more
 * to tell its story. Layer: test. Threads: none. */
#ifndef TEST_SCEN_FATES_H
#define TEST_SCEN_FATES_H

#include "core/core.h"
#include "core/arena.h"

enum { FATES = 16, FATES_NODES = 3, FATES_BUFS = 16, FATES_WIRE = 64 };
enum { FATES_UNSCHEDULED = 65536, FATES_LONG = 12288 /* longest message with a pattern */ };

enum fate { FATE_LOST, FATE_TWICE, FATE_LATE, FATE_STALE, FATE_FULL };

struct fates_dgram {
	lend_ns at;
	uint32_t order, len; /* order: as sent; copies keep it */
	uint8_t from, to;
	uint8_t waits; /* until so many with a higher order were delivered */
	uint8_t data[1472];
};

struct fates_node {
	struct lend_core *core;
	struct lend_seg seg[FATES_BUFS];
	struct lend_bufs bufs;
	uint32_t free[FATES_BUFS], n_free;
};

struct fates {
	lend_ns now, alarm; /* alarm: when on_alarm is due */
	enum fate fate;
	uint32_t mask; /* bit i: datagram i, counted from fates_begin() */
	uint32_t sent;
	bool begun, told;
	const char *wrong; /* the first thing that was not as it must be */
	uint32_t steps;
	uint32_t left;              /* datagrams of requests that the carrier took */
	bool played;                /* not the first run: a core sets what it uses */
	lend_ns heard[FATES_NODES]; /* when something arrived */
	uint64_t carried;           /* datagrams of all runs */
	lend_ns longest;            /* of all runs: what run() thinks worth telling */
	struct fates_node node[FATES_NODES];
	uint32_t nodes, wires;
	struct fates_dgram *wire[FATES_WIRE]; /* [0, wires): under way, in any order */
	struct fates_dgram slot[FATES_WIRE];
	void (*on_event)(struct fates *f, uint32_t node, const struct lend_event *e);
	void (*on_alarm)(struct fates *f);
	/* Of a segment whose memory is not the node's own. */
	void (*on_give)(struct fates *f, const struct lend_seg *seg);
};

/* What a client's timers may add at the most when every marked datagram costs one expiry. */
lend_ns fates_bound(void);

/* Everything as new, no datagram marked. */
void fates_reset(struct fates *f, uint32_t nodes);
/* From now on datagrams are counted and marked. */
void fates_begin(struct fates *f);
/* Remembers the first. */
void fates_wrong(struct fates *f, const char *what);
/* The next thing happens; false: nothing will, time is beyond until, or something is wrong. */
bool fates_step(struct fates *f, lend_ns until);

uint64_t fates_connect(struct fates *f, uint32_t from, uint32_t to);
/* A buffer with len bytes of a pattern that depends on salt; len 0: the memory of a short reply. */
uint32_t fates_buf(struct fates *f, uint32_t node, uint32_t len, unsigned salt);
void fates_fill(uint8_t *to, uint32_t len, unsigned salt);
/* A buffer of another's memory, which on_give gets back. */
uint32_t fates_wrap(struct fates *f, uint32_t node, void *data, uint32_t len);
void fates_give(struct fates *f, uint32_t node, uint32_t buf);
/* The event's message (data, or a chain at buf), len bytes of it, is this pattern. */
bool fates_same(struct fates *f, uint32_t node, const struct lend_event *e, uint32_t buf,
		unsigned salt);

/* When all calls have ended: until the servers know it too (a live session asks before it is dead,
 * whatever acknowledgements were lost; and soon if none was). Then sessions live on, but credit,
 * slots, orphans and records of calls are all back. */
void fates_rest(struct fates *f, lend_ns since);
/* When all is over: sessions, timers, pools, lists, budget, buffers. */
void fates_over(struct fates *f);

/* Plays run(f, plan) for all masks; prints one line of JSON. */
void fates_all(const char *name, enum fate fate, void (*run)(struct fates *, const void *),
	       const void *plan);

#endif
