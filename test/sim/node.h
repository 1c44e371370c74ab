/* node - one endpoint: a core, perhaps a store, its buffers, its ring of arrived datagrams. It
 * crashes and is born again with a new incarnation, and pauses. Layer: test/sim. */
#ifndef TEST_SIM_NODE_H
#define TEST_SIM_NODE_H

#include "mn/store/exec.h"
#include "sim/net.h"
#include "sim/sim.h"

struct sim_node {
	uint32_t id;
	uint32_t life; /* times it was born; its incarnation is made of id and life */
	bool up;
	lend_ns paused;         /* until then no turn */
	struct lend_core *core; /* NULL while down */
	struct lend_core_config cfg;
	struct lend_store *store; /* NULL: serves no memory */
	uint8_t *pages;
	struct lend_bufs bufs;
	uint32_t free_buf, bufs_out; /* buffers that are not in the free list */
	uint32_t *ring;              /* flights that wait for a turn */
	uint32_t ring_n;
	lend_ns turn;      /* the earliest turn that is in the heap; LEND_NEVER: none */
	uint64_t *session; /* by node: handle of the one we made; 0: none */
	uint64_t bytes_in, bytes_out;
};

void sim_node_open(struct sim *sim); /* all of them, born */
void sim_node_close(struct sim *sim);
void sim_node_crash(struct sim *sim, uint32_t node);
void sim_node_birth(struct sim *sim, uint32_t node);
/* A flight has come; a full ring drops it (and frees it). */
void sim_node_arrive(struct sim *sim, uint32_t node, uint32_t flight);
void sim_node_turn(struct sim *sim, uint32_t node);
/* A turn is due now: somebody called the core outside of one. */
void sim_node_kick(struct sim *sim, uint32_t node);
/* The session to another node; makes one if there is none. False: no room just now. */
bool sim_node_session(struct sim *sim, uint32_t node, uint32_t to, uint64_t *session);
/* A buffer of this many bytes, len of them valid; 0 only when plan says so. */
uint32_t sim_node_buf(struct sim *sim, uint32_t node, uint32_t cap, uint32_t len);
/* Wraps memory that is not the node's own (pages of the store). */
uint32_t sim_node_wrap(struct sim *sim, uint32_t node, void *data, uint32_t len);
void sim_node_unbuf(struct sim *sim, uint32_t node, uint32_t buf); /* a whole chain */

#endif
