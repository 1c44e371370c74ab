/* Goal: each number is admitted once, and only if the window can tell. Method: a table of edges;
 * orders drawn under seeds, against a model that keeps all numbers. Covers:
 * src/seal/replay_window.c, src/seal/replay_window.h */
#include <criterion/criterion.h>
#include <string.h>

#include "seal/replay_window.h"
#include "util/rng.h"

enum { NUMBERS = 16384, SEEDS = 200 };

Test(replay_window, admit__at_the_edges)
{
	static const struct {
		uint64_t first[4], number;
		bool want;
	} row[] = {
	    {{0}, 0, false},
	    {{0}, 1, true},
	    {{1}, 1, false},
	    {{1}, 2, true},
	    {{2}, 1, true},
	    {{2, 1}, 1, false},
	    {{1025}, 1, false},
	    {{1024}, 1, true},
	    {{1024, 1}, 1, false},
	    {{1, 2, 3, 1027}, 3, false},
	    {{5000}, 5000 - 1023, true},
	    {{5000}, 5000 - 1024, false},
	    {{5000, 4000}, 4000, false},
	    {{5000, 6024}, 5000, false},
	    {{5000, 6023}, 5000, false}, /* seen, and just inside */
	    {{5000, 6023}, 5001, true},
	    {{UINT64_C(1) << 47}, 1, false},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_replay w;

		lend_replay_open(&w);
		for (int k = 0; k < 4 && row[i].first[k]; k++)
			cr_assert(lend_replay_admit(&w, row[i].first[k]), "row %zu", i);
		cr_expect_eq(lend_replay_admit(&w, row[i].number), row[i].want, "row %zu", i);
	}
}

/* Draws the next number: mostly in order, sometimes near, far ahead, or any earlier one. */
static uint64_t draw_number(struct lend_rng *r, uint64_t top)
{
	switch (lend_rng_below(r, 8)) {
	case 0:
		return top + 1 + lend_rng_below(r, 3000);
	case 1:
		return top - lend_rng_below(r, top < 1100 ? top + 1 : 1100);
	case 2:
		return lend_rng_below(r, top + 2);
	case 3:
		return top + lend_rng_below(r, 70);
	default:
		return top + 1;
	}
}

Test(replay_window, admit__any_order__as_the_model)
{
	static bool used[NUMBERS];

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct lend_replay w;
		struct lend_rng r;
		uint64_t top = 0, number;

		lend_rng_seed(&r, seed);
		memset(used, 0, sizeof(used));
		lend_replay_open(&w);
		while ((number = draw_number(&r, top)) < NUMBERS) {
			bool want =
			    number && !used[number] && (number > top || top - number < LEND_REPLAY);

			cr_assert_eq(lend_replay_admit(&w, number), want, "seed %lu: %lu below %lu",
				     seed, number, top);
			used[number] |= want;
			top = want && number > top ? number : top;
		}
	}
}
