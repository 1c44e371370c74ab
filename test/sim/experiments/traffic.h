/* traffic - messages between many ends of the real core over one simulated network: who sends what
 * to whom is an experiment's, that it arrives whole and once is looked at here. Layer: test/sim.
 *
 * An experiment opens the network, names its lines, connects, adds messages and steps until it has
 * seen enough. Each message is a call; its answer is empty or of 64 bytes. */
#ifndef SIM_EXPERIMENTS_TRAFFIC_H
#define SIM_EXPERIMENTS_TRAFFIC_H

#include "core/cc.h"
#include "sim/experiments/congest_end.h"

struct traffic;

struct traffic_line {
	uint32_t from, to;
	uint64_t session; /* of from's */
};
struct traffic_message {
	lend_ns at, delivered, ended; /* 0: not yet */
	uint32_t line, bytes;
	uint32_t reply; /* bytes: 0 or TRAFFIC_SMALL */
	uint32_t next;  /* of those of an end that found no free slot */
};
enum { TRAFFIC_SMALL = 64 };

/* What an experiment sees of it; m is the message's number in the order they were added. */
struct traffic_hooks {
	void (*begun)(struct traffic *t, uint32_t m);
	void (*delivered)(struct traffic *t, uint32_t m);
	void (*ended)(struct traffic *t, uint32_t m);
	void (*tick)(struct traffic *t);
	void (*came)(struct traffic *t, uint32_t to, uint32_t from, uint32_t len); /* a datagram */
};

/* What happened since connect. */
struct traffic_count {
	uint64_t datagrams, drops, cut, repeats, no_memory, marks;
};

struct traffic {
	struct sim sim;
	struct congest_end *end;
	struct traffic_line *line;
	uint32_t lines, up; /* sessions that are */
	struct traffic_message *message;
	uint32_t messages, delivered, ended;
	uint32_t held; /* messages that had to wait for a free slot */
	struct traffic_hooks hooks;
	void *owner;
	lend_ns begin, every; /* ticks; 0: none */
	uint32_t bytes_max;
	uint8_t *tail;               /* of every message, behind its first bytes */
	uint8_t *sink;               /* long messages land in it, all in one place */
	struct traffic_count before; /* until connect was done */
};

struct traffic_config {
	uint32_t bytes_max; /* of a message */
	uint32_t calls;     /* under way per line */
	uint32_t inflight;  /* per end */
};

/* plan: of the network, nodes are the ends. t is zeroed but for hooks and owner. Everything from
 * here on may jump to t->sim.out, which the caller has set. */
void traffic_open(struct traffic *t, const struct sim_plan *plan);
uint32_t traffic_line(struct traffic *t, uint32_t from, uint32_t to);
/* All lines; then it is t->begin. */
void traffic_connect(struct traffic *t, const struct traffic_config *config);
uint32_t traffic_add(struct traffic *t, lend_ns at, uint32_t line, uint32_t bytes, uint32_t reply);
void traffic_step(struct traffic *t);
struct traffic_count traffic_count(struct traffic *t);
void traffic_close(struct traffic *t);
/* The largest or the mean share that equal users may have, 1 if they do: Jain's index. */
double traffic_jain(const double *rate, uint32_t n);

#endif
