/* shm/ring - datagrams from one producer to one consumer through memory that both map.
 *
 * Slot i carries datagrams i, i + SLOTS, ... A datagram is published by its slot's mark alone, one
 * release store of {its number + 1, its length}: the consumer finds it with one cache line, and no
 * counter is shared on the way. Short datagrams lie behind the mark in a dense array, so that small
 * calls stay in few pages; longer ones in a body, of which there are fewer than slots: datagram i
 * has body i % BODIES, and waits until all that are BODIES before it were taken. The consumer tells
 * how far it is only every few slots; the producer looks only when its last view of that leaves no
 * room.
 *
 * A datagram may be apart: its head lies in the slot, and behind it a word of where in the
 * producer's shared memory the rest is. That memory is lent until the consumer gave the datagram
 * back, which it tells at once.
 *
 * The other side may write anything anywhere at any time. So every word is read once, checked and
 * used from its copy; positions are kept in the private ends; nothing in the shared part says where
 * anything lies. A hostile side can make its own datagrams false, repeated or missing, and nothing
 * else. Layer: io, no system call. Zeroed memory is an empty ring. An end belongs to one thread.
 */
#ifndef LEND_IO_SHM_RING_H
#define LEND_IO_SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LEND_RING_SLOTS = 256,
	LEND_RING_SHORT = 248,  /* longest datagram that lies behind its mark */
	LEND_RING_MTU = 16640,  /* 16 KiB of message and its heads */
	LEND_RING_BODY = 16704, /* an odd number of lines: neighbours lie in different cache sets */
	LEND_RING_BODIES = 128, /* few, so that they stay in a cache */
	LEND_RING_LAZY = 32,    /* slots that the consumer may owe */
};
enum { LEND_RING_APART_MIN = 4096 };        /* a shorter piece is copied as quickly */
#define LEND_RING_APART (UINT32_C(1) << 31) /* in a mark's length: the slot ends with a place */
_Static_assert(LEND_RING_LAZY < LEND_RING_BODIES, "who waits for room is told of it");

struct lend_ring_slot {
	alignas(64) _Atomic uint64_t mark; /* number + 1 above, length below */
	unsigned char data[LEND_RING_SHORT];
};
_Static_assert(sizeof(struct lend_ring_slot) == 256, "four lines");

struct lend_ring {
	alignas(64) _Atomic uint32_t taken; /* consumer writes: datagrams given back */
	/* Consumer writes: it looks here by itself, no bell needed; */
	alignas(64) _Atomic uint32_t polled;
	_Atomic uint32_t reads; /* it has the producer's shared memory mapped. */
	/* Producer sets, consumer clears: asleep until there is room. */
	alignas(64) _Atomic uint32_t wanted;
	struct lend_ring_slot slot[LEND_RING_SLOTS];
	unsigned char body[LEND_RING_BODIES][LEND_RING_BODY];
};

/* Where the rest of a datagram lies, from the start of the producer's shared memory. */
struct lend_ring_place {
	uint64_t offset;
	uint32_t len, zero;
};

/* The producer's own note of what it lent with which datagram. */
struct lend_ring_lent {
	uint32_t number, buf;
};

struct lend_ring_tx {
	struct lend_ring *ring;
	uint32_t next;  /* number of the next datagram */
	uint32_t taken; /* as last seen */
	uint32_t apart; /* one more than the number of the newest datagram that lent something */
	struct lend_ring_lent *lent; /* by slot; NULL: nothing is lent through this ring */
};

struct lend_ring_rx {
	struct lend_ring *ring;
	uint32_t next; /* number of the next datagram to lend */
	uint32_t told; /* those below were given back to the producer */
	bool owes;     /* memory of the producer's: it is told at once */
};

enum lend_ring_look { LEND_RING_EMPTY, LEND_RING_DATA, LEND_RING_PLACE, LEND_RING_BAD };

/* Room for another datagram of len bytes. A position that cannot be is a full ring. */
static inline bool lend_ring_room(struct lend_ring_tx *tx, uint32_t len)
{
	uint32_t most = len <= LEND_RING_SHORT ? LEND_RING_SLOTS : LEND_RING_BODIES;

	if (tx->next - tx->taken < most)
		return true;
	tx->taken = atomic_load_explicit(&tx->ring->taken, memory_order_acquire);
	return tx->next - tx->taken < most;
}

/* How many more short ones there is room for, as last seen. */
static inline uint32_t lend_ring_left(const struct lend_ring_tx *tx)
{
	uint32_t used = tx->next - tx->taken;

	return used < LEND_RING_SLOTS ? LEND_RING_SLOTS - used : 0;
}

/* Where to write the next datagram, of len bytes up to MTU; there must be room. */
static inline void *lend_ring_reserve(struct lend_ring_tx *tx, uint32_t len)
{
	return len <= LEND_RING_SHORT ? tx->ring->slot[tx->next % LEND_RING_SLOTS].data
				      : tx->ring->body[tx->next % LEND_RING_BODIES];
}

