/* spsc - the indices of a ring between one producer and one consumer, in one process or two.
 *
 * The ring is what both share: two counters that only grow and wrap, each written by one side, each
 * on a cache line of its own. Slot i of an array of cap (a power of two) belongs to counter i &
 * (cap - 1). An end is what one side keeps to itself: its own counter and the other's as last seen,
 * so the other's cache line is fetched only when the ring looks full (producer) or empty
 * (consumer).
 *
 *   producer  if (lend_spsc_room(ring, &end) > 0) { fill slot[end.mine & mask];
 * lend_spsc_push(ring, &end, 1); } consumer  if (lend_spsc_ready(ring, &end) > 0) { read
 * slot[end.mine & mask]; lend_spsc_pop(ring, &end, 1); }
 *
 * A push is a release store after the slot was written, a ready() an acquire load before it is
 * read; pop and room mirror that. Both look at nothing but the counter, so a peer process that
 * writes nonsense there is told apart (LEND_SPSC_BROKEN) and can do no harm beyond its own ring.
 * Layer: util. Ring: shared by its two sides; zeroed memory is an empty ring. End: one thread's. */
#ifndef LEND_UTIL_SPSC_H
#define LEND_UTIL_SPSC_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "util/check.h"

enum { LEND_CACHE_LINE = 64 };

struct lend_spsc {
	alignas(LEND_CACHE_LINE) _Atomic uint32_t
	    pushed; /* slots ever published; the producer writes */
	alignas(LEND_CACHE_LINE) _Atomic uint32_t
	    popped; /* slots ever given back; the consumer writes */
};
_Static_assert(sizeof(struct lend_spsc) == 2 * LEND_CACHE_LINE, "one line per writer");

struct lend_spsc_end {
	uint32_t mine;  /* this side's counter; the shared one is only ever written from it */
	uint32_t other; /* the other side's, as last seen */
	uint32_t cap;   /* a power of two up to 2^30 */
};

#define LEND_SPSC_BROKEN UINT32_MAX /* the other side's counter cannot be: end the connection */

/* For a fresh ring, on each side. */
static inline void lend_spsc_end_init(struct lend_spsc_end *end, uint32_t cap)
{
	LEND_CHECK(cap && cap <= 1u << 30 && !(cap & (cap - 1)));
	end->mine = 0;
	end->other = 0;
	end->cap = cap;
}

/* Slots that the producer may fill now, from end->mine on; 0: full. */
static inline uint32_t lend_spsc_room(const struct lend_spsc *ring, struct lend_spsc_end *end)
{
	uint32_t used = end->mine - end->other;

	if (used < end->cap)
		return end->cap - used;
	end->other = atomic_load_explicit(&ring->popped, memory_order_acquire);
	used = end->mine - end->other;
	return used <= end->cap ? end->cap - used : LEND_SPSC_BROKEN;
}

/* Publishes the next n slots, filled before; n is at most what room() told. */
static inline void lend_spsc_push(struct lend_spsc *ring, struct lend_spsc_end *end, uint32_t n)
{
	end->mine += n;
	atomic_store_explicit(&ring->pushed, end->mine, memory_order_release);
}

/* Slots that the consumer may read now, from end->mine on; 0: empty. */
static inline uint32_t lend_spsc_ready(const struct lend_spsc *ring, struct lend_spsc_end *end)
{
	uint32_t filled = end->other - end->mine;

	if (filled)
		return filled;
	end->other = atomic_load_explicit(&ring->pushed, memory_order_acquire);
	filled = end->other - end->mine;
	return filled <= end->cap ? filled : LEND_SPSC_BROKEN;
}

/* Gives the next n slots back, read before; n is at most what ready() told. */
static inline void lend_spsc_pop(struct lend_spsc *ring, struct lend_spsc_end *end, uint32_t n)
{
	end->mine += n;
	atomic_store_explicit(&ring->popped, end->mine, memory_order_release);
}

#endif
