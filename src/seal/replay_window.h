/* replay_window - which numbers of one direction of a session have been used: each is admitted
 * once.
 *
 * Numbers that arrive in order are only counted. A gap marks them in a map of the newest
 * LEND_REPLAY numbers (RFC 6479, with ranges cleared by bit); older numbers are refused.
 * Layer: seal (pure). Lives by value in its owner. */
#ifndef LEND_SEAL_REPLAY_WINDOW_H
#define LEND_SEAL_REPLAY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { LEND_REPLAY = 1024, LEND_REPLAY_WORDS = LEND_REPLAY / 64 };

struct lend_replay {
	uint64_t next; /* the next number if none is missing */
	uint64_t top; /* numbers above it and below next were admitted; the map covers the others */
	uint64_t map[LEND_REPLAY_WORDS]; /* by number modulo LEND_REPLAY: admitted */
};

static inline void lend_replay_open(struct lend_replay *w)
{
	*w = (struct lend_replay){.next = 1};
}

/* Admits a number out of order. */
bool lend_replay_admit_other(struct lend_replay *w, uint64_t number);

/* Admits a number, once. False: it was used before, or is below the window. */
static inline bool lend_replay_admit(struct lend_replay *w, uint64_t number)
{
	if (number != w->next)
		return lend_replay_admit_other(w, number);
	w->next++;
	return true;
}

#endif
