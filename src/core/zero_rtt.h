/* zero_rtt - 0-RTT: a call that is sent with its session's CONNECT, so that its reply takes one
 * round trip.
 *
 * ACCEPT carries a ticket: a MAC, with a key that only the server has, over the client's address
 * and the ticket's expiry time. The client stores it by a name of the server, in a bounded table. A
 * later CONNECT to that name carries the ticket and the first call of the session, if its caller
 * allowed that. The call runs if the ticket is valid and this attempt, {incarnation, number}, was
 * never seen before. Attempts are remembered for as long as a ticket lives, so no call runs twice.
 *
 * ACCEPT reports the fate of such a call: it runs; it did not run and never will, so the client
 * sends it again; or its fate is unknown (another server has the address now, or the attempt was
 * seen before). In the last case the call ends UNAVAILABLE, ran maybe, and is never sent again.
 * Under LEND_PATTERN_PROOF no call is 0-RTT. A sealed session that is resumed by its ticket may
 * have such a call: it is encrypted under the ticket's secret, which came with the ticket.
 *
 * Layer: core (pure). In the arena; uses no memory if config.ticket_ns is 0. */
#ifndef LEND_CORE_ZERO_RTT_H
#define LEND_CORE_ZERO_RTT_H

#include "core/arena.h"

/* Returns the bytes of the tables. */
size_t lend_zero_rtt_size(const struct lend_core_config *config);
void lend_zero_rtt_init(struct lend_core *c);
/* Checks the tables. Returns NULL or the error text. */
const char *lend_zero_rtt_audit(struct lend_core *c);

/* At the client. Returns the call to send with the CONNECT that is about to be built, or NULL; from
 * then on the session's CONNECTs carry its ticket. */
struct lend_call_rec *lend_zero_rtt_choose(struct lend_core *c, struct lend_sess *s);
/* Reverts lend_zero_rtt_choose(): the carrier refused the datagram. */
void lend_zero_rtt_unsent(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* On ACCEPT: keeps its ticket; applies the fate of the 0-RTT call. */
void lend_zero_rtt_on_accept(struct lend_core *c, const struct lend_sess *s,
			     const struct lend_pkt_view *v);
void lend_zero_rtt_answered(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			    uint32_t said);
/* Forgets the ticket of a server that does not answer, or was restarted. */
void lend_zero_rtt_forget(struct lend_core *c, const struct lend_sess *s);

/* At the server. Returns whether the ticket of a CONNECT proves the address, and no attempt with
 * this number used it. key: of this attempt. */
bool lend_zero_rtt_ticket_valid(struct lend_core *c, const struct lend_in *in,
				const struct lend_pkt_connect *b, uint64_t key);
/* Returns enum lend_pkt_zero_rtt for the ACCEPT of a session just made: the fate of its 0-RTT call.
 * Notes the address that tickets of this session are for. */
uint32_t lend_zero_rtt_admit(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
			     const struct lend_pkt_view *v, bool may_run);
/* Returns a ticket for the session's client, valid from now on; zeros if there is none. */
struct lend_pkt_ticket lend_zero_rtt_ticket(struct lend_core *c, const struct lend_sess *s);

#endif
