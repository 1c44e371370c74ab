#include "fuzz/ring_model.h"

#include <string.h>

#include "sys/shared_arena.h"

/* A datagram with locations: its head, the other bytes in the ring, the locations. */
struct apart {
	const uint8_t *head, *rest, *table;
	uint32_t n;
};

/* Splits a datagram by its mark; false: the mark contradicts itself. */
static bool split_datagram(const uint8_t *data, uint32_t mark, struct apart *a)
{
	uint32_t len = mark & UINT16_MAX, head = mark >> 16 & UINT8_MAX;

	a->n = mark >> 24 & INT8_MAX;
	if (len > LEND_RING_MTU || a->n < 1 || a->n > LEND_PLACES || head + 16 * a->n > len)
		return false;
	a->head = data;
	a->rest = data + head;
	a->table = data + len - 16 * a->n;
	return true;
}

static struct lend_ring_ref place_of(const struct apart *a, uint32_t i)
{
	struct lend_ring_ref place;

	memcpy(&place, a->table + 16 * i, sizeof(place));
	return place;
}

/* Returns whether all places are in the peer's memory and in order, and no byte between them is
 * missing. */
static bool places_fit(const struct lend_shm_peer *p, const struct apart *a)
{
	uint64_t end = 0, lent = 0, rest = (uint64_t)(a->table - a->rest);

	for (uint32_t i = 0; i < a->n; i++) {
		struct lend_ring_ref place = place_of(a, i);

		if (!p->memory || place.offset > LEND_ARENA_LEN ||
		    place.len > LEND_ARENA_LEN - place.offset)
			return false;
		if (place.at < end || place.at - lent > rest)
			return false;
		end = (uint64_t)place.at + place.len;
		lent += place.len;
	}
	return lent + rest <= UINT32_MAX;
}

/* Takes the next part of a delivery and returns whether it is these bytes. */
static bool next_is(const struct lend_in *in, uint32_t *k, const uint8_t *data, uint64_t len)
{
	const struct lend_part whole = {in->body, in->body_len};
	const struct lend_part *part = in->parts ? &in->part[*k] : &whole;

	return (*k)++ < (in->parts ? in->parts : 1) && part->data == data && part->len == len;
}

static bool body_matches(const struct lend_shm_peer *p, const struct apart *a,
			 const struct lend_in *in)
{
	const uint8_t *rest = a->rest;
	uint64_t pos = 0;
	uint32_t k = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		struct lend_ring_ref place = place_of(a, i);

		if (place.at > pos && !next_is(in, &k, rest, place.at - pos))
			return false;
		rest += place.at - pos;
		if (!next_is(in, &k, p->memory + place.offset, place.len))
			return false;
		pos = (uint64_t)place.at + place.len;
	}
	if (rest < a->table && !next_is(in, &k, rest, (uint64_t)(a->table - rest)))
		return false;
	return k == (in->parts ? in->parts : 1) &&
	       in->body_len == pos + (uint64_t)(a->table - rest);
}

bool ring_model_matches(const struct lend_shm_peer *p, uint32_t *next, const struct lend_in *in,
			uint64_t *bad)
{
	for (uint32_t looks = 0; looks < LEND_RING_SLOTS; looks++) {
		const struct lend_ring_slot *slot = &p->rx.ring->slot[*next % LEND_RING_SLOTS];
		const uint8_t *body = p->rx.ring->body[*next % LEND_RING_BODIES];
		uint64_t mark = atomic_load(&slot->mark);
		bool refs = (uint32_t)mark >> 31;
		uint32_t len = (uint32_t)mark & (refs ? UINT16_MAX : UINT32_MAX);
		const uint8_t *data = len <= LEND_RING_SHORT ? slot->data : body;
		struct apart a;

		if (mark >> 32 != *next + 1)
			return false;
		++*next;
		if (!refs && len <= LEND_RING_MTU)
			return in->len == len && in->data == data && !in->parts && !in->body;
		if (refs && split_datagram(data, (uint32_t)mark, &a) && places_fit(p, &a))
			return in->len == (uint32_t)(a.rest - a.head) && in->data == data &&
			       body_matches(p, &a, in);
		++*bad;
	}
	return false;
}
