/* Goal: a bitset in the arena holds the numbers put in, finds the next one and the length of a run,
 * and returns 64 bits at a time. Method: a bool per number under seeds, with limits around 64,
 * around 64 * 64, and around the whole. Covers: mn/store/bitset.c */
#include "mn/store/bitset.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/bits.h"
#include "util/rng.h"

struct pair {
	struct lend_store *arena;
	struct lend_set set;
	uint32_t last, n;
	bool *in;
};

static void open_pair(struct pair *p, uint32_t last)
{
	uint64_t end = lend_set_lay_out(&p->set, last, sizeof(struct lend_store));

	p->arena = malloc(end);
	memset(p->arena, 0xa5, end);
	lend_set_clear(p->arena, &p->set);
	p->last = last;
	p->n = 0;
	p->in = calloc((size_t)last + 1, sizeof(bool));
}

static void close_pair(struct pair *p)
{
	free(p->arena);
	free(p->in);
}

static uint32_t naive_next(const struct pair *p, uint32_t i)
{
	while (i <= p->last && !p->in[i])
		i++;
	return i <= p->last ? i : (uint32_t)LEND_SET_NONE;
}

static uint32_t naive_run(const struct pair *p, uint32_t i, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && i + n <= p->last && p->in[i + n])
		n++;
	return n;
}

static uint64_t naive_word(struct pair *p, uint32_t i, bool empty)
{
	uint64_t word = 0;

	for (uint32_t k = i & ~63u; k <= (i | 63) && k <= p->last; k++) {
		word |= (uint64_t)p->in[k] << (k & 63);
		p->n -= empty && p->in[k];
		p->in[k] = p->in[k] && !empty;
	}
	return word;
}

static void put_word(struct pair *p, uint32_t i, uint64_t bits)
{
	bits &= ~naive_word(p, i, false);
	for (uint32_t k = 0; k < 64; k++) {
		if ((i & ~63u) + k > p->last)
			bits &= ~(UINT64_C(1) << k);
		else if (bits >> k & 1)
			p->in[(i & ~63u) + k] = true;
	}
	p->n += (uint32_t)__builtin_popcountll(bits);
	lend_set_add_bits(p->arena, &p->set, i, bits);
}

static void step(struct pair *p, struct lend_rng *r, uint64_t seed)
{
	uint32_t i = (uint32_t)lend_rng_below(r, (uint64_t)p->last + 1), max;

	switch (lend_rng_below(r, 8)) {
	case 0:
		put_word(p, i, lend_rng_next(r) | lend_rng_next(r));
		break;
	case 1:
		lend_set_remove_bits(p->arena, &p->set, i, naive_word(p, i, true));
		break;
	default:
		if (p->in[i])
			lend_set_remove(p->arena, &p->set, i);
		else
			lend_set_add(p->arena, &p->set, i);
		p->in[i] = !p->in[i];
		p->n += p->in[i] ? 1 : -1u;
	}
	i = (uint32_t)lend_rng_below(r, (uint64_t)p->last + 1);
	max = (uint32_t)lend_rng_below(r, 300);
	cr_assert_eq(p->set.n, p->n, "seed %llu", (unsigned long long)seed);
	cr_assert_eq(lend_set_word(p->arena, &p->set, i), naive_word(p, i, false), "seed %llu",
		     (unsigned long long)seed);
	cr_assert_eq(lend_set_next(p->arena, &p->set, i), naive_next(p, i), "seed %llu",
		     (unsigned long long)seed);
	cr_assert_eq(lend_set_run(p->arena, &p->set, i, max), naive_run(p, i, max), "seed %llu",
		     (unsigned long long)seed);
}

Test(bitset, as_a_bool_per_number)
{
	static const uint32_t lasts[] = {0, 1, 62, 63, 64, 4095, 4096, 20000, 262143, 262144};
	struct lend_rng r;
	struct pair p;

	for (uint64_t seed = 1; seed <= sizeof(lasts) / sizeof(lasts[0]); seed++) {
		lend_rng_seed(&r, seed);
		open_pair(&p, lasts[seed - 1]);
		for (int i = 0; i < 3000; i++)
			step(&p, &r, seed);
		close_pair(&p);
	}
}

/* The frames of the largest store. */
Test(bitset, the_largest_store)
{
	enum { TOP = LEND_STORE_PAGES_MAX };
	struct pair p;

	open_pair(&p, TOP);
	cr_assert_eq(lend_set_next(p.arena, &p.set, 0), LEND_SET_NONE);
	lend_set_add(p.arena, &p.set, TOP);
	cr_assert_eq(lend_set_next(p.arena, &p.set, 0), TOP);
	cr_assert_eq(lend_set_next(p.arena, &p.set, TOP), TOP);
	lend_set_add(p.arena, &p.set, TOP - 1);
	cr_assert_eq(lend_set_run(p.arena, &p.set, TOP - 1, 9), 2);
	lend_set_remove(p.arena, &p.set, TOP);
	cr_assert_eq(lend_set_next(p.arena, &p.set, TOP), LEND_SET_NONE);
	cr_assert_eq(lend_set_next(p.arena, &p.set, 5), TOP - 1);
	close_pair(&p);
}
