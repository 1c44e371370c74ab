/* fair_share - whose turn it is, of eight that go by urgency: 0 first, but who waits is due one
 * datagram for every LEND_FLOOR that went out before it, so that nobody starves.
 *
 * Eight counters of 16 bits are one vector, and what is due and who waits are two maps of bits: a
 * choice and its account cost the same however many wait.
 *
 * Layer: core (pure). Lives by value in its owner; all zero: nobody waits. */
#ifndef LEND_CORE_FAIR_SHARE_H
#define LEND_CORE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "util/bits.h"

enum {
	LEND_FLOOR = 32,
	LEND_SCHED_BURST = 8, /* datagrams of one turn, at most */
	/* As many in front of it as its share allows. */
	LEND_SHARE_DUE = LEND_FLOOR * LEND_SCHED_BURST,
	LEND_SHARE_FULL = 1 << 14, /* no counter grows beyond this and one turn */
};

struct lend_share {
	int16_t passed[8]; /* datagrams before it while it waited, less FLOOR for each of its own */
	uint8_t waiting;   /* bit i: i waits */
	uint8_t due;       /* bit i: passed[i] >= LEND_SHARE_DUE */
	uint8_t zero[6];
};
_Static_assert(sizeof(struct lend_share) == 24, "no padding");

static inline void lend_share_enter(struct lend_share *s, uint32_t i)
{
	s->waiting = (uint8_t)(s->waiting | 1u << i);
}

static inline void lend_share_leave(struct lend_share *s, uint32_t i)
{
	s->waiting = (uint8_t)(s->waiting & ~(1u << i));
}

/* The most urgent of those that wait, unless one below it is due; somebody waits. */
static inline uint32_t lend_share_pick(const struct lend_share *s)
{
	uint32_t due = s->waiting & s->due;

	return due ? 31u - (uint32_t)__builtin_clz(due) : (uint32_t)__builtin_ctz(s->waiting);
}

/* May somebody of this urgency who does not wait go before all that do? */
static inline bool lend_share_passes(const struct lend_share *s, uint32_t i)
{
	return (s->waiting & ((2u << i) - 1)) == 0 && (s->waiting & s->due) == 0;
}

/* n datagrams, a turn's at most, went out of i. */
static inline void lend_share_sent(struct lend_share *s, uint32_t i, uint32_t n)
{
	typedef int16_t eight __attribute__((vector_size(16)));
	const eight bit = {1, 2, 4, 8, 16, 32, 64, 128};
	uint32_t below = s->waiting & ~((2u << i) - 1);
	eight passed, less;
	uint64_t due[2];

	if (below == 0 && s->passed[i] == 0)
		return;
	/* All in one vector: it could not be read right after one of its counters was written. */
	memcpy(&passed, s->passed, sizeof(passed));
	less = (eight)(bit == (int16_t)(1 << i)) & (int16_t)(n * LEND_FLOOR);
	passed -= less;
	passed &= (eight)(passed > 0);
	passed +=
	    (eight)((bit & (int16_t)below) == bit) & (eight)(passed < LEND_SHARE_FULL) & (int16_t)n;
	memcpy(s->passed, &passed, sizeof(passed));
	/* Each bit stands in a lane of its own: fold the lanes. */
	passed = (eight)(passed >= LEND_SHARE_DUE) & bit;
	memcpy(due, &passed, sizeof(due));
	due[0] |= due[1];
	due[0] |= due[0] >> 32;
	s->due = (uint8_t)(due[0] | due[0] >> 16);
}

#endif
