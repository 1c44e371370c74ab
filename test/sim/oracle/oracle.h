/* oracle - invariants of a core after each operation, and of all its ledgers when they are
 * recounted. Layer: test/sim. */
#ifndef SIM_ORACLE_ORACLE_H
#define SIM_ORACLE_ORACLE_H

#include <stdio.h>

#include "sim/sim_node.h"

struct lend_call_rec;
struct lend_sess;

/* Check one received datagram, and one sent: the i-th of the last output(). */
void sim_oracle_in(struct sim *sim, struct sim_node *n, const struct lend_in *in);
void sim_oracle_out(struct sim *sim, struct sim_node *n, const struct lend_out *out, uint32_t i);
/* Passes forged datagrams to the core. They must change nothing, and cause at most one RESET
 * each. */
void sim_oracle_forged(struct sim *sim, struct sim_node *n, const struct lend_in *in, uint32_t k);
/* Checks the k datagrams of one output(). before: bit set of classes that had something to send.
 * The highest class that had something all the time goes first, except for the guaranteed share of
 * lower classes, and no class starves. */
void sim_oracle_order(struct sim *sim, struct sim_node *n, uint8_t before,
		      const struct lend_out *out, uint32_t k);
/* Checks that no more is to be sent now: remaining data is paused for an urgent message, for a
 * limited time. */
void sim_oracle_rest(struct sim *sim, struct sim_node *n);
/* Counts a call with a long request that ended well: in the long run the window of its session must
 * adapt. */
void sim_oracle_adapts(struct sim *sim, struct sim_node *n, uint64_t session, uint32_t len);
/* Checks the complete marks at the end of a run: without losses no datagram was declared lost. */
void sim_oracle_end(struct sim *sim);
/* Checks after every turn that freed budget goes to the head of its queue, and that an evicted
 * message keeps its memory longer the next time. */
void sim_oracle_queues(struct sim *sim, struct sim_node *n);
/* O(1), after every turn. */
void sim_oracle_turn(struct sim *sim, struct sim_node *n);
/* Recounts a core's ledgers. Returns NULL, or the first mismatch. */
const char *sim_core_audit(struct lend_core *core);
/* Parts of sim_core_audit(): a free record; slot w of the i-th session; coalesced datagrams; a
 * session's limit of requests in frames. */
const char *sim_audit_free_record(const struct lend_call_rec *k);
const char *sim_audit_slot(struct lend_core *core, struct lend_sess *s, uint32_t i, uint32_t w);
const char *sim_audit_coalesced(struct lend_core *core);
bool sim_audit_limit(const struct lend_core *core, const struct lend_sess *s);
/* Checks that all resources are released when a run is over. Returns NULL, or the first that is
 * not. */
const char *sim_core_quiet(struct lend_core *core);
/* Prints what the core still holds. */
void sim_core_print(struct lend_core *core, FILE *to);

/* Handshake: a RETRY is sent; a CONNECT arrives; after a turn; a session is up. */
void sim_oracle_retry(struct sim *sim, struct sim_node *n, const struct lend_out *out);
void sim_oracle_connect(struct sim *sim, struct sim_node *n, const struct lend_in *in);
void sim_oracle_half(struct sim *sim, struct sim_node *n);
void sim_oracle_up(struct sim *sim, struct sim_node *n, const struct lend_event *e);

/* Records: when a run begins and ends; a datagram is sealed; one was opened. */
void sim_oracle_seals_open(struct sim *sim);
void sim_oracle_seals_close(struct sim *sim);
void sim_oracle_sealed(struct sim *sim, struct sim_node *n, const struct lend_out *clear,
		       const struct lend_out *wire);
void sim_oracle_opened(struct sim *sim, struct sim_node *n, const struct lend_in *in);

#endif
