#include "core/sent_ring.h"

bool lend_ring_grow(struct lend_core *c, struct lend_sess *s)
{
	const struct lend_few *few = lend_few_of(c, s);
	struct lend_ring *r;
	uint32_t i;

	if (s->ring != LEND_NONE)
		return false;
	i = lend_pool_take(&c->free_rings, LEND_AT(c, at_free_rings, uint32_t));
	if (i == LEND_NONE)
		return false;
	/* Entries that other sessions left belong to calls that are over: their records'
	 * generations have advanced. */
	r = lend_ring_at(c, i);
	for (uint32_t k = 0; k < LEND_FEW; k++) {
		uint64_t number = s->number - lend_min_u64(s->number, k + 1);

		if (few->sent[k].gen)
			r->sent[few->sent[k].number % LEND_RING] = few->sent[k];
		r->class_of[number % LEND_RING] = few->class_of[number % LEND_FEW];
	}
	s->ring = i;
	return true;
}

void lend_ring_give(struct lend_core *c, struct lend_sess *s)
{
	lend_pool_give(&c->free_rings, LEND_AT(c, at_free_rings, uint32_t), s->ring);
	s->ring = LEND_NONE;
}

void lend_sent_class(struct lend_core *c, struct lend_sess *s, uint8_t class)
{
	if (s->number == s->oldest) /* what was seen before does not count for this message */
		memset(lend_few_of(c, s)->passed, 0, sizeof(lend_few_of(c, s)->passed));
	if (s->number - s->oldest >= lend_ring_len(s))
		(void)lend_ring_grow(c, s);
	*lend_ring_class(c, s, s->number) = class;
}
