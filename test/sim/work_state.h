/* work_state - state that the files of work share. Layer: test/sim. */
#ifndef TEST_SIM_WORK_STATE_H
#define TEST_SIM_WORK_STATE_H

#include "sim/work.h"
#include "wire/memop.h"
#include "wire/pkt.h"

enum { SIM_BLOCK = 4096, SIM_BLOCKS = 4096 };

struct sim_work {
	struct sim_call *block[SIM_BLOCKS];
	uint32_t n;       /* calls in the ledger */
	uint64_t asked;   /* made by the script */
	uint32_t open;    /* not ended */
	uint32_t serving; /* requests that handlers of living nodes have */
	bool rested;
};

/* Returns whether the request or reply of a call begins with a head: one in sixteen does. Not
 * drawn, so that plans keep their random numbers. */
bool sim_work_head(const struct sim *sim, uint32_t call, bool reply);
/* Draws a length of a request or reply. */
uint32_t sim_work_len(struct sim *sim, enum sim_stream stream);
/* Fills a buffer of the node with a message of len bytes. */
uint32_t sim_work_message(struct sim *sim, uint32_t node, uint32_t len, uint64_t key);
/* Makes a call. parent: the call of the handler that calls, plus one, or 0. False: it cannot be
 * made. */
bool sim_work_ask(struct sim *sim, uint32_t from, uint32_t to, lend_ns due, uint32_t parent);
/* Answers this call, if its handler still has it. life: of the server. */
void sim_work_answer(struct sim *sim, uint32_t call, uint32_t life);
/* Checks a call that ended with another status than its handler's. */
void sim_work_judge_failure(struct sim *sim, uint32_t call, const struct sim_call *k,
			    const struct lend_event *e);

#endif
