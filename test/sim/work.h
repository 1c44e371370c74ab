/* work - scripted calls and handlers, and the ledger of calls with its oracles.
 *
 * The method of a call is its number in the ledger, so a handler knows which call it serves even if
 * the request is empty. The content is a PRF of (call, direction, offset). Calls of LEND_MEM_METHOD
 * carry memory operations. They are in the same ledger with the bytes of the operation;
 * test/sim/memory decides on their content. Layer: test/sim. */
#ifndef TEST_SIM_WORK_H
#define TEST_SIM_WORK_H

#include "sim/sim_node.h"

/* Ledger entry of a call. Does not move until the end of the run. */
struct sim_call {
	uint64_t handle;  /* at the caller; 0: it could not be made */
	uint64_t serves;  /* handle at the server while its handler has it */
	uint64_t session; /* at the caller */
	lend_ns due;      /* LEND_NEVER without a deadline */
	lend_ns began;
	uint32_t len, reply_len;
	uint32_t named; /* bytes of the named reply buffer, plus one; 0: none */
	uint32_t arg;   /* argument of a memory operation; or the call of the handler that called,
			   plus one */
	uint16_t from, to;
	uint32_t life, server_life; /* life: of the caller at its start; server_life: of the server
				       when it ran */
	uint8_t ended, runs;
	uint8_t status, ran; /* at its end */
	uint8_t code;        /* status of the handler's answer, LEND_REPLY_NOT_RUN included */
	uint8_t mem;         /* a memory operation: arg belongs to test/sim/memory */
	uint8_t cancelled;
	uint8_t script; /* enum sim_script: behaviour of its handler */
	uint8_t depth;  /* number of handlers above it */
};
enum sim_script { SIM_NOW, SIM_LATER, SIM_NEVER, SIM_TWICE, SIM_NEST };

void sim_work_open(struct sim *sim);
void sim_work_close(struct sim *sim);
/* Handles WORK, ANSWER and CANCEL. */
void sim_work_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b);
/* Handles a core's event of a turn; passes memory requests and their ends on to test/sim/memory. */
void sim_work_core_event(struct sim *sim, uint32_t node, const struct lend_event *e);
/* The node crashed: its own calls end here, and the calls it served are forgotten. */
void sim_work_crashed(struct sim *sim, uint32_t node);
/* Makes a call that is not in the script. request: a buffer of `from`. False: refused, the caller
 * keeps the buffer. */
bool sim_work_call(struct sim *sim, uint32_t from, uint32_t to, uint32_t request, uint32_t arg,
		   uint32_t *call);
struct sim_call *sim_work_at(struct sim *sim, uint32_t call);
/* Before a turn sends: starts a pause of bulk data, as the runtime does for an urgent reply, or
 * ends it. Half of the times are in the past. */
void sim_work_pause_bulk(struct sim *sim, struct sim_node *n);
/* Faults are over: cancels calls that would wait for ever. */
void sim_work_heal(struct sim *sim);
/* Returns NULL when every call has ended and no request waits for an answer; else the reason. */
const char *sim_work_unfinished(struct sim *sim);

#endif
