/* loss - numbers, round trips, and what to send again.
 *
 * Every datagram of a session takes a number that is never used twice. The receiver reports the
 * largest it saw and a map of the 64 below; the sender keeps, for datagrams of long messages and
 * for replies, what each number carried. A number is lost once three above it were seen, or once an
 * answer to a later PROBE does not show it; those above count that are not more urgent, for these
 * may have passed it by. SRTT and RTTVAR as in RFC 6298, the threshold as in RFC
 * 9002. On a lossless carrier nothing is ever judged lost: the receiver says what it dropped.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_LOSS_H
#define LEND_CORE_LOSS_H

#include "core/sent_ring.h"
#include "core/state.h"

/* A datagram of this number came; true: it came before. */
bool lend_loss_note_other(struct lend_core *c, struct lend_sess *s, uint64_t number);
static inline bool lend_loss_note(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	if (number - s->seen != 1 || number == 0 || s->seen_at == 0)
		return lend_loss_note_other(c, s, number);
	s->seen_map = s->seen_map << 1 | 1;
	s->seen = number;
	s->seen_at = c->now + !c->now;
	return false;
}

/* What just came under this number was dropped for want of memory: it will not be reported, so that
 * its sender does not take it for delivered. */
void lend_loss_forget(struct lend_sess *s, uint64_t number);
/* Fills the report about what came. */
void lend_loss_report(struct lend_core *c, struct lend_sess *s, struct lend_pkt_seen *seen);
/* What the peer's report came with. */
enum lend_loss_word { LEND_LOSS_PLAIN, LEND_LOSS_PROBE, LEND_LOSS_PROBED };
/* The peer's report. False: it claims what was never sent. */
bool lend_loss_reported(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_seen *seen,
			enum lend_loss_word word);
/* The number of the next datagram, which is of this class on its way; lengthy: of a message of
 * several. */
static inline uint64_t lend_loss_number(struct lend_core *c, struct lend_sess *s, uint8_t class,
					bool lengthy)
{
	if (s->oldest == s->number && !lengthy) {
		s->oldest++;
	} else if (!s->lossless) {
		if (s->number - s->oldest >= lend_ring_len(s))
			(void)lend_ring_grow(c, s);
		*lend_ring_class(c, s, s->number) = class;
	}
	return s->number++;
}

/* Makes room for the entry of this number, which another's is in. */
struct lend_sent_rec *lend_loss_make_room(struct lend_core *c, struct lend_sess *s,
					  uint64_t number);
/* Fragment frag of k goes out under this number. */
static inline void lend_loss_sent(struct lend_core *c, struct lend_sess *s, uint64_t number,
				  const struct lend_call_rec *k, uint32_t frag)
{
	struct lend_sent_rec *e = lend_ring_place(c, s, number);

	if (e->gen && (e->call != k->self || e->frag != frag))
		e = lend_loss_make_room(c, s, number);
	e->call = k->self;
	e->gen = k->gen;
	e->frag = frag;
	e->number = (uint32_t)number;
	e->when = (uint32_t)(c->now / LEND_SENT_UNIT);
}

/* It did not, after all. */
void lend_loss_unsent(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Room for one more datagram of a long message. */
bool lend_loss_room(struct lend_core *c, struct lend_sess *s);
/* A round trip was measured; delay_ns is the peer's share of it. */
void lend_loss_rtt(struct lend_sess *s, lend_ns sample, uint32_t delay_ns);
/* The same, once in a turn: of a burst the rest would tell what the first did. */
static inline void lend_loss_rtt_first(const struct lend_core *c, struct lend_sess *s,
				       lend_ns sample, uint32_t delay_ns)
{
	if (s->rtt_at == (uint16_t)c->now)
		return;
	s->rtt_at = (uint16_t)c->now;
	lend_loss_rtt(s, sample, delay_ns);
}

static inline lend_ns lend_loss_rto(const struct lend_sess *s, unsigned tries)
{
	lend_ns base = s->srtt ? s->srtt + 4 * s->rttvar : LEND_RTO_FIRST;

	base = lend_max_u64(base, s->lossless ? LEND_RTO_LOSSLESS : LEND_RTO_MIN);
	return lend_min_u64(base << lend_min_u32(tries, 12), LEND_RTO_MAX);
}

#endif
