/* work - scripted calls and handlers, and the ledger of calls with its oracles.
 *
 * The method of a call is its number in the ledger, so a handler knows which call it serves even if
 * the request is empty. Bytes are a PRF of (call, direction, offset). Calls of LEND_MEM_METHOD
 * carry memory operations: they are in the same ledger, under the operation's own bytes, and
 * sim/memory/mem decides what they say. Layer: test/sim. */
#ifndef TEST_SIM_WORK_H
#define TEST_SIM_WORK_H

#include "sim/node.h"

/* What the ledger knows of a call. Stays where it is until the end of the run. */
struct sim_call {
	uint64_t handle;  /* at the caller; 0: it could not be made */
	uint64_t serves;  /* handle at the server while its handler has it */
	uint64_t session; /* at the caller */
	lend_ns due;      /* LEND_NEVER without a deadline */
	lend_ns began;
	uint32_t len, reply_len;
	uint32_t named; /* bytes of the reply buffer that was named, plus one; 0: none */
	uint32_t arg;   /* of sim/memory/mem; or the call whose handler asked, plus one */
	uint16_t from, to;
	uint32_t life, server_life; /* the caller's at its start; the server's when it ran */
	uint8_t ended, runs;
	uint8_t status, ran; /* at its end */
	uint8_t code;        /* that the handler answers with, LEND_REPLY_NOT_RUN included */
	uint8_t mem;         /* one of sim/memory/mem's: arg is its */
	uint8_t cancelled;
	uint8_t script; /* enum sim_script: what its handler does */
	uint8_t depth;  /* handlers above it */
};
enum sim_script { SIM_NOW, SIM_LATER, SIM_NEVER, SIM_TWICE, SIM_NEST };

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
/* Before a turn sends: silence, as the runtime keeps it for an urgent answer, or no more of it;
 * half of the times lie in the past. */
void sim_work_hush(struct sim *sim, struct sim_node *n);
/* Faults are over: what would wait for ever is given up. */
void sim_work_heal(struct sim *sim);
/* Every call has ended, nothing waits for an answer: else why not. */
const char *sim_work_unfinished(struct sim *sim);

#endif
