#include "core/sent_ring.h"

/* Takes the next larger ring from its pool. LEND_NONE: there is none. */
static uint32_t take_larger(struct lend_core *c, const struct lend_sess *s)
{
	uint32_t i;

	if (s->ring == LEND_NONE)
		return lend_pool_take(&c->free_rings, LEND_AT(c, at_free_rings, uint32_t));
	if (lend_ring_is_wide(c, s) || c->free_wide.free == 0)
		return LEND_NONE;
	i = lend_pool_take(&c->free_wide, LEND_AT(c, at_free_wide, uint32_t));
	return c->free_rings.cap + i;
}

bool lend_ring_grow(struct lend_core *c, struct lend_sess *s)
{
	struct lend_sess old = *s;
	uint32_t larger = take_larger(c, s), len = lend_ring_len(c, s);

	if (larger == LEND_NONE)
		return false;
	/* Entries that other sessions left belong to calls that are over: their records'
	 * generations have advanced. */
	s->ring = larger;
	for (uint32_t k = 0; k < len; k++) {
		const struct lend_sent_rec *e = lend_sent_ring_slot(c, &old, k);
		uint64_t number = s->number - lend_min_u64(s->number, k + 1);

		if (e->gen)
			*lend_sent_ring_slot(c, s, e->number) = *e;
		*lend_ring_class(c, s, number) = *lend_ring_class(c, &old, number);
	}
	lend_ring_close(c, &old);
	return true;
}

void lend_ring_give(struct lend_core *c, struct lend_sess *s)
{
	if (lend_ring_is_wide(c, s))
		lend_pool_give(&c->free_wide, LEND_AT(c, at_free_wide, uint32_t),
			       s->ring - c->free_rings.cap);
	else
		lend_pool_give(&c->free_rings, LEND_AT(c, at_free_rings, uint32_t), s->ring);
	s->ring = LEND_NONE;
}

void lend_sent_class(struct lend_core *c, struct lend_sess *s, uint8_t class)
{
	if (s->number == s->oldest) /* what was seen before does not count for this message */
		memset(lend_few_of(c, s)->passed, 0, sizeof(lend_few_of(c, s)->passed));
	if (s->number - s->oldest >= lend_ring_len(c, s))
		(void)lend_ring_grow(c, s);
	*lend_ring_class(c, s, s->number) = class;
}
