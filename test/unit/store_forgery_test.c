/* Goal: no reference that was not issued is accepted, however near it is to one that was. Method:
 * near-misses of genuine references under a seed: bits, fields, tokens of others, wider slices and
 * rights, in encoded form; $LEND_FORGERIES sets their number. Covers: mn/store/space.c,
 * src/wire/memref.c */
#include <stdio.h>
#include <stdlib.h>

#include "mn/store/space.h"
#include "util/rng.h"
#include "unit/storesuite.h"

enum { REFS = 64, TENANT = 2 };

TestSuite(store_forgery, .init = setup);

static struct lend_memref ref[2 * REFS];
static struct lend_rng rng;

static uint64_t pick_below(uint64_t n)
{
	return lend_rng_next(&rng) % n;
}

/* Puts snapshots, half of them bound, and a slice of each. */
static void put_all(void)
{
	k->tenant = TENANT;
	for (uint32_t i = 0; i < REFS; i++) {
		struct lend_memop op = {.kind = LEND_MEMOP_PUT,
					.flags = i % 2 ? LEND_MEMOP_BOUND : 0,
					.len = 100,
					.terms = kit_owned};

		cr_assert_eq(kit_do(k, &a, &op, data), LEND_MEM_OK);
		cr_assert(lend_memref_decode(k->out.head, &ref[i]));
		cr_assert_eq(lend_memref_slice(&ref[i], 1 + pick_below(20), pick_below(70),
					       1 + pick_below(7), &ref[REFS + i]),
			     0);
	}
}

/* Changes a field to one that widens what the reference permits, or names another object. */
static void change_field(struct lend_memref *r)
{
	const struct lend_memref *other = &ref[pick_below(REFS)];

	switch (pick_below(8)) {
	case 0:
		r->slot = other->slot;
		break;
	case 1:
		r->serial += pick_below(2) ? 1 : UINT64_MAX;
		break;
	case 2:
		r->root_len += 1 + pick_below(1000);
		break;
	case 3:
		memcpy(r->token, other->token, sizeof(r->token));
		break;
	case 4:
		r->rights[r->depth] |= (uint8_t)(1 + pick_below(7));
		break;
	case 5:
		r->slice[0].offset ^= r->depth;
		break;
	case 6:
		r->depth = 0;
		memset(r->slice, 0, sizeof(r->slice));
		r->rights[1] = 0;
		break;
	default:
		r->tenant = (uint16_t)pick_below(4);
		break;
	}
}

static void forge_bytes(const struct lend_memref *genuine, uint8_t bytes[LEND_MEMREF_LEN])
{
	struct lend_memref r = *genuine;

	if (pick_below(3) == 0) {
		change_field(&r);
		lend_memref_encode(&r, bytes);
		return;
	}
	lend_memref_encode(&r, bytes);
	for (uint64_t n = 1 + pick_below(3); n > 0; n--)
		bytes[pick_below(4) ? 48 + pick_below(16) : pick_below(LEND_MEMREF_LEN)] ^=
		    (uint8_t)(1u << pick_below(8));
}

TestThen(store_forgery, near_misses__none_is_accepted)
{
	const char *seed = getenv("LEND_SEED"), *many = getenv("LEND_FORGERIES");
	uint64_t n = many ? strtoull(many, NULL, 0) : 1000000, judged = 0;

	lend_rng_seed(&rng, seed ? strtoull(seed, NULL, 0) : 1);
	put_all();
	for (uint64_t i = 0; i < n; i++) {
		const struct lend_memref *genuine = &ref[pick_below((uint64_t)2 * REFS)];
		uint8_t bytes[LEND_MEMREF_LEN], right[LEND_MEMREF_LEN];
		struct lend_memref r;
		uint32_t object = 0;

		lend_memref_encode(genuine, right);
		forge_bytes(genuine, bytes);
		if (!memcmp(bytes, right, sizeof(right)) || !lend_memref_decode(bytes, &r))
			continue;
		judged++;
		cr_assert_neq(lend_snapshot_find(k->store, &r, 0, TENANT, &object), LEND_MEM_OK,
			      "LEND_SEED=%s: forgery %lu", seed ? seed : "1", i);
		if (i % 16 == 0) /* genuine ones between them are in the cache, too */
			cr_assert_eq(lend_snapshot_find(k->store, genuine, 0, TENANT, &object),
				     LEND_MEM_OK);
	}
	cr_expect_gt(judged, n / 2);
	printf("%lu near-misses were judged\n", judged);
	for (uint32_t i = 0; i < REFS; i++)
		cr_assert_eq(kit_release(k, &a, &ref[i]), LEND_MEM_OK);
}
