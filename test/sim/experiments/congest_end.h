/* congest_end - one endpoint of a congestion run: a core, its buffers, and turns as soon as there
 * is something to do. What it calls and serves is its owner's. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_CONGEST_END_H
#define SIM_EXPERIMENTS_CONGEST_END_H

#include "sim/node.h"

struct congest_end {
	struct lend_core *core;
	struct lend_core_config cfg;
	struct lend_bufs bufs;
	uint32_t free; /* handles */
	bool *lent;    /* by handle: its memory is somebody else's */
	uint32_t *ring, ring_n, ring_cap;
	lend_ns turn, late;       /* as in sim_node */
	uint32_t lines;           /* sessions that its owner wants of it */
	uint32_t held, held_last; /* its owner's list of messages that wait */
};

typedef void congest_event(struct sim *sim, uint32_t end, const struct lend_event *e);

/* n handles for buffers. */
void congest_end_open(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t n);
void congest_end_close(struct congest_end *end);
uint32_t congest_buf(struct sim *sim, struct congest_end *end, uint32_t cap);
/* Names memory of another's. */
uint32_t congest_wrap(struct sim *sim, struct congest_end *end, void *data, uint32_t len);
void congest_unbuf(struct congest_end *end, uint32_t buf);
void congest_arrive(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t flight);
/* It is to look for what there is to do. */
void congest_kick(struct sim *sim, uint32_t id, struct congest_end *end);
void congest_wake(struct sim *sim, uint32_t id, struct congest_end *end, congest_event *event);

#endif
