/* call - the caller's side of a call: from start to its one end, and the slot until it drains.
 *
 *   QUEUED -> OPEN -> freed            the reply came
 *   QUEUED -> freed                    ended before any byte was sent: ran no
 *   OPEN -> DRAINING -> freed          ended here; CANCEL is repeated until GONE
 *
 * Only this side times a call. Layer: core (pure). */
#ifndef LEND_CORE_CALL_H
#define LEND_CORE_CALL_H

#include "core/state.h"

/* Takes a record for either side; NULL: none left. */
struct lend_call_rec *lend_call_new(struct lend_core *c, struct lend_sess *s, uint32_t wire,
				    bool server);
/* Takes it off every list and frees it. */
void lend_call_free(struct lend_core *c, struct lend_call_rec *k);
/* The record of a handle; NULL when stale. */
struct lend_call_rec *lend_call_of(struct lend_core *c, uint64_t handle);

/* Its session is up: it may be sent. */
void lend_call_launch(struct lend_core *c, struct lend_call_rec *k);
/* Takes unscheduled credit before the first byte; false: none left now. */
bool lend_call_admit(struct lend_core *c, struct lend_call_rec *k);
/* A datagram of it went out under this number. */
void lend_call_sent(struct lend_core *c, struct lend_call_rec *k, uint64_t number);
void lend_call_stop(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
/* The session ends: no draining. */
void lend_call_cut(struct lend_core *c, struct lend_call_rec *k, uint8_t status);
lend_ns lend_call_wake(const struct lend_call_rec *k);
void lend_call_tick(struct lend_core *c, struct lend_call_rec *k);

/* What call and reply share. The slot may be used again; the record is gone. */
void lend_call_free_slot(struct lend_core *c, struct lend_call_rec *k);
/* It ended here: CANCEL until the server says GONE, and only then the slot is free. */
void lend_call_drain(struct lend_core *c, struct lend_call_rec *k);
/* Its unscheduled credit goes back to the session. */
void lend_call_refund(struct lend_core *c, struct lend_call_rec *k);
/* CALL_END, with the request; the reply is the caller's to fill in. */
struct lend_event *lend_call_end_event(struct lend_core *c, struct lend_call_rec *k, uint8_t status,
				       uint8_t ran);

void lend_call_on_reply(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_pkt_view *v);
void lend_call_on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_call_on_gone(struct lend_core *c, struct lend_sess *s, uint32_t wire);

#endif
