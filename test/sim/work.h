/* work - scripted calls and handlers, and the ledger of calls with its oracles.
 *
 * The method of a call is its number in the ledger, so a handler knows which call it serves even if
 * the request is empty. Bytes are a PRF of (call, direction, offset). Calls of LEND_MEM_METHOD
 * carry memory operations: they are in the same ledger, under the operation's own bytes, and
 * sim/mem decides what they say. Layer: test/sim. */
#ifndef TEST_SIM_WORK_H
#define TEST_SIM_WORK_H

#include "sim/node.h"

/* What the ledger knows of a call. */
struct sim_call {
	uint32_t from, to, life; /* the caller's life */
	uint32_t len, reply_len;
	uint64_t handle;
	uint8_t ended, runs, status, ran;
	uint8_t mem; /* one of sim/mem's: arg is its */
	uint8_t cancelled, deadline;
	uint32_t arg;
	lend_ns asked, due; /* due: LEND_NEVER without a deadline */
};

void sim_work_open(struct sim *sim);
void sim_work_close(struct sim *sim);
/* WORK, ANSWER, CANCEL. */
void sim_work_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b);
/* What a core had to say in a turn; sends memory requests and ends on to sim/mem. */
void sim_work_core_event(struct sim *sim, uint32_t node, const struct lend_event *e);
/* The node crashed: what it had asked ends here, what it served is forgotten. */
void sim_work_crashed(struct sim *sim, uint32_t node);
/* Calls of others than the script: request is a buffer of from's. False: refused, buffer kept. */
bool sim_work_call(struct sim *sim, uint32_t from, uint32_t to, uint32_t request, uint32_t arg,
		   uint32_t *call);
struct sim_call *sim_work_at(struct sim *sim, uint32_t call);
/* Every call has ended, nothing waits for an answer: else why not. */
const char *sim_work_unfinished(struct sim *sim);

#endif
