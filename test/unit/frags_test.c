/* Goal: lend_frags agrees with an array of flags on every history, and survives hostile input.
 * Method: two sequences written by hand, the edges of the window, then seeded random histories
 * against that array. Covers: src/core/frags.c */
#include <criterion/criterion.h>

#include "core/frags.h"

Test(frags, out_of_order_with_duplicates)
{
	static const struct {
		uint32_t index;
		enum lend_frag want;
		uint32_t gap_first, gap_len;
	} step[] = {
	    {2, LEND_FRAG_NEW, 0, 2},   /* a gap at the front */
	    {0, LEND_FRAG_NEW, 1, 1},   /* the gap shrinks from below */
	    {0, LEND_FRAG_DUP, 1, 1},   /* a duplicate changes nothing */
	    {4, LEND_FRAG_BOGUS, 1, 1}, /* one past the end */
	    {UINT32_MAX, LEND_FRAG_BOGUS, 1, 1},
	    {1, LEND_FRAG_NEW, 3, 1}, /* low skips what arrived early */
	    {3, LEND_FRAG_NEW, 0, 0}, /* complete: gap() leaves first unchanged */
	    {3, LEND_FRAG_DUP, 0, 0}, /* late copy in a complete message */
	};
	struct lend_frags f;

	lend_frags_begin(&f, 4);
	for (size_t i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
		uint32_t first = 0;

		cr_assert_eq(lend_frags_mark(&f, step[i].index), step[i].want, "step %zu", i);
		cr_assert_eq(lend_frags_gap(&f, &first), step[i].gap_len, "step %zu", i);
		cr_assert_eq(first, step[i].gap_first, "step %zu", i);
	}
	cr_assert(lend_frags_complete(&f));
}

Test(frags, idle_rejects_everything)
{
	struct lend_frags f = {0};

	cr_assert_eq(lend_frags_mark(&f, 0), LEND_FRAG_BOGUS);
}

Test(frags, window_slides_from_the_lowest_missing)
{
	struct lend_frags f;
	uint32_t first;

	lend_frags_begin(&f, UINT32_MAX);
	cr_assert_eq(lend_frags_mark(&f, LEND_FRAGS_WINDOW - 1), LEND_FRAG_NEW); /* last inside */
	cr_assert_eq(lend_frags_mark(&f, LEND_FRAGS_WINDOW), LEND_FRAG_BOGUS);   /* first outside */
	cr_assert_eq(lend_frags_gap(&f, &first), LEND_FRAGS_WINDOW - 1);
	cr_assert_eq(lend_frags_mark(&f, 0), LEND_FRAG_NEW);
	cr_assert_eq(lend_frags_mark(&f, LEND_FRAGS_WINDOW), LEND_FRAG_NEW); /* now inside */
}

static uint32_t next_random(uint64_t *s)
{
	*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*s >> 33);
}

static void agrees_with_flags(uint64_t seed)
{
	static struct lend_frags f; /* static: still holds the previous message's bits */
	static bool model[4 * LEND_FRAGS_WINDOW];
	uint64_t s = seed;
	uint32_t total = 1 + next_random(&s) % (seed % 3 ? 130 : 4 * LEND_FRAGS_WINDOW);
	uint32_t left = total, low = 0;

	for (uint32_t i = 0; i < total; i++)
		model[i] = false;
	lend_frags_begin(&f, total);
	while (left > 0) {
		uint32_t i = low + next_random(&s) % (LEND_FRAGS_WINDOW + 2) - next_random(&s) % 3;
		bool outside = i >= total || (i >= low && i - low >= LEND_FRAGS_WINDOW);
		enum lend_frag want = outside    ? LEND_FRAG_BOGUS
				      : model[i] ? LEND_FRAG_DUP
						 : LEND_FRAG_NEW;
		uint32_t len = 0, first = 0;

		cr_assert_eq(lend_frags_mark(&f, i), want, "seed %llu", (unsigned long long)seed);
		if (want == LEND_FRAG_NEW) {
			model[i] = true;
			left--;
		}
		while (low < total && model[low])
			low++;
		while (low + len < total && len < LEND_FRAGS_WINDOW && !model[low + len])
			len++;
		cr_assert_eq(lend_frags_gap(&f, &first), len, "seed %llu",
			     (unsigned long long)seed);
		cr_assert_eq(first, len ? low : 0, "seed %llu", (unsigned long long)seed);
		cr_assert_eq(f.missing, left, "seed %llu", (unsigned long long)seed);
	}
	cr_assert(lend_frags_complete(&f), "seed %llu", (unsigned long long)seed);
}

Test(frags, agrees_with_an_array_of_flags)
{
	for (uint64_t seed = 1; seed <= 100; seed++)
		agrees_with_flags(seed);
}
