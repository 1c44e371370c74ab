/* explore_world - the whole system: a state per node, the datagrams in flight, the remaining
 * budgets and the oracles' record of each call. Layer: test. Threads: none. */
#ifndef SIM_EXPLORE_EXPLORE_WORLD_H
#define SIM_EXPLORE_EXPLORE_WORLD_H

#include <stdio.h>

#include "sim/explore/explore_node.h"

enum { EX_NET = 8, EX_DOWN = 1 << 30 /* with the number of the incarnation that crashed */ };

/* The first datagrams, as many as the scope's window, may overtake each other and are sorted by
 * number. The others wait behind them in the order in which they were sent. */
struct ex_state {
	uint32_t node[EX_NODES];
	uint32_t net[EX_NET]; /* by number, + 1; 0: none */
	uint8_t n;
	uint8_t drops, dups, ticks; /* budgets used */
	uint8_t crashes, zero[7];
	uint8_t calls[EX_IDS]; /* by call: record of the oracles, see EX_RAN */
};
_Static_assert(sizeof(struct ex_state) == 64, "no padding");

/* Of a call: number of handler runs (2 bits), whether it ended, and how. */
enum { EX_RAN = 3, EX_ENDED = 4, EX_NOT_RUN = 8 };

enum { EX_MOVES = 64 };
struct ex_move {
	uint8_t kind, node; /* enum ex_kind */
	uint8_t arg;        /* index in flight; bit of api */
};

void ex_world_start(const struct ex_scope *scope, struct ex_state *s);
/* Lists the possible moves; returns their number. */
uint32_t ex_world_moves(const struct ex_scope *scope, const struct ex_state *s,
			struct ex_move moves[EX_MOVES]);
/* False: the network has no room, the move is not explored. *bad: an oracle that failed. */
bool ex_world_do(const struct ex_scope *scope, struct ex_state *s, struct ex_move move,
		 const char **bad);
/* Single steps; datagrams without room in the network are lost. */
void ex_world_step(const struct ex_scope *scope, struct ex_state *s, uint32_t node, uint64_t input,
		   const char **bad);
void ex_world_deliver(const struct ex_scope *scope, struct ex_state *s, uint32_t i,
		      const char **bad);
/* Continues without faults. Returns NULL when every call ends and every pool is full again; else
 * the violation. trace: where to print the steps; may be NULL. */
const char *ex_world_drain(const struct ex_scope *scope, const struct ex_state *s, FILE *trace);
void ex_world_forget(void);
uint64_t ex_world_drained(void);
/* Prints a line about a move before it is made. */
void ex_world_print(const struct ex_scope *scope, const struct ex_state *s, struct ex_move move,
		    FILE *to);

#endif
