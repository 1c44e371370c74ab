/* traffic - messages between many endpoints with the real core over one simulated network.
 *
 * The experiment chooses sender, receiver and time of each message; this file checks that each
 * arrives once and unchanged. The experiment opens the network, names its sessions, connects, adds
 * messages and steps the simulation. Each message is a call with an empty reply or one of 64 bytes.
 * Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_TRAFFIC_H
#define SIM_EXPERIMENTS_TRAFFIC_H

#include "core/cc.h"
#include "sim/experiments/congest_end.h"

struct traffic;

struct traffic_flow {
	uint32_t from, to;
	uint64_t session; /* handle at the sender */
};
struct traffic_message {
	lend_ns at, delivered, ended; /* 0: not yet */
	uint32_t flow, bytes;
	uint32_t reply; /* bytes: 0 or TRAFFIC_SMALL */
	uint32_t next;  /* next one of an end that waits for a free slot */
};
enum { TRAFFIC_SMALL = 64 };

/* Events that an experiment sees. m: the message's number in the order of traffic_add(). */
struct traffic_hooks {
	void (*begun)(struct traffic *t, uint32_t m);
	void (*delivered)(struct traffic *t, uint32_t m);
	void (*ended)(struct traffic *t, uint32_t m);
	void (*tick)(struct traffic *t);
	void (*came)(struct traffic *t, uint32_t to, uint32_t from,
		     uint32_t len); /* a datagram arrived */
};

/* Counters since connect. */
struct traffic_count {
	uint64_t datagrams, drops, cut, repeats, no_memory, marks;
};

struct traffic {
	struct sim sim;
	struct congest_end *end;
	struct traffic_flow *flow;
	uint32_t flows, up; /* sessions in total, and those that are up */
	struct traffic_message *message;
	uint32_t messages, delivered, ended;
	uint32_t held; /* messages that waited for a free slot */
	struct traffic_hooks hooks;
	void *owner;
	lend_ns begin, every; /* interval of ticks; 0: none */
	uint32_t bytes_max;
	uint8_t *tail;               /* content of each message behind its own first bytes */
	uint8_t *sink;               /* buffer that all long messages are received into */
	struct traffic_count before; /* counters at the end of connect */
};

struct traffic_config {
	uint32_t bytes_max; /* length of the longest message */
	uint32_t calls;     /* calls in flight per session */
	uint32_t inflight;  /* per end */
	uint32_t records;   /* the same for end 0; 0: as all */
};

/* Opens the network of the plan; its nodes are the ends. t is zeroed but for hooks and owner. From
 * here on any function may jump to t->sim.out, which the caller has set. */
void traffic_open(struct traffic *t, const struct sim_plan *plan);
uint32_t traffic_flow(struct traffic *t, uint32_t from, uint32_t to);
/* Opens all sessions and sets t->begin. */
void traffic_connect(struct traffic *t, const struct traffic_config *config);
uint32_t traffic_add(struct traffic *t, lend_ns at, uint32_t flow, uint32_t bytes, uint32_t reply);
void traffic_step(struct traffic *t);
struct traffic_count traffic_count(struct traffic *t);
void traffic_close(struct traffic *t);
/* Returns Jain's fairness index of n rates: 1 when all are equal. */
double traffic_jain(const double *rate, uint32_t n);

#endif
