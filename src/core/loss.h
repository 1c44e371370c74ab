/* loss - datagram numbers, RTT samples, and loss detection.
 *
 * Every datagram of a session has a number that is never used twice. The receiver reports the
 * largest number that it saw and a map of the 64 numbers below. For datagrams of long messages and
 * for replies, the sender records what each number carried. A number is lost once a later one was
 * seen for longer than reorder.h allows, or once the answer to a later PROBE does not include it.
 * Only numbers of the same or a less urgent class count, because more urgent datagrams may have
 * overtaken it. SRTT and RTTVAR follow RFC 6298, the threshold RFC 9002. On a lossless carrier no
 * datagram is declared lost: the receiver reports which ones it dropped.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_LOSS_H
#define LEND_CORE_LOSS_H

#include "core/rto.h"
#include "core/seen.h"
#include "core/sent_ring.h"

/* The kind of datagram that a report came with: any other, a PROBE, or the answer to a PROBE. */
enum lend_loss_source { LEND_LOSS_OTHER, LEND_LOSS_PROBE, LEND_LOSS_PROBE_ANSWER };
/* Processes the peer's report. False: it acknowledges a number that was never sent. */
bool lend_loss_reported(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_seen *seen,
			enum lend_loss_source word);
/* Frees the entry of this number, which an older number still uses. */
struct lend_sent_rec *lend_loss_make_room(struct lend_core *c, struct lend_sess *s,
					  uint64_t number);
/* Notes that fragment frag of k is sent under this number. */
static inline void lend_loss_sent(struct lend_core *c, struct lend_sess *s, uint64_t number,
				  const struct lend_call_rec *k, uint32_t frag)
{
	struct lend_sent_rec *e = lend_sent_ring_slot(c, s, number);

	if (e->gen && (e->call != k->self || e->frag != frag))
		e = lend_loss_make_room(c, s, number);
	e->call = k->self;
	e->gen = k->gen;
	e->frag = frag;
	e->number = (uint32_t)number;
	e->when = (uint32_t)(c->now / LEND_SENT_UNIT);
}

/* Reverts lend_loss_sent(): the carrier refused the datagram. */
void lend_loss_unsent(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Returns whether one more datagram of a long message may be in flight. */
bool lend_loss_room(struct lend_core *c, struct lend_sess *s);
/* Adds an RTT sample; delay_ns is the delay at the peer that it includes. */
void lend_loss_rtt(struct lend_sess *s, lend_ns sample, uint32_t delay_ns);
/* Adds an RTT sample, at most one per 2^LEND_RTT_BITS ns: those of one burst do not differ, and
 * more of them do not improve a timeout of 1 ms or longer. */
static inline void lend_loss_rtt_first(const struct lend_core *c, struct lend_sess *s,
				       lend_ns sample, uint32_t delay_ns)
{
	uint8_t at = (uint8_t)(c->now >> LEND_RTT_BITS);

	if (s->rtt_at == at && s->srtt)
		return;
	s->rtt_at = at;
	lend_loss_rtt(s, sample, delay_ns);
}

#endif