/* Publishes datagram `number`, which lies in its slot. */
static inline void lend_ring_mark(struct lend_ring_slot *slot, uint32_t number, uint32_t len)
{
	atomic_store_explicit(&slot->mark, (uint64_t)(number + 1) << 32 | len,
			      memory_order_release);
}

/* Publishes what was reserved. */
static inline void lend_ring_commit(struct lend_ring_tx *tx, uint32_t len)
{
	lend_ring_mark(&tx->ring->slot[tx->next % LEND_RING_SLOTS], tx->next, len);
	tx->next++;
}

/* Publishes a head of len bytes that a place follows, in all SHORT at most; what it names is buf's
 * memory. */
static inline void lend_ring_commit_apart(struct lend_ring_tx *tx, uint32_t len, uint32_t buf)
{
	tx->lent[tx->next % LEND_RING_SLOTS] = (struct lend_ring_lent){tx->next, buf};
	tx->apart = tx->next + 1;
	lend_ring_commit(tx, (len + (uint32_t)sizeof(struct lend_ring_place)) | LEND_RING_APART);
}

/* Nothing of buf's memory is read by the consumer any more. */
static inline bool lend_ring_is_quiet(struct lend_ring_tx *tx, uint32_t buf)
{
	if (tx->lent == NULL || (int32_t)(tx->apart - tx->taken) <= 0)
		return true;
	tx->taken = atomic_load_explicit(&tx->ring->taken, memory_order_acquire);
	if (tx->next - tx->taken > LEND_RING_SLOTS)
		return false; /* nonsense: so it may be reading */
	for (uint32_t i = tx->taken; i != tx->next; i++) {
		const struct lend_ring_lent *lent = &tx->lent[i % LEND_RING_SLOTS];

		if (lent->number == i && lent->buf == buf)
			return false;
	}
	return true;
}

/* The other lines of a short one, all at once: each comes from the producer's cache. */
static inline void lend_ring_prefetch(const struct lend_ring_slot *slot, uint32_t len)
{
	for (uint32_t at = 64 - sizeof(slot->mark); at < len; at += 64)
		__builtin_prefetch(slot->data + at);
}

/* The next datagram, if there is one: lent until lend_ring_done(). PLACE: its last bytes are a
 * struct lend_ring_place. BAD: one that contradicts itself, passed over. */
static inline enum lend_ring_look lend_ring_next(struct lend_ring_rx *rx, const void **data,
						 uint32_t *len)
{
	struct lend_ring_slot *slot = &rx->ring->slot[rx->next % LEND_RING_SLOTS];
	uint64_t mark = atomic_load_explicit(&slot->mark, memory_order_acquire);
	uint32_t n = (uint32_t)mark & ~LEND_RING_APART;
	bool apart = mark & LEND_RING_APART;

	if ((uint32_t)(mark >> 32) != rx->next + 1)
		return LEND_RING_EMPTY;
	if (n > (apart ? (uint32_t)LEND_RING_SHORT : (uint32_t)LEND_RING_MTU) ||
	    (apart && n < sizeof(struct lend_ring_place))) {
		rx->next++;
		return LEND_RING_BAD;
	}
	*data = n <= LEND_RING_SHORT ? slot->data : rx->ring->body[rx->next % LEND_RING_BODIES];
	if (n <= LEND_RING_SHORT)
		lend_ring_prefetch(slot, n);
	*len = n;
	rx->next++;
	rx->owes |= apart;
	return apart ? LEND_RING_PLACE : LEND_RING_DATA;
}

/* A datagram waits. */
static inline bool lend_ring_ready(const struct lend_ring_rx *rx)
{
	uint32_t next = rx->next;
	uint64_t mark = atomic_load_explicit(&rx->ring->slot[next % LEND_RING_SLOTS].mark,
					     memory_order_acquire);

	return (uint32_t)(mark >> 32) == next + 1;
}

/* The producer is to be told what was given back, all that was lent. */
static inline bool lend_ring_owes(const struct lend_ring_rx *rx)
{
	return rx->next - rx->told >= LEND_RING_LAZY || rx->owes;
}

/* Tells it. True: it sleeps until there is room, and there is: wake it. */
static inline bool lend_ring_tell(struct lend_ring_rx *rx)
{
	rx->owes = false;
	rx->told = rx->next;
	atomic_store_explicit(&rx->ring->taken, rx->told, memory_order_release);
	/* Told first, looked second; the producer asks first and looks second: one of us sees the
	 * other. */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&rx->ring->wanted, memory_order_relaxed) != 0 &&
	       atomic_exchange_explicit(&rx->ring->wanted, 0, memory_order_relaxed) != 0;
}

/* Takes back all that was lent. As lend_ring_tell(), where that is due. */
static inline bool lend_ring_done(struct lend_ring_rx *rx)
{
	return lend_ring_owes(rx) && lend_ring_tell(rx);
}

/* Before a sleep of a producer that found the ring full: false when there is room for len bytes
 * after all. */
static inline bool lend_ring_want(struct lend_ring_tx *tx, uint32_t len)
{
	atomic_store_explicit(&tx->ring->wanted, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !lend_ring_room(tx, len);
}

#endif
