#include "io/shm/ring_read.h"

#include <string.h>

#include "sys/shared_arena.h"
#include "util/bits.h"

/* Finds the rest of a datagram in its sender's memory. BAD: it is not within the memory that we
 * mapped. */
static enum lend_ring_verdict find_body(const struct lend_shm_peer *p, struct lend_in *in)
{
	struct lend_ring_ref place;

	in->len -= (uint32_t)sizeof(place);
	memcpy(&place, (const char *)in->data + in->len, sizeof(place));
	LEND_ONCE(place);
	if (p->memory == NULL || place.offset > LEND_ARENA_LEN ||
	    place.len > LEND_ARENA_LEN - place.offset)
		return LEND_RING_BAD;
	in->body = p->memory + place.offset;
	in->body_len = place.len;
	return LEND_RING_DATA;
}

/* Lends short datagrams, which are stored behind their marks, as most are. *more: the next one
 * is longer. */
static inline uint32_t take_short(struct lend_ring_rx *rx, uint32_t peer, bool reads,
				  struct lend_in *in, uint32_t cap, bool *more)
{
	struct lend_ring *ring = rx->ring;
	uint32_t first = rx->next, n = 0;

	*more = false;
	for (; n < cap; n++) {
		struct lend_ring_slot *slot = &ring->slot[(first + n) % LEND_RING_SLOTS];
		uint64_t mark = atomic_load_explicit(&slot->mark, memory_order_acquire);

		if (mark >> 32 != first + n + 1)
			break;
		if ((uint32_t)mark > LEND_RING_SHORT) {
			*more = true;
			break;
		}
		lend_ring_prefetch(slot, (uint32_t)mark);
		in[n] = (struct lend_in){
		    .data = slot->data, .len = (uint32_t)mark, .peer = peer, .reads = reads};
	}
	rx->next = first + n;
	return n;
}

/* Lends the next datagram of any kind. False: there is none. A bad one is counted. */
static __attribute__((noinline)) bool take_any(struct lend_shm *s, struct lend_shm_peer *p,
					       struct lend_ring_rx *rx, struct lend_in *in,
					       uint32_t *n)
{
	enum lend_ring_verdict look = lend_ring_next(rx, &in->data, &in->len);

	if (look == LEND_RING_EMPTY)
		return false;
	if (look == LEND_RING_REF)
		look = find_body(p, in);
	s->io.stats.rx_bad += look == LEND_RING_BAD;
	*n += look == LEND_RING_DATA;
	return true;
}

/* Lends datagrams of a peer that hung up: no more than the rings could hold then. */
static __attribute__((noinline)) uint32_t take_left(struct lend_shm *s, struct lend_shm_peer *p,
						    struct lend_ring_rx *rx,
						    const struct lend_in *like, struct lend_in *in,
						    uint32_t cap)
{
	uint32_t n = 0;

	for (; n < cap && p->left > 0; p->left--) {
		in[n] = *like;
		if (!take_any(s, p, rx, &in[n], &n))
			break;
	}
	return n;
}

/* Lends the other datagrams of a ring when the next one is not short. */
static __attribute__((noinline)) uint32_t take_mixed(struct lend_shm *s, struct lend_shm_peer *p,
						     struct lend_ring_rx *rx,
						     const struct lend_in *like, struct lend_in *in,
						     uint32_t cap)
{
	bool more = true;
	uint32_t n = 0;

	for (uint32_t looks = 0; looks < LEND_RING_SLOTS && more; looks++) {
		in[n] = *like;
		if (!take_any(s, p, rx, &in[n], &n))
			break;
		n += take_short(rx, like->peer, like->reads, in + n, cap - n, &more);
	}
	return n;
}

/* Lends datagrams that are not all short, or are from a peer that hung up. */
static __attribute__((noinline)) uint32_t take_rest(struct lend_shm *s, struct lend_shm_peer *p,
						    struct lend_ring_rx *rx, bool reads,
						    struct lend_in *in, uint32_t cap)
{
	struct lend_in like = {.peer = lend_shm_index(s, p), .reads = reads};

	return p->state == LEND_SHM_HUNG_UP ? take_left(s, p, rx, &like, in, cap)
					    : take_mixed(s, p, rx, &like, in, cap);
}

uint32_t lend_shm_read_ring(struct lend_shm *s, struct lend_shm_peer *p, struct lend_ring_rx *rx,
			    struct lend_in *in, uint32_t cap)
{
	bool reads, more = true;
	uint32_t n = 0;

	if (!lend_shm_is_live(p))
		return 0;
	reads = p->lent != NULL || lend_shm_maps_memory(s, p);
	if (p->state != LEND_SHM_HUNG_UP)
		n = take_short(rx, lend_shm_index(s, p), reads, in, cap, &more);
	return more ? n + take_rest(s, p, rx, reads, in + n, cap - n) : n;
}
