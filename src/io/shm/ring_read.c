#include "io/shm/ring_read.h"

#include <string.h>

#include "sys/shared_arena.h"
#include "util/bits.h"

/* The locations at the end of a datagram, copied from the ring, and the bytes before them that are
 * not its head. */
struct apart {
	struct lend_ring_ref place[LEND_PLACES];
	uint32_t n, rest_len;
	const uint8_t *rest;
};

/* Copies the locations and shortens the datagram to its head. */
static void take_apart(struct lend_in *in, struct apart *a)
{
	uint32_t mark = in->len, len = lend_ring_len_of(mark), table;

	a->n = lend_ring_refs_of(mark);
	table = a->n * (uint32_t)sizeof(a->place[0]);
	in->len = lend_ring_head_of(mark);
	a->rest = (const uint8_t *)in->data + in->len;
	a->rest_len = len - in->len - table;
	memcpy(a->place, (const uint8_t *)in->data + len - table, table);
	LEND_ONCE(a->place);
}

/* Returns the location's address in the sender's memory; NULL: it is not within what we mapped. */
static const uint8_t *find_place(const struct lend_shm_peer *p, const struct lend_ring_ref *place)
{
	if (p->memory == NULL || place->offset > LEND_ARENA_LEN ||
	    place->len > LEND_ARENA_LEN - place->offset)
		return NULL;
	return p->memory + place->offset;
}

/* Lists the parts of a message in order. 0: locations are out of order or of the sender's memory,
 * or bytes between them are missing. */
static uint32_t list_parts(const struct lend_shm_peer *p, struct apart *a, struct lend_part *part,
			   uint64_t *len)
{
	uint32_t n = 0;

	*len = 0;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct lend_ring_ref *place = &a->place[i];
		const uint8_t *data = find_place(p, place);
		uint64_t gap = place->at - *len;

		if (!data || place->at < *len || gap > a->rest_len)
			return 0;
		if (gap > 0)
			part[n++] = (struct lend_part){a->rest, (uint32_t)gap};
		a->rest += gap;
		a->rest_len -= (uint32_t)gap;
		part[n++] = (struct lend_part){data, place->len};
		*len += gap + place->len;
	}
	if (a->rest_len > 0)
		part[n++] = (struct lend_part){a->rest, a->rest_len};
	*len += a->rest_len;
	return n;
}

/* Finds the rest of a datagram. BAD: see list_parts(). */
static enum lend_ring_verdict find_body(struct lend_shm *s, const struct lend_shm_peer *p,
					struct lend_in *in)
{
	struct lend_part *part = &s->part[s->parts];
	struct apart a;
	uint64_t len;
	uint32_t n;

	take_apart(in, &a);
	n = list_parts(p, &a, part, &len);
	if (n == 0 || len > UINT32_MAX)
		return LEND_RING_BAD;
	in->body_len = (uint32_t)len;
	if (n == 1) {
		in->body = part->data;
		return LEND_RING_DATA;
	}
	in->part = part;
	in->parts = n;
	s->parts += n;
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

/* Lends the next datagram of any kind. False: there is none, or no room for its parts. A bad one is
 * counted. */
static __attribute__((noinline)) bool take_any(struct lend_shm *s, struct lend_shm_peer *p,
					       struct lend_ring_rx *rx, struct lend_in *in,
					       uint32_t *n)
{
	enum lend_ring_verdict look;

	if (s->parts + LEND_PARTS > LEND_SHM_PARTS)
		return false;
	look = lend_ring_next(rx, &in->data, &in->len);
	if (look == LEND_RING_EMPTY)
		return false;
	if (look == LEND_RING_REF)
		look = find_body(s, p, in);
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
