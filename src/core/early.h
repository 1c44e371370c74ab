/* early - a call that rides on its session's CONNECT, so that its reply takes one round trip.
 *
 * With an ACCEPT a server gives who asks for it a pass: a proof, by a key of its own, that this
 * address got it, and until when. The client keeps it by a name of the server, in a bounded table.
 * A later CONNECT to that name bears the pass and the first call of the session, if its caller
 * allowed that. It runs if the pass is good and this attempt, {incarnation, number}, was never seen
 * before; attempts are remembered for as long as a pass lives, so nothing runs twice.
 *
 * Every ACCEPT says what became of such a call: it runs; it did not and will not, so it is sent
 * again; or nobody knows (another server has the address now, or the attempt was seen before). Then
 * it ends UNAVAILABLE, ran maybe, and is never sent again.
 *
 * Layer: core (pure). In the arena; nothing at all where config.pass is 0. */
#ifndef LEND_CORE_EARLY_H
#define LEND_CORE_EARLY_H

#include "core/table.h"

/* Bytes of the tables. */
size_t lend_early_size(const struct lend_core_config *config);
void lend_early_init(struct lend_core *c);
/* NULL, or what is wrong with the tables. */
const char *lend_early_audit(struct lend_core *c);

/* At the client. A CONNECT is about to be made: whether it bears a pass (enum lend_pkt_early), and
 * the call that rides on it, or NULL. */
uint32_t lend_early_wish(struct lend_core *c, struct lend_sess *s, struct lend_call_rec **rider);
/* The carrier did not take it, after all. */
void lend_early_unsent(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);
/* The ACCEPT is here: its pass, and what it says of a call that rode. */
void lend_early_learn(struct lend_core *c, const struct lend_sess *s,
		      const struct lend_pkt_view *v);
void lend_early_answered(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			 uint32_t said);
/* The server fell silent, or started anew: its pass is of no use. */
void lend_early_forget(struct lend_core *c, const struct lend_sess *s);

/* At the server. What to say of the call that rides to a session just made, enum lend_pkt_early;
 * notes whom passes of this session are for. */
uint32_t lend_early_judge(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
			  const struct lend_pkt_view *v);
/* A pass for the session's client, from now on; zeros where there is none. */
struct lend_pkt_pass lend_early_pass(const struct lend_core *c, const struct lend_sess *s);

#endif
