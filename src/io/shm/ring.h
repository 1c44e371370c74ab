/* shm/ring - datagrams from one producer to one consumer through memory that both map.
 *
 * Slot i carries datagrams i, i + SLOTS, ... A datagram is published by its slot's mark alone: one
 * release store of {its number + 1, its length}. The consumer finds it with one cache line, and the
 * two sides share no counter on the way. Short datagrams are stored behind the mark in a dense
 * array, so that small calls stay in few pages. Longer ones are stored in a body, and there are
 * fewer bodies than slots: datagram i uses body i % BODIES, and waits until datagram i - BODIES and
 * all before it were taken. The consumer publishes its position only every few slots. The producer
 * reads that position only when its last copy of it leaves no room.
 *
 * A datagram may be apart: the ring holds its head, the bytes of its short segments, and then the
 * locations of up to eight long ones in the producer's shared memory. That memory is lent until the
 * consumer gives the datagram back, which it publishes at once.
 *
 * The other side may write anything anywhere at any time. So every field is read once, checked and
 * used from its copy. Positions are kept in the private ends, and no shared field decides where
 * data is stored. A hostile side can make its own datagrams false, repeated or missing, and nothing
 * else. Layer: io, no system call. Zeroed memory is an empty ring. An end belongs to one thread.
 */
#ifndef LEND_IO_SHM_RING_H
#define LEND_IO_SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/dgram.h"

enum {
	LEND_RING_SLOTS = 256,
	LEND_RING_SHORT = 248, /* longest datagram that is stored behind its mark */
	LEND_RING_MTU = 16640, /* 16 KiB of message and its heads */
	LEND_RING_BODY =
	    16704, /* an odd number of cache lines: neighbours use different cache sets */
	LEND_RING_BODIES = 128, /* few, so that they stay in the CPU cache */
	LEND_RING_LAZY = 32, /* slots that the consumer may take before it publishes its position */
};
/* The lower word of a mark: the length; and of a datagram that is apart, this bit, the number of
 * locations at its end from bit 24 on, and the length of its head from bit 16 on. */
#define LEND_RING_HAS_REF (UINT32_C(1) << 31)
_Static_assert(LEND_RING_LAZY < LEND_RING_BODIES, "a waiting sender is notified");

struct lend_ring_slot {
	alignas(64) _Atomic uint64_t mark; /* number + 1 above, length below */
	unsigned char data[LEND_RING_SHORT];
};
_Static_assert(sizeof(struct lend_ring_slot) == 256, "four lines");

struct lend_ring {
	alignas(64) _Atomic uint32_t taken; /* consumer writes: number of datagrams given back */
	/* Consumer writes: it polls this ring, so the bell is not needed. */
	alignas(64) _Atomic uint32_t polled;
	_Atomic uint32_t reads; /* consumer writes: it has the producer's shared memory mapped */
	/* Producer sets, consumer clears: the producer sleeps until there is room. */
	alignas(64) _Atomic uint32_t wanted;
	struct lend_ring_slot slot[LEND_RING_SLOTS];
	unsigned char body[LEND_RING_BODIES][LEND_RING_BODY];
};

/* Location of a segment: offset from the start of the producer's shared memory; at: where it is in
 * the message. */
struct lend_ring_ref {
	uint64_t offset;
	uint32_t len, at;
};
_Static_assert(UINT8_MAX + LEND_INLINE_MAX + LEND_PLACES * sizeof(struct lend_ring_ref) <=
		   LEND_RING_MTU,
	       "a chain within the limits is one datagram");

/* Returns the lower word of the mark of len bytes that begin with a head and end with n locations.
 */
static inline uint32_t lend_ring_mark_refs(uint32_t len, uint8_t head, uint32_t n)
{
	return LEND_RING_HAS_REF | n << 24 | (uint32_t)head << 16 | len;
}
static inline uint32_t lend_ring_len_of(uint32_t mark)
{
	return mark & LEND_RING_HAS_REF ? mark & UINT16_MAX : mark;
}
static inline uint32_t lend_ring_head_of(uint32_t mark)
{
	return mark >> 16 & UINT8_MAX;
}
static inline uint32_t lend_ring_refs_of(uint32_t mark)
{
	return mark >> 24 & INT8_MAX;
}

