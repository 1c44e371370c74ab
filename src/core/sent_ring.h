/* sent_ring - what the newest numbers of a session were for.
 *
 * Nearly all sessions have few datagrams under way whose fate matters: replies not acknowledged
 * yet, fragments of long messages. Those have their entries with them. Who has more takes a ring
 * from a pool until the last of its calls is over; when the pool is empty it goes on with its few,
 * that is slower. So an idle session is small. Layer: core (pure). In the arena. */
#ifndef LEND_CORE_SENT_RING_H
#define LEND_CORE_SENT_RING_H

#include "core/arena.h"

/* A ring in place of its few entries; false: it has one, or none is left. */
bool lend_ring_grow(struct lend_core *c, struct lend_sess *s);
/* None of its calls is left, or it ends: its ring goes back. */
void lend_ring_give(struct lend_core *c, struct lend_sess *s);
static inline void lend_ring_close(struct lend_core *c, struct lend_sess *s)
{
	if (s->ring != LEND_NONE)
		lend_ring_give(c, s);
}

/* So many of the newest numbers can have an entry. */
static inline uint32_t lend_ring_len(const struct lend_sess *s)
{
	return s->ring == LEND_NONE ? LEND_FEW : LEND_RING;
}

/* Where the entry of a number is, whatever is there. */
static inline struct lend_sent_rec *lend_ring_place(struct lend_core *c, struct lend_sess *s,
						    uint64_t number)
{
	return s->ring == LEND_NONE ? &s->few[number % LEND_FEW]
				    : &lend_ring_at(c, s->ring)->sent[number % LEND_RING];
}

/* NULL: nothing is known of this number, or it is of no interest any more. */
static inline struct lend_sent_rec *lend_ring_entry(struct lend_core *c, struct lend_sess *s,
						    uint64_t number)
{
	struct lend_sent_rec *e = lend_ring_place(c, s, number);

	return e->gen && e->number == (uint32_t)number ? e : NULL;
}

/* Its class on the way. */
static inline uint8_t *lend_ring_class(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	return s->ring == LEND_NONE ? &s->few_class[number % LEND_FEW]
				    : &lend_ring_at(c, s->ring)->class_of[number % LEND_RING];
}

#endif
