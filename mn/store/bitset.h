/* bitset - sets of numbers from 0 to a limit, in the arena. Each uint64_t of a level has a bit in
 * the level above, set while that uint64_t is not zero. So add, remove and next access at most five
 * of them.
 *
 * Layer: mn/store (pure), private to it. Memory: the arena's; all zero is the empty set. */
#ifndef MN_STORE_BITSET_H
#define MN_STORE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

struct lend_store;

enum { LEND_SET_BITS = 6, LEND_SET_LEVELS = 5, LEND_SET_NONE = UINT32_MAX };

struct lend_set {
	uint64_t
	    at[LEND_SET_LEVELS]; /* offsets of the words of each level; level 0 has the members */
	uint32_t last;           /* largest number that may be a member; below 2^30 */
	uint32_t n;              /* number of members */
};

/* Places a set of numbers up to last at this offset. Returns the offset of its end. */
uint64_t lend_set_lay_out(struct lend_set *set, uint32_t last, uint64_t at);
/* Removes all members. */
void lend_set_clear(const struct lend_store *s, struct lend_set *set);
/* Returns the smallest member that is at least i, or LEND_SET_NONE. */
uint32_t lend_set_next(const struct lend_store *s, const struct lend_set *set, uint32_t i);
/* Returns the number of consecutive members from i on, at most max. */
uint32_t lend_set_run(const struct lend_store *s, const struct lend_set *set, uint32_t i,
		      uint32_t max);
/* Remove or add several members in i's word; bit k is the number 64 * (i / 64) + k. cut: all of
 * them are members before. put: none of them is. */
void lend_set_remove_bits(const struct lend_store *s, struct lend_set *set, uint32_t i,
			  uint64_t bits);
void lend_set_add_bits(const struct lend_store *s, struct lend_set *set, uint32_t i, uint64_t bits);
/* Update the levels above after i's word has become non-zero (up) or zero (down). */
void lend_set_up(const struct lend_store *s, const struct lend_set *set, uint32_t i);
void lend_set_down(const struct lend_store *s, const struct lend_set *set, uint32_t i);

static inline uint64_t *lend_set_word_at(const struct lend_store *s, const struct lend_set *set,
					 uint32_t level, uint32_t i)
{
	return (uint64_t *)(void *)((uint8_t *)(uintptr_t)s + set->at[level]) +
	       (i >> LEND_SET_BITS);
}
/* Returns the members in i's word, as bits. */
static inline uint64_t lend_set_word(const struct lend_store *s, const struct lend_set *set,
				     uint32_t i)
{
	return *lend_set_word_at(s, set, 0, i);
}
/* Adds i, which must not be a member. */
static inline void lend_set_add(const struct lend_store *s, struct lend_set *set, uint32_t i)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i), was = *w;

	set->n++;
	*w = was | UINT64_C(1) << (i & 63);
	if (!was)
		lend_set_up(s, set, i);
}
/* Removes i, which must be a member. */
static inline void lend_set_remove(const struct lend_store *s, struct lend_set *set, uint32_t i)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i);

	set->n--;
	*w &= ~(UINT64_C(1) << (i & 63));
	if (!*w)
		lend_set_down(s, set, i);
}

#endif
