/* server_call - the server's side of a call.
 *
 *   PARTIAL -> RUNNING -> REPLYING -> freed    the reply has arrived, or its slot is used again
 *   RUNNING -> ORPHAN -> freed                 nobody waits; the handler still answers
 *
 * It times nothing: the client repeats and asks. Layer: core (pure). */
#ifndef LEND_CORE_SERVER_CALL_H
#define LEND_CORE_SERVER_CALL_H

#include "core/state.h"

void lend_serve_on_request(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			   const struct lend_pkt_view *v);
/* ACK or PROBE of a reply. */
void lend_serve_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_serve_on_cancel(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
/* All of its message was acknowledged; nothing for a client's. */
void lend_serve_finish(struct lend_core *c, struct lend_call_rec *k);
static inline void lend_serve_delivered(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->state == LEND_CALL_REPLYING)
		lend_serve_finish(c, k);
}

/* The session ends. */
void lend_serve_cut(struct lend_core *c, struct lend_call_rec *k);
/* Gives up a long request that nobody wants to hold. */
void lend_serve_refuse(struct lend_core *c, struct lend_call_rec *k);
/* What an ACK about this call says: enum lend_pkt_state. */
uint32_t lend_serve_state(struct lend_core *c, const struct lend_sess *s, uint32_t wire,
			  struct lend_call_rec **rec);

#endif
