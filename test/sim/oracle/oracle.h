/* oracle - what must be true of a core after everything it does, and whenever all of it is counted
 * anew. Layer: test/sim. */
#ifndef SIM_ORACLE_ORACLE_H
#define SIM_ORACLE_ORACLE_H

#include <stdio.h>

#include "sim/node.h"

/* One datagram came in; one goes out, the i-th of the last output(). */
void sim_oracle_in(struct sim *sim, struct sim_node *n, const struct lend_in *in);
void sim_oracle_out(struct sim *sim, struct sim_node *n, const struct lend_out *out, uint32_t i);
/* Hands forged datagrams to the core: they change nothing, at most they ask for a RESET each. */
void sim_oracle_forged(struct sim *sim, struct sim_node *n, const struct lend_in *in, uint32_t k);
/* One output() made k datagrams; before is which classes had something to send. The most urgent
 * that had all the time went first, but for the share of those below it, and nobody starves. */
void sim_oracle_order(struct sim *sim, struct sim_node *n, uint8_t before,
		      const struct lend_out *out, uint32_t k);
/* Nothing more goes out just now: what is left keeps silent for what is urgent, and not for good.
 */
void sim_oracle_rest(struct sim *sim, struct sim_node *n);
/* A call with a request of so many bytes ended well: in the long run its session's window learns.
 */
void sim_oracle_taught(struct sim *sim, struct sim_node *n, uint64_t session, uint32_t len);
/* The run is over, and its marks are complete: what nobody lost was not judged lost. */
void sim_oracle_end(struct sim *sim);
/* After every turn: budget that comes back is not taken past those who wait for it, and a message
 * that gave way keeps its memory longer the next time. */
void sim_oracle_line(struct sim *sim, struct sim_node *n);
/* O(1), after every turn. */
void sim_oracle_turn(struct sim *sim, struct sim_node *n);
/* Counts a core's ledgers anew: NULL, or what does not agree. */
const char *sim_core_audit(struct lend_core *core);
/* Everything is over: all that was taken is back. NULL, or what is not. */
const char *sim_core_quiet(struct lend_core *core);
/* What it still has, for people. */
void sim_core_tell(struct lend_core *core, FILE *to);

/* Of the handshake: a RETRY goes out; a CONNECT comes in; after a turn; a session is up. */
void sim_oracle_retry(struct sim *sim, struct sim_node *n, const struct lend_out *out);
void sim_oracle_connect(struct sim *sim, struct sim_node *n, const struct lend_in *in);
void sim_oracle_half(struct sim *sim, struct sim_node *n);
void sim_oracle_up(struct sim *sim, struct sim_node *n, const struct lend_event *e);

#endif
