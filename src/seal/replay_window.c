#include "seal/replay_window.h"

/* Sets or clears the bits of numbers [first, end), at most LEND_REPLAY of them. */
static void fill_range(struct lend_replay *w, uint64_t first, uint64_t end, bool set)
{
	while (first < end) {
		uint64_t from = first % 64, n = 64 - from < end - first ? 64 - from : end - first;
		uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << from;
		uint64_t *word = &w->map[first % LEND_REPLAY / 64];

		*word = set ? *word | mask : *word & ~mask;
		first += n;
	}
}

/* Returns the first of the numbers below end that the map can hold. */
static uint64_t first_below(uint64_t end, uint64_t first)
{
	return end - first > LEND_REPLAY ? end - LEND_REPLAY : first;
}

/* Marks the numbers that were only counted. */
static void mark_counted(struct lend_replay *w)
{
	fill_range(w, first_below(w->next, w->top + 1), w->next, true);
	w->top = w->next - 1;
}

bool lend_replay_admit_other(struct lend_replay *w, uint64_t number)
{
	uint64_t *word = &w->map[number % LEND_REPLAY / 64], bit = UINT64_C(1) << number % 64;

	mark_counted(w);
	if (number > w->top) {
		fill_range(w, first_below(number, w->top + 1), number, false);
		w->top = number;
		w->next = number + 1;
	} else if (number == 0 || w->top - number >= LEND_REPLAY || *word & bit) {
		return false;
	}
	*word |= bit;
	return true;
}