/* The producer's private record of the chain that it lent with a datagram, by its first buffer. */
struct lend_ring_lent {
	uint32_t number, buf;
};

struct lend_ring_tx {
	struct lend_ring *ring;
	uint32_t next;  /* number of the next datagram */
	uint32_t taken; /* the consumer's position, as last read */
	uint32_t apart; /* one more than the number of the newest datagram that lent memory */
	struct lend_ring_lent
	    *lent; /* one record per slot; NULL: nothing is lent through this ring */
};

struct lend_ring_rx {
	struct lend_ring *ring;
	uint32_t next;      /* number of the next datagram to lend */
	uint32_t published; /* number up to which datagrams were given back to the producer */
	bool must_publish;  /* memory of the producer is lent to us: give it back at once */
};

enum lend_ring_verdict { LEND_RING_EMPTY, LEND_RING_DATA, LEND_RING_REF, LEND_RING_BAD };

/* Returns true when there is room for another datagram of len bytes. An impossible position
 * counts as a full ring. */
static inline bool lend_ring_room(struct lend_ring_tx *tx, uint32_t len)
{
	uint32_t most = len <= LEND_RING_SHORT ? LEND_RING_SLOTS : LEND_RING_BODIES;

	if (tx->next - tx->taken < most)
		return true;
	tx->taken = atomic_load_explicit(&tx->ring->taken, memory_order_acquire);
	return tx->next - tx->taken < most;
}

/* Returns the number of short datagrams that there is room for, by the last copy of the
 * consumer's position. */
static inline uint32_t lend_ring_free_slots(const struct lend_ring_tx *tx)
{
	uint32_t used = tx->next - tx->taken;

	return used < LEND_RING_SLOTS ? LEND_RING_SLOTS - used : 0;
}

/* Returns the memory for the next datagram, of len bytes up to MTU. There must be room. */
static inline void *lend_ring_reserve(struct lend_ring_tx *tx, uint32_t len)
{
	return len <= LEND_RING_SHORT ? tx->ring->slot[tx->next % LEND_RING_SLOTS].data
				      : tx->ring->body[tx->next % LEND_RING_BODIES];
}

/* Publishes datagram `number`, which is in its slot. */
static inline void lend_ring_publish(struct lend_ring_slot *slot, uint32_t number, uint32_t len)
{
	atomic_store_explicit(&slot->mark, (uint64_t)(number + 1) << 32 | len,
			      memory_order_release);
}

/* Publishes the reserved datagram. */
static inline void lend_ring_commit(struct lend_ring_tx *tx, uint32_t len)
{
	lend_ring_publish(&tx->ring->slot[tx->next % LEND_RING_SLOTS], tx->next, len);
	tx->next++;
}

/* Publishes the reserved datagram with this mark. Its locations refer to memory of the chain that
 * begins with buf. */
static inline void lend_ring_commit_refs(struct lend_ring_tx *tx, uint32_t mark, uint32_t buf)
{
	tx->lent[tx->next % LEND_RING_SLOTS] = (struct lend_ring_lent){tx->next, buf};
	tx->apart = tx->next + 1;
	lend_ring_commit(tx, mark);
}

/* Returns true when the consumer reads nothing of the chain that begins with buf any more. */
static inline bool lend_ring_is_unread(struct lend_ring_tx *tx, uint32_t buf)
{
	if (tx->lent == NULL || (int32_t)(tx->apart - tx->taken) <= 0)
		return true;
	tx->taken = atomic_load_explicit(&tx->ring->taken, memory_order_acquire);
	if (tx->next - tx->taken > LEND_RING_SLOTS)
		return false; /* the peer wrote an invalid position, and may still be reading */
	for (uint32_t i = tx->taken; i != tx->next; i++) {
		const struct lend_ring_lent *lent = &tx->lent[i % LEND_RING_SLOTS];

		if (lent->number == i && lent->buf == buf)
			return false;
	}
	return true;
}

