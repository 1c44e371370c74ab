/* seen - the numbers of a session's datagrams that have arrived, and the report of them.
 *
 * The largest number is kept, and a map of the 64 below it. A datagram with a number in the map is
 * a duplicate. loss.h has what the sender concludes from a report. Layer: core (pure). */
#ifndef LEND_CORE_SEEN_H
#define LEND_CORE_SEEN_H

#include "core/arena.h"

/* Returns the map of the 64 numbers below the largest, after the largest grew by `ahead`. */
static inline uint64_t lend_seen_shift(uint64_t map, uint64_t ahead)
{
	if (ahead == 0)
		return map;
	if (ahead > 64)
		return 0;
	return (ahead == 64 ? 0 : map << ahead) | UINT64_C(1) << (ahead - 1);
}

/* Sets the limit of the datagrams that short_receive.c predicts: none unless the session is up and
 * has received one. */
static inline void lend_seen_predict(const struct lend_core *c, struct lend_sess *s)
{
	uint64_t most = lend_min_u64(s->payload, c->cfg.message_max);

	s->predicted = 0;
	if (s->state == LEND_SESS_UP && s->seen_at)
		s->predicted = (uint16_t)lend_min_u64(most, UINT16_MAX);
}

/* Returns whether a datagram with this number shows that smaller ones are missing. */
static inline bool lend_seen_is_hole(const struct lend_sess *s, uint64_t number)
{
	return number > s->seen + 1 && s->seen_at && !s->lossless && s->state == LEND_SESS_UP;
}

/* Notes the arrival of a datagram with this number. True: it is a duplicate. */
bool lend_seen_note_other(struct lend_core *c, struct lend_sess *s, uint64_t number);
static inline bool lend_seen_note(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	if (number - s->seen != 1 || number == 0 || s->seen_at == 0)
		return lend_seen_note_other(c, s, number);
	s->seen_map = s->seen_map << 1 | 1;
	s->seen = number;
	s->seen_at = c->now + !c->now;
	return false;
}

/* Forgets the arrival of a datagram that was dropped because there was no memory for it. It is not
 * reported, so its sender does not assume that it was delivered. */
void lend_seen_forget(struct lend_core *c, struct lend_sess *s, uint64_t number);
/* Fills a report of the numbers that were received. */
void lend_seen_report(struct lend_core *c, struct lend_sess *s, struct lend_pkt_seen *seen);

#endif
