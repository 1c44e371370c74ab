/* sim_mem - memory clients, and a naive model that knows the content of every reference. Layer:
 * test/sim. */
#ifndef SIM_MEMORY_SIM_MEM_H
#define SIM_MEMORY_SIM_MEM_H

#include "sim/work.h"

void sim_mem_open(struct sim *sim);
void sim_mem_close(struct sim *sim);
/* Handles MEM. */
void sim_mem_event(struct sim *sim, uint32_t actor);
/* A node with a store is started or dies; the session of a peer came up or ended there; time to
 * tick. */
void sim_mem_birth(struct sim *sim, uint32_t node);
void sim_mem_crash(struct sim *sim, uint32_t node);
/* True while a reply that reads the node's pages is on its way. */
bool sim_mem_lends(const struct sim *sim, uint32_t node);
void sim_mem_session(struct sim *sim, uint32_t node, const struct lend_event *e);
void sim_mem_turn(struct sim *sim, uint32_t node);
lend_ns sim_mem_deadline(struct sim *sim, uint32_t node);
/* At the node: a long message starts (returns 0: receive it into a plain buffer); a request; the
 * buffer of its reply is back. */
uint32_t sim_mem_need(struct sim *sim, uint32_t node, const struct lend_event *e);
void sim_mem_request(struct sim *sim, uint32_t node, const struct lend_event *e);
void sim_mem_reply_end(struct sim *sim, uint32_t node, uint32_t buf);
/* At the client: a call of sim_work_call() has ended. data: the reply's bytes, e->len of them. */
void sim_mem_end(struct sim *sim, uint32_t node, const struct sim_call *call,
		 const struct lend_event *e, const void *data);
/* Full audit, and the check that everything has ended. */
void sim_mem_audit(struct sim *sim);
const char *sim_mem_unfinished(struct sim *sim);

#endif
