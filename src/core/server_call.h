/* server_call - the server's side of a call.
 *
 *   PARTIAL -> RUNNING -> REPLYING -> freed    the reply has arrived, or its slot is used again
 *   RUNNING -> ORPHAN -> freed                 the caller does not wait; the handler still answers
 *
 * It has no timers: the client retransmits and probes. Layer: core (pure). */
#ifndef LEND_CORE_SERVER_CALL_H
#define LEND_CORE_SERVER_CALL_H

#include "core/state.h"

void lend_serve_on_request(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			   const struct lend_pkt_view *v);
/* Handles an ACK or PROBE of a reply. */
void lend_serve_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_serve_on_cancel(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
/* Ends a call after its whole reply was acknowledged. */
void lend_serve_finish(struct lend_core *c, struct lend_call_rec *k);
static inline void lend_serve_delivered(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->state == LEND_CALL_REPLYING)
		lend_serve_finish(c, k);
}

/* Ends the call, because its session ends. */
void lend_serve_abort(struct lend_core *c, struct lend_call_rec *k);
/* Refuses a long request that gets no memory or exceeds the length limit: RESOURCE_EXHAUSTED, ran
 * no. */
void lend_serve_refuse(struct lend_core *c, struct lend_call_rec *k);
/* Returns enum lend_pkt_state for an ACK of this call, and its record if it has one. */
uint32_t lend_serve_state(struct lend_core *c, const struct lend_sess *s, uint32_t wire,
			  struct lend_call_rec **rec);

#endif
