/* server_call - the server's side of a call.
 *
 *   PARTIAL -> RUNNING -> REPLYING -> freed    the reply has arrived, or its slot is used again
 *   RUNNING -> ORPHAN -> freed                 the caller does not wait; the handler still answers
 *
 * It has no timers: the client retransmits and probes. Layer: core (pure). */
#ifndef LEND_CORE_SERVER_CALL_H
#define LEND_CORE_SERVER_CALL_H

#include "core/call_record.h"
#include "core/event.h"

/* Frees the record, and the slot that names it. */
LEND_HOT void lend_serve_free(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sslot *sl = lend_sslot_in(c, k->sslot);

	if (sl->rec == k->self)
		sl->rec = LEND_NONE;
	lend_call_free(c, lend_sess_at(c, k->sess), k);
}

/* Pushes REPLY_END. queued: a carrier may still read the buffer. */
LEND_HOT void lend_serve_reply_end(struct lend_core *c, struct lend_call_rec *k, uint32_t buf,
				   bool queued)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_REPLY_END);

	e->session = k->sess_id;
	e->call = lend_call_handle(k);
	e->buf = buf;
	e->maybe_queued = queued;
}

/* Starts to send the reply, len bytes of buf, from the call's record. */
LEND_HOT void lend_serve_answer(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
				uint32_t buf, uint32_t len)
{
	lend_tx_begin(c, s, &k->tx, buf, len, k->shared);
	if (k->tx.win != LEND_NONE)
		k->tx.granted = lend_max_u32(k->reply_cap, lend_min_u32(len, s->payload));
	k->state = LEND_CALL_REPLYING;
	lend_sched_ready(c, k);
}

void lend_serve_on_request(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			   const struct lend_pkt_view *v);
/* lend_core_reply_short() for any call. */
int lend_reply_keep(struct lend_core *c, lend_ns now, uint64_t call, uint8_t status,
		    const void *data, uint32_t len);
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
/* Sets the bits of the session's calls whose handlers run. */
void lend_serve_running(struct lend_core *c, const struct lend_sess *s,
			struct lend_pkt_running *running);
/* Returns enum lend_pkt_state for an ACK of this call, and its record if it has one. */
uint32_t lend_serve_state(struct lend_core *c, const struct lend_sess *s, uint32_t wire,
			  struct lend_call_rec **rec);

#endif
