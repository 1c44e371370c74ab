/* sent_ring - records of what the newest datagram numbers of a session carried.
 *
 * Most sessions have few datagrams in flight that must be tracked: replies not acknowledged yet,
 * fragments of long messages. The entries of these are in its struct lend_few. A session with more
 * takes a ring of LEND_RING entries from a pool until the last of its calls ends, and one with more
 * in flight than these a ring of LEND_WIDE_RING. When a pool is empty, the session continues with
 * what it has, which is slower. So an idle session is small. lend_sess.ring counts the wide rings
 * after the others. Layer: core (pure). In the arena. */
#ifndef LEND_CORE_SENT_RING_H
#define LEND_CORE_SENT_RING_H

#include "core/arena.h"

/* Replaces the session's entries by the next larger ring; false: there is none, or the pool is
 * empty. */
bool lend_ring_grow(struct lend_core *c, struct lend_sess *s);
/* Returns the ring to the pool, because the session ends or has no calls left. */
void lend_ring_give(struct lend_core *c, struct lend_sess *s);
static inline void lend_ring_close(struct lend_core *c, struct lend_sess *s)
{
	if (s->ring != LEND_NONE)
		lend_ring_give(c, s);
}

static inline bool lend_ring_is_wide(const struct lend_core *c, const struct lend_sess *s)
{
	return s->ring != LEND_NONE && s->ring >= c->free_rings.cap;
}

/* Returns how many of the newest numbers can have an entry. */
static inline uint32_t lend_ring_len(const struct lend_core *c, const struct lend_sess *s)
{
	return s->ring == LEND_NONE      ? LEND_FEW
	       : lend_ring_is_wide(c, s) ? LEND_WIDE_RING
					 : LEND_RING;
}

/* Returns the address of a number's entry, which may hold another number. */
static inline struct lend_sent_rec *lend_sent_ring_slot(struct lend_core *c, struct lend_sess *s,
							uint64_t number)
{
	if (s->ring == LEND_NONE)
		return &lend_few_of(c, s)->sent[number % LEND_FEW];
	if (lend_ring_is_wide(c, s))
		return &lend_wide_ring_at(c, s->ring - c->free_rings.cap)
			    ->sent[number % LEND_WIDE_RING];
	return &lend_ring_at(c, s->ring)->sent[number % LEND_RING];
}

/* Returns the entry of a number; NULL: there is none, or it is not needed any more. */
static inline struct lend_sent_rec *lend_ring_entry(struct lend_core *c, struct lend_sess *s,
						    uint64_t number)
{
	struct lend_sent_rec *e = lend_sent_ring_slot(c, s, number);

	return e->gen && e->number == (uint32_t)number ? e : NULL;
}

/* Returns the address of the class under which a number was sent. */
static inline uint8_t *lend_ring_class(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	if (s->ring == LEND_NONE)
		return &lend_few_of(c, s)->class_of[number % LEND_FEW];
	if (lend_ring_is_wide(c, s))
		return &lend_wide_ring_at(c, s->ring - c->free_rings.cap)
			    ->class_of[number % LEND_WIDE_RING];
	return &lend_ring_at(c, s->ring)->class_of[number % LEND_RING];
}

/* Notes the class of the next datagram. */
void lend_sent_class(struct lend_core *c, struct lend_sess *s, uint8_t class);
/* Takes the number of the next datagram, of this class in the network. lengthy: it belongs to a
 * message of several datagrams. */
LEND_HOT uint64_t lend_sent_number(struct lend_core *c, struct lend_sess *s, uint8_t class,
				   bool lengthy)
{
	if (s->oldest == s->number && !lengthy)
		s->oldest++;
	else if (!s->lossless)
		lend_sent_class(c, s, class);
	return s->number++;
}

#endif
