/* congest_end - one endpoint of a congestion run: a core, its buffers, and a turn whenever there is
 * work. The owner makes and serves its calls.
 *
 * A turn takes plan.turn_ns, and plan.cpu_ns for each batch that was there when it began. Then it
 * sends, which takes plan.cpu_ns for each batch, too, before the next turn begins. A batch is up to
 * plan.gso datagrams in a row from or to one peer. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_CONGEST_END_H
#define SIM_EXPERIMENTS_CONGEST_END_H

#include "sim/sim_node.h"

struct congest_end {
	struct lend_core *core;
	struct lend_core_config cfg;
	struct lend_bufs bufs;
	uint32_t free; /* handles */
	bool *lent;    /* by handle: the memory belongs to the owner */
	uint32_t *ring, ring_n, ring_cap;
	lend_ns turn, late;       /* as in sim_node */
	lend_ns busy;             /* its CPU computes until then: no turn begins or ends before */
	uint32_t taken;           /* datagrams of the turn that has begun */
	bool working;             /* such a turn has begun */
	uint32_t flows;           /* number of sessions that its owner opens */
	uint32_t held, held_last; /* the owner's list of waiting messages */
};

typedef void congest_event(struct sim *sim, uint32_t end, const struct lend_event *e);

/* Opens an endpoint with n buffer handles. */
void congest_end_open(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t n);
void congest_end_close(struct congest_end *end);
uint32_t congest_buf(struct sim *sim, struct congest_end *end, uint32_t cap);
/* Wraps memory of the owner in a buffer. */
uint32_t congest_wrap(struct sim *sim, struct congest_end *end, void *data, uint32_t len);
void congest_unbuf(struct congest_end *end, uint32_t buf);
void congest_arrive(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t flight);
/* Schedules a turn now. */
void congest_kick(struct sim *sim, uint32_t id, struct congest_end *end);
void congest_wake(struct sim *sim, uint32_t id, struct congest_end *end, congest_event *event);

#endif
