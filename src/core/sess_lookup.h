/* sess_lookup - sessions by the attempt that made them, and by the id that their peer has for them:
 * two hash tables under a secret key, so that a peer cannot choose the buckets of its sessions.
 * Layer: core (pure). In the arena. */
#ifndef LEND_CORE_SESS_LOOKUP_H
#define LEND_CORE_SESS_LOOKUP_H

#include "core/arena.h"

/* Makes both tables empty. */
void lend_lookup_init(struct lend_core *c);
/* Returns the hash key of a session's attempt: two attempts to connect never share it, even if a
 * peer chooses its numbers. */
uint64_t lend_lookup_attempt(const struct lend_core *c, const struct lend_sess *s);
/* Returns the hash key of a CONNECT's attempt. */
uint64_t lend_lookup_key(const struct lend_core *c, const struct lend_pkt_connect *b);
/* Returns the jitter of the n-th retransmission of a session's handshake: the same at each call. */
uint64_t lend_lookup_jitter(const struct lend_core *c, const struct lend_sess *s, uint64_t n);
/* Returns the session that this CONNECT made; NULL: there is none. key: of its attempt. */
struct lend_sess *lend_lookup_by_attempt(struct lend_core *c, uint64_t key,
					 const struct lend_pkt_connect *b);
void lend_lookup_enter_attempt(struct lend_core *c, struct lend_sess *s, uint64_t key);
/* Returns the session with that peer that is up and has this id of the peer; NULL: there is none.
 */
struct lend_sess *lend_lookup_by_peer(struct lend_core *c, uint32_t peer, uint64_t peer_id);
void lend_lookup_enter_peer(struct lend_core *c, struct lend_sess *s, uint64_t peer_id);
/* Removes the session from the tables that it is in. */
void lend_lookup_leave(struct lend_core *c, struct lend_sess *s);

#endif
