/* bitset - numbers from 0 to a limit, in the arena: 64 to a word, and a bit above for each word
 * that is not empty, so that adding, taking out and finding the next one look at four words at
 * most. Layer: mn/store (pure), private to it. Memory: the arena's; all zero is the empty set. */
#ifndef MN_STORE_BITSET_H
#define MN_STORE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

struct lend_store;

enum { LEND_SET_BITS = 6, LEND_SET_LEVELS = 4, LEND_SET_NONE = UINT32_MAX };

struct lend_set {
	uint64_t at[LEND_SET_LEVELS]; /* offsets of the words of each level, the members' first */
	uint32_t last;                /* the greatest number that may be in it; below 2^25 */
	uint32_t n;                   /* members */
};

/* A set of numbers up to last lies at that offset; where it ends. */
uint64_t lend_set_lay_out(struct lend_set *set, uint32_t last, uint64_t at);
/* Nothing is in it any more. */
void lend_set_clear(const struct lend_store *s, struct lend_set *set);
/* The least member that is not below i, or LEND_SET_NONE. */
uint32_t lend_set_next(const struct lend_store *s, const struct lend_set *set, uint32_t i);
/* Members side by side from i on, at most max of them. */
uint32_t lend_set_run(const struct lend_store *s, const struct lend_set *set, uint32_t i,
		      uint32_t max);
/* Members that share i's word, bit k being 64 * (i / 64) + k: takes these out, which were all
 * there; puts these in, of which none was. */
void lend_set_cut_word(const struct lend_store *s, struct lend_set *set, uint32_t i, uint64_t bits);
void lend_set_put_word(const struct lend_store *s, struct lend_set *set, uint32_t i, uint64_t bits);
/* i's word is not empty any more; has become empty: the levels above are told. */
void lend_set_up(const struct lend_store *s, const struct lend_set *set, uint32_t i);
void lend_set_down(const struct lend_store *s, const struct lend_set *set, uint32_t i);

static inline uint64_t *lend_set_word_at(const struct lend_store *s, const struct lend_set *set,
					 uint32_t level, uint32_t i)
{
	return (uint64_t *)(void *)((uint8_t *)(uintptr_t)s + set->at[level]) +
	       (i >> LEND_SET_BITS);
}
/* Members that share i's word. */
static inline uint64_t lend_set_word(const struct lend_store *s, const struct lend_set *set,
				     uint32_t i)
{
	return *lend_set_word_at(s, set, 0, i);
}
/* i was not in it. */
static inline void lend_set_add(const struct lend_store *s, struct lend_set *set, uint32_t i)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i), was = *w;

	set->n++;
	*w = was | UINT64_C(1) << (i & 63);
	if (!was)
		lend_set_up(s, set, i);
}
/* i was in it. */
static inline void lend_set_remove(const struct lend_store *s, struct lend_set *set, uint32_t i)
{
	uint64_t *w = lend_set_word_at(s, set, 0, i);

	set->n--;
	*w &= ~(UINT64_C(1) << (i & 63));
	if (!*w)
		lend_set_down(s, set, i);
}

#endif
