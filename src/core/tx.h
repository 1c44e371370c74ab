/* tx - a message going out: which fragment is next, where its bytes lie, what has arrived.
 * Layer: core (pure). Part of a call's record. */
#ifndef LEND_CORE_TX_H
#define LEND_CORE_TX_H

#include "core/state.h"

/* Starts a message of buf's len bytes. */
void lend_tx_begin(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t, uint32_t buf,
		   uint32_t len);
void lend_tx_end(struct lend_core *c, struct lend_tx *t);
/* The fragment to send now; false: none may be. */
bool lend_tx_pick(struct lend_core *c, const struct lend_sess *s, const struct lend_tx *t,
		  uint32_t *frag);
/* It is on its way. */
void lend_tx_sent(struct lend_core *c, struct lend_tx *t, uint32_t frag);
/* Whether it waits to be sent again, so that its last number does not count any more. */
bool lend_tx_again(struct lend_core *c, const struct lend_tx *t, uint32_t frag);
/* Send it again. */
void lend_tx_lost(struct lend_core *c, struct lend_tx *t, uint32_t frag);
void lend_tx_acked(struct lend_core *c, struct lend_tx *t, uint32_t frag);
/* All below low have arrived; a claim past what was sent is ignored. */
void lend_tx_acked_below(struct lend_core *c, struct lend_tx *t, uint32_t low);
/* Send again what is not known to have arrived, from fragment first on. */
void lend_tx_rewind(struct lend_core *c, struct lend_tx *t, uint32_t first);
/* The receiver let go of what it had from fragment first on: all of it again. */
void lend_tx_restart(struct lend_core *c, struct lend_tx *t, uint32_t first);
/* Where bytes [offset, offset + len) lie: up to LEND_PIECES pieces, returns how many. */
uint8_t lend_tx_pieces(struct lend_tx *t, const struct lend_bufs *bufs, uint32_t offset,
		       uint32_t len, struct lend_piece *piece);
/* Whether every span of payload bytes lies in at most LEND_PIECES segments, and the chain's length.
 */
bool lend_tx_fits(const struct lend_bufs *bufs, uint32_t buf, uint32_t payload, uint64_t *len);

#endif
