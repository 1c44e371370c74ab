/* short_call - the common path of calls with a request and a reply that fit a frame each
 * (coalesce.h).
 *
 * Each function does what the general one does, for the usual value of every field: the session is
 * up and not blocked, no memory was named, nothing was retransmitted. All conditions of a message
 * are tested before the first store but that of the core's time. If one fails, the general function
 * takes over. What the frames of a datagram change in their session is stored once for all.
 *
 * At the client, the slot is the call: no record is taken, and the handle names the slot. Whatever
 * else happens to the call (a timeout, a cancel, a refusal by the carrier, a reply of several
 * datagrams or with a head, the end of its session) promotes it: it gets a record, and the general
 * functions find a call of their own. Short calls count among the records in use, so there always
 * is a record. The session's timer covers them: it fires no later than the first retransmission.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_SHORT_CALL_H
#define LEND_CORE_SHORT_CALL_H

#include "core/state.h"

/* Handles the frames of a coalesced datagram, len bytes, up to the first faulty one. */
void lend_short_receive(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			uint64_t number, const uint8_t *at, uint32_t len);
/* Ends the short call of a reply in a datagram of its own. False: there is none, or it must be
 * promoted. */
bool lend_short_end(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
/* Handles datagrams until one is not as predicted. Returns how many of the n. */
uint32_t lend_short_input(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in,
			  uint32_t n);

#endif
