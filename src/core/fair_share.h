/* fair_share - chooses among eight queues by urgency, 0 first, without starvation: a waiting queue
 * is due one part in LEND_FLOOR of what more urgent queues sent while it waited. Parts are counted
 * in units: LEND_FAIR_UNITS are a full datagram, or a message.
 *
 * Eight counters of 16 bits form one vector. Bitmaps hold which queues wait and which are due, so a
 * choice and its accounting cost the same for any number of waiting queues.
 *
 * Layer: core (pure). Lives by value in its owner; all zero: no queue waits. */
#ifndef LEND_CORE_FAIR_SHARE_H
#define LEND_CORE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "util/bits.h"

enum {
	LEND_FLOOR = 32,
	LEND_SCHED_BURST = 8, /* datagrams of one turn, at most */
	LEND_FAIR_UNITS = 16, /* of a full datagram */
	/* The units before a queue after which it is due a whole burst. */
	LEND_FAIR_SHARE_DUE = LEND_FLOOR * LEND_SCHED_BURST * LEND_FAIR_UNITS,
	LEND_FAIR_SHARE_FULL = 1 << 14, /* limit of a counter, plus one turn */
};

struct lend_fair_share {
	int16_t passed[8]; /* units that passed it while it waited, less FLOOR for each of its own
			    */
	uint8_t waiting;   /* bit i: queue i waits */
	uint8_t due;       /* bit i: passed[i] >= LEND_FAIR_SHARE_DUE */
	uint8_t zero[6];
};
_Static_assert(sizeof(struct lend_fair_share) == 24, "no padding");

static inline void lend_fair_share_enter(struct lend_fair_share *s, uint32_t i)
{
	s->waiting = (uint8_t)(s->waiting | 1u << i);
}

static inline void lend_fair_share_leave(struct lend_fair_share *s, uint32_t i)
{
	s->waiting = (uint8_t)(s->waiting & ~(1u << i));
}

/* Returns the most urgent waiting queue, or the least urgent one that is due. At least one queue
 * waits. */
static inline uint32_t lend_fair_share_pick(const struct lend_fair_share *s)
{
	uint32_t due = s->waiting & s->due;

	return due ? 31u - (uint32_t)__builtin_clz(due) : (uint32_t)__builtin_ctz(s->waiting);
}

/* Returns whether a datagram of urgency i that is not in a queue may be sent before all waiting
 * queues. */
static inline bool lend_fair_share_may_bypass(const struct lend_fair_share *s, uint32_t i)
{
	return (s->waiting & ((2u << i) - 1)) == 0 && (s->waiting & s->due) == 0;
}

/* Returns whether what queue i sends must be counted. */
static inline bool lend_fair_share_counts(const struct lend_fair_share *s, uint32_t i)
{
	return s->waiting >> i > 1 || s->passed[i] != 0;
}

/* Notes that queue i sent n units, at most a turn's. */
static inline void lend_fair_share_sent(struct lend_fair_share *s, uint32_t i, uint32_t n)
{
	typedef int16_t eight __attribute__((vector_size(16)));
	const eight bit = {1, 2, 4, 8, 16, 32, 64, 128};
	uint32_t below = s->waiting & ~((2u << i) - 1);
	eight passed, less;
	uint64_t due[2];

	if (!lend_fair_share_counts(s, i))
		return;
	/* Computes on the whole vector: a vector load right after a store to one counter would
	 * stall. */
	memcpy(&passed, s->passed, sizeof(passed));
	less = (eight)(bit == (int16_t)(1 << i)) &
	       (int16_t)(lend_min_u32(n, INT16_MAX / LEND_FLOOR) * LEND_FLOOR);
	passed -= less;
	passed &= (eight)(passed > 0);
	passed += (eight)((bit & (int16_t)below) == bit) & (eight)(passed < LEND_FAIR_SHARE_FULL) &
		  (int16_t)n;
	memcpy(s->passed, &passed, sizeof(passed));
	/* Each bit is in a lane of its own: combine the lanes. */
	passed = (eight)(passed >= LEND_FAIR_SHARE_DUE) & bit;
	memcpy(due, &passed, sizeof(due));
	due[0] |= due[1];
	due[0] |= due[0] >> 32;
	s->due = (uint8_t)(due[0] | due[0] >> 16);
}

#endif