/* Prefetches the other cache lines of a short datagram all at once: each comes from the
 * producer's cache. */
static inline void lend_ring_prefetch(const struct lend_ring_slot *slot, uint32_t len)
{
	for (uint32_t at = 64 - sizeof(slot->mark); at < len; at += 64)
		__builtin_prefetch(slot->data + at);
}

/* Returns whether the lower word of a mark agrees with itself. */
static inline bool lend_ring_mark_sane(uint32_t mark)
{
	uint32_t n = lend_ring_refs_of(mark);

	if (!(mark & LEND_RING_HAS_REF))
		return mark <= LEND_RING_MTU;
	return lend_ring_len_of(mark) <= LEND_RING_MTU && n > 0 && n <= LEND_PLACES &&
	       lend_ring_head_of(mark) + n * sizeof(struct lend_ring_ref) <= lend_ring_len_of(mark);
}

/* Takes the next datagram, if there is one; it is lent until lend_ring_done(). REF: *len is the
 * lower word of its mark, and it ends with locations. BAD: its mark contradicts itself; it is
 * skipped. */
static inline enum lend_ring_verdict lend_ring_next(struct lend_ring_rx *rx, const void **data,
						    uint32_t *len)
{
	struct lend_ring_slot *slot = &rx->ring->slot[rx->next % LEND_RING_SLOTS];
	uint64_t mark = atomic_load_explicit(&slot->mark, memory_order_acquire);
	uint32_t n = lend_ring_len_of((uint32_t)mark);
	bool apart = mark & LEND_RING_HAS_REF;

	if ((uint32_t)(mark >> 32) != rx->next + 1)
		return LEND_RING_EMPTY;
	if (!lend_ring_mark_sane((uint32_t)mark)) {
		rx->next++;
		return LEND_RING_BAD;
	}
	*data = n <= LEND_RING_SHORT ? slot->data : rx->ring->body[rx->next % LEND_RING_BODIES];
	if (n <= LEND_RING_SHORT)
		lend_ring_prefetch(slot, n);
	*len = (uint32_t)mark;
	rx->next++;
	rx->must_publish |= apart;
	return apart ? LEND_RING_REF : LEND_RING_DATA;
}

/* Returns true when a datagram is ready. */
static inline bool lend_ring_ready(const struct lend_ring_rx *rx)
{
	uint32_t next = rx->next;
	uint64_t mark = atomic_load_explicit(&rx->ring->slot[next % LEND_RING_SLOTS].mark,
					     memory_order_acquire);

	return (uint32_t)(mark >> 32) == next + 1;
}

/* Returns true when the consumer has to publish its position now. */
static inline bool lend_ring_must_publish(const struct lend_ring_rx *rx)
{
	return rx->next - rx->published >= LEND_RING_LAZY || rx->must_publish;
}

/* Publishes the consumer's position: all that was lent is given back. True: the producer slept
 * until there was room, and must be woken. */
static inline bool lend_ring_publish_taken(struct lend_ring_rx *rx)
{
	rx->must_publish = false;
	rx->published = rx->next;
	atomic_store_explicit(&rx->ring->taken, rx->published, memory_order_release);
	/* The consumer publishes first and checks `wanted` second. The producer sets `wanted`
	 * first and checks for room second. So at least one of the two sees the other's store. */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&rx->ring->wanted, memory_order_relaxed) != 0 &&
	       atomic_exchange_explicit(&rx->ring->wanted, 0, memory_order_relaxed) != 0;
}

/* Gives back all that was lent. Publishes the position when that is due, and returns as
 * lend_ring_publish_taken(). */
static inline bool lend_ring_done(struct lend_ring_rx *rx)
{
	return lend_ring_must_publish(rx) && lend_ring_publish_taken(rx);
}

/* Call before the sleep of a producer that found the ring full. False: there is room for len
 * bytes after all. */
static inline bool lend_ring_await_room(struct lend_ring_tx *tx, uint32_t len)
{
	atomic_store_explicit(&tx->ring->wanted, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !lend_ring_room(tx, len);
}

#endif
