#include "mn/store/bitset.h"

#include <string.h>

#include "mn/store/store.h"
#include "util/bits.h"

enum { MASK = 63 };

static uint32_t level_words(uint32_t last, uint32_t level)
{
	return (last >> (LEND_SET_BITS * (level + 1))) + 1;
}

uint64_t lend_set_lay_out(struct lend_set *set, uint32_t last, uint64_t at)
{
	set->last = last;
	for (uint32_t level = 0; level < LEND_SET_LEVELS; level++) {
		set->at[level] = at;
		at += level_words(last, level) * sizeof(uint64_t);
	}
	return at;
}

void lend_set_clear(const struct lend_store *s, struct lend_set *set)
{
	for (uint32_t level = 0; level < LEND_SET_LEVELS; level++)
		memset(lend_at(s, set->at[level]), 0,
		       level_words(set->last, level) * sizeof(uint64_t));
	set->n = 0;
}

void lend_set_up(const struct lend_store *s, const struct lend_set *set, uint32_t i)
{
	for (uint32_t level = 1; level < LEND_SET_LEVELS; level++) {
		uint64_t *w, was;

		i >>= LEND_SET_BITS;
		w = lend_set_word_at(s, set, level, i);
		was = *w;
		*w = was | UINT64_C(1) << (i & MASK);
		if (was)
			return;
	}
}

void lend_set_down(const struct lend_store *s, const struct lend_set *set, uint32_t i)
{
	for (uint32_t level = 1; level < LEND_SET_LEVELS; level++) {
		uint64_t *w;

		i >>= LEND_SET_BITS;
		w = lend_set_word_at(s, set, level, i);
		*w &= ~(UINT64_C(1) << (i & MASK));
		if (*w)
			return;
	}
}

void lend_set_remove_bits(const struct lend_store *s, struct lend_set *set, uint32_t i,
			  uint64_t bits)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i);

	set->n -= (uint32_t)__builtin_popcountll(bits);
	*w &= ~bits;
	if (!*w)
		lend_set_down(s, set, i);
}

void lend_set_add_bits(const struct lend_store *s, struct lend_set *set, uint32_t i, uint64_t bits)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i), was = *w;

	if (!bits)
		return;
	*w = was | bits;
	set->n += (uint32_t)__builtin_popcountll(bits);
	if (!was)
		lend_set_up(s, set, i);
}

/* Returns the smallest member in the subtree of number i of this level; i's bit must be set. */
static uint32_t descend_min(const struct lend_store *s, const struct lend_set *set, uint32_t level,
			    uint32_t i)
{
	while (level > 0) {
		level--;
		i = i << LEND_SET_BITS |
		    (uint32_t)__builtin_ctzll(*lend_set_word_at(s, set, level, i << LEND_SET_BITS));
	}
	return i;
}

uint32_t lend_set_next(const struct lend_store *s, const struct lend_set *set, uint32_t i)
{
	uint32_t last = set->last;

	for (uint32_t level = 0; level < LEND_SET_LEVELS && i <= last; level++) {
		uint64_t w = *lend_set_word_at(s, set, level, i) & ~UINT64_C(0) << (i & MASK);

		if (w)
			return descend_min(s, set, level,
					   (i & ~(uint32_t)MASK) | (uint32_t)__builtin_ctzll(w));
		i = (i >> LEND_SET_BITS) + 1;
		last >>= LEND_SET_BITS;
	}
	return LEND_SET_NONE;
}

uint32_t lend_set_run(const struct lend_store *s, const struct lend_set *set, uint32_t i,
		      uint32_t max)
{
	uint32_t n = 0;

	max = lend_min_u32(max, set->last + 1 - i);
	while (n < max) {
		uint32_t at = i + n;
		uint64_t gaps = ~(*lend_set_word_at(s, set, 0, at) >> (at & MASK));
		uint32_t left = 64 - (at & MASK);
		uint32_t here = gaps ? lend_min_u32((uint32_t)__builtin_ctzll(gaps), left) : left;

		n += here;
		if (here < left)
			break;
	}
	return lend_min_u32(n, max);
}
