/* handshake - CONNECT, ACCEPT, RETRY and PROOF, and which CONNECT opens a session.
 *
 *   client  IDLE -> SENT (the same bytes again, with backoff and jitter)
 *                     -> RETRY: with its cookie, after its wait, at most three times
 *                     -> UP at ACCEPT; under LEND_PATTERN_PROOF if its tag is valid, and PROOF is
 *                        retransmitted until a datagram other than ACCEPT arrives; sealed if it was
 *                        opened
 *   server  NONE -> HALF -> UP at the first datagram that bears our id; under LEND_PATTERN_PROOF
 *                           at a valid PROOF; sealed at the first one that was opened
 *
 * A half-open session lasts until its timer ends it and is never evicted. When there are many, a
 * CONNECT from an unproven address is answered by RETRY with a cookie and takes no memory.
 *
 * The core computes no HMAC: it raises LEND_EV_PROVE and continues at lend_core_prove().
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_HANDSHAKE_H
#define LEND_CORE_HANDSHAKE_H

#include "core/arena.h"

/* REFUSED, FULL: a RETRY, which proves nothing, said that no level or suite fits, or that no
 * session is free: the reason if the attempt fails. LOOPS: the server is this core itself. */
enum { LEND_HS_REFUSED = 1, LEND_HS_LOOPS = 2, LEND_HS_FULL = 4 };

/* State of one handshake, freed at its end. */
struct lend_hs {
	struct lend_pkt_cookie cookie; /* client: sent in CONNECT */
	struct lend_pkt_ticket ticket; /* client: sent in CONNECT; server: sent in ACCEPT */
	uint8_t incarnation[16];       /* client: its identity towards this server */
	uint8_t tag[16];               /* server: tag of ACCEPT */
	uint8_t proof[16];             /* client: sent in PROOF; server: expected in PROOF */
	uint64_t key_id;               /* id of the key that is to be proven */
	uint64_t seen;                 /* client: s->seen at PROOF, or at a later ACCEPT */
	uint8_t pattern;               /* enum lend_pkt_pattern */
	uint8_t ready;                 /* lend_core_prove() has set the proof */
	uint8_t retries;               /* client: RETRYs that were followed */
	uint8_t suite, level, least;   /* of a sealed session; least: client */
	uint8_t resumes;               /* client: this CONNECT is LEND_PATTERN_RESUME */
	uint8_t flags;                 /* client: LEND_HS_* */
};
_Static_assert(sizeof(struct lend_hs) == 136, "no padding");

/* Returns the record of a session that is in its handshake. */
static inline struct lend_hs *lend_hs_of(struct lend_core *c, const struct lend_sess *s)
{
	LEND_CHECK(s->hs != LEND_NONE);
	return LEND_AT(c, at_hs, struct lend_hs) + s->hs;
}

/* Takes a zeroed record for a session that begins; there are as many records as sessions. */
void lend_hs_open(struct lend_core *c, struct lend_sess *s);
void lend_hs_close(struct lend_core *c, struct lend_sess *s);

/* Notes that the session of a client is to be sealed. */
void lend_hs_propose(struct lend_core *c, struct lend_sess *s,
		     const struct lend_core_identity *self);
/* Returns whether the handshake is of a sealed session. */
static inline bool lend_hs_seals(const struct lend_hs *h)
{
	return h->pattern >= LEND_PATTERN_NN;
}
/* Returns whether a control datagram may be built now: CONNECT and ACCEPT of sealed sessions cost
 * up to two DH operations each, of which an event-loop iteration makes four. Counts it. */
bool lend_hs_affords(struct lend_core *c, const struct lend_ctl *e);
/* Fill the blocks of the handshake datagrams that this side sends. */
void lend_hs_connect(struct lend_core *c, struct lend_sess *s, struct lend_pkt_connect *to);
void lend_hs_accept(struct lend_core *c, struct lend_sess *s, struct lend_pkt_accept *to);
void lend_hs_retry(struct lend_core *c, const struct lend_ctl *e, struct lend_pkt_retry *to);

/* Answers a copy of a CONNECT, but never to another address: it could be a third party's. */
void lend_hs_repeat(struct lend_core *c, struct lend_sess *s, const struct lend_in *in);
/* Handles a CONNECT from any address. Returns the session that it made if its 0-RTT call is to run,
 * else NULL. */
struct lend_sess *lend_hs_on_connect(struct lend_core *c, const struct lend_in *in,
				     const struct lend_pkt_view *v);
/* Returns whether this is the ACCEPT of this session. An ACCEPT of another session that our CONNECT
 * made, and that has ended, bears our id as well, but numbers of its own: those must not be noted
 * as seen. */
bool lend_hs_is_accept(struct lend_core *c, const struct lend_sess *s,
		       const struct lend_pkt_view *v);
void lend_hs_on_accept(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
		       const struct lend_pkt_view *v);
/* Brings the session up: its ACCEPT needs no proof, or is proven. */
void lend_hs_accepted(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
void lend_hs_on_retry(struct lend_core *c, const struct lend_in *in, const struct lend_pkt_view *v);
/* Returns whether this datagram opens its half-open session. */
bool lend_hs_proves(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v);
/* Handles the handshake's timer: retransmits CONNECT or PROOF, or ends the retransmissions. */
void lend_hs_tick(struct lend_core *c, struct lend_sess *s);

#endif
