/* Goal: a reference survives its wire and text forms; slices only narrow it; no bit of it can be
 * forged. Method: tables with pairs of values around each limit, every single-bit change, and seeds
 * against plain ranges. Covers: src/wire/memref.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "util/rng.h"
#include "wire/memref.h"

static const uint8_t key[16] = "0123456789abcde";

static struct lend_memref make_root(uint64_t len)
{
	struct lend_memref ref = {.node = 7, .epoch = 9, .slot = 3, .serial = 5, .root_len = len};

	lend_memref_sign(&ref, key);
	return ref;
}

static struct lend_memref lent(uint64_t len)
{
	struct lend_memref ref = {.node = 7,
				  .epoch = 0xfedc,
				  .slot = 3,
				  .serial = 5,
				  .root_len = len,
				  .home = LEND_HOME_CALLER,
				  .tenant = 0xa5c3,
				  .key_id = 0x9d};

	lend_memref_sign(&ref, key);
	return ref;
}

/* A reference of version 1, byte by byte in its format, remains valid. */
Test(memref, node_reference__version_1_bytes__unchanged)
{
	static const uint8_t fields[28] = {7, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 1, 0,
					   7, 0, 5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
	struct lend_memref ref = make_root(256), got;
	uint8_t bytes[LEND_MEMREF_LEN];

	lend_memref_encode(&ref, bytes);
	cr_assert(!memcmp(bytes, fields, sizeof(fields)));
	cr_assert(lend_memref_decode(bytes, &got));
	cr_assert_eq(got.home, LEND_HOME_NODE);
	cr_assert_eq(got.tenant | got.key_id, 0);
}

Test(memref, home_fields__encode_decode__survive_and_are_signed)
{
	uint8_t bytes[LEND_MEMREF_LEN], again[LEND_MEMREF_LEN];
	struct lend_memref ref = lent(LEND_MEMREF_ROOT_MAX), got;

	cr_assert_eq(lend_memref_slice(&ref, 9, 77, LEND_RIGHT_READ, &ref), 0);
	lend_memref_encode(&ref, bytes);
	cr_assert(lend_memref_decode(bytes, &got));
	cr_assert_eq(got.version, LEND_MEMREF_HOME_VERSION);
	cr_assert_eq(got.home, LEND_HOME_CALLER);
	cr_assert_eq(got.epoch, 0xfedc);
	cr_assert_eq(got.tenant, 0xa5c3);
	cr_assert_eq(got.key_id, 0x9d);
	cr_assert_eq(got.root_len, LEND_MEMREF_ROOT_MAX);
	cr_assert_eq(got.depth, 1);
	cr_assert(lend_memref_verify(&got, key));
	lend_memref_encode(&got, again);
	cr_assert(!memcmp(bytes, again, sizeof(bytes)));
	got.tenant ^= 1;
	cr_assert_not(lend_memref_verify(&got, key));
}

Test(memref, bound_reference__of_a_node__version_2)
{
	struct lend_memref ref = {
	    .node = 7, .epoch = 0x12345678, .slot = 3, .serial = 5, .root_len = 256, .tenant = 9};
	struct lend_memref got;
	uint8_t bytes[LEND_MEMREF_LEN];

	lend_memref_sign(&ref, key);
	lend_memref_encode(&ref, bytes);
	cr_assert(lend_memref_decode(bytes, &got));
	cr_expect_eq(got.version, LEND_MEMREF_HOME_VERSION);
	cr_expect_eq(got.home, LEND_HOME_NODE);
	cr_expect_eq(got.epoch, 0x5678);
	cr_expect_eq(ref.epoch, 0x5678);
	cr_expect_eq(got.tenant, 9);
	cr_assert(lend_memref_verify(&got, key));
	got.tenant = 0;
	cr_expect_not(lend_memref_verify(&got, key));
}

Test(memref, home_of_a_set_or_unknown__decode__refused)
{
	struct lend_memref ref = lent(10), got;
	uint8_t bytes[LEND_MEMREF_LEN];

	lend_memref_encode(&ref, bytes);
	for (unsigned home = LEND_HOME_SET; home < 16; home++) {
		bytes[13] = (uint8_t)(home << 4);
		cr_assert_not(lend_memref_decode(bytes, &got), "home %u", home);
	}
	bytes[13] = LEND_HOME_CALLER << 4;
	bytes[12] = LEND_MEMREF_NODE_VERSION; /* where the home is part of the depth */
	cr_assert_not(lend_memref_decode(bytes, &got));
}

Test(memref, slice_table)
{
	static const struct {
		uint64_t offset, len;
		unsigned rights;
		int want;
	} row[] = {
	    {0, 100, 7, 0},
	    {0, 101, 7, -ERANGE},
	    {100, 0, 7, 0},
	    {101, 0, 7, -ERANGE},
	    {40, 60, 1, 0},
	    {40, 61, 1, -ERANGE},
	    {UINT64_MAX, 2, 1, -ERANGE},
	    {UINT64_MAX - 1, UINT64_MAX, 1, -ERANGE},
	    {1, UINT64_MAX, 1, -ERANGE},
	    {0, 100, 8, -EPERM},
	};
	struct lend_memref ref = make_root(100), out;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_assert_eq(
		    lend_memref_slice(&ref, row[i].offset, row[i].len, row[i].rights, &out),
		    row[i].want, "row %zu", i);
		if (row[i].want == 0)
			cr_assert(lend_memref_verify(&out, key), "row %zu", i);
	}
}

Test(memref, widened_rights_and_third_slice)
{
	struct lend_memref ref = make_root(100), a, b, c;
	uint64_t first;

	cr_assert_eq(lend_memref_slice(&ref, 10, 50, LEND_RIGHT_READ, &a), 0);
	cr_assert_eq(lend_memref_slice(&a, 0, 10, LEND_RIGHT_MAP, &b), -EPERM);
	cr_assert_eq(lend_memref_slice(&a, 5, 10, LEND_RIGHT_READ, &b), 0);
	cr_assert_eq(lend_memref_slice(&b, 0, 1, LEND_RIGHT_READ, &c), -EMLINK);
	cr_assert_eq(lend_memref_narrow(&b, key, 2, 3, LEND_RIGHT_READ, &c), 0);
	cr_assert_eq(c.depth, 1);
	cr_assert_eq(lend_memref_range(&c, &first), 3);
	cr_assert_eq(first, 17);
	cr_assert(lend_memref_verify(&c, key));
	cr_assert_eq(lend_memref_narrow(&b, key, 8, 3, LEND_RIGHT_READ, &c), -ERANGE);
	cr_assert_eq(lend_memref_narrow(&b, key, UINT64_MAX, 3, LEND_RIGHT_READ, &c), -ERANGE);
	cr_assert_eq(lend_memref_narrow(&b, key, 0, 3, LEND_RIGHT_MAP, &c), -EPERM);
}

static void flip_every_bit(struct lend_memref ref)
{
	struct lend_memref got;
	uint8_t bytes[LEND_MEMREF_LEN], bad[LEND_MEMREF_LEN];

	for (int depth = 0; depth <= 2; depth++) {
		lend_memref_encode(&ref, bytes);
		cr_assert(lend_memref_decode(bytes, &got));
		cr_assert(lend_memref_verify(&got, key));
		for (uint32_t bit = 0; bit < LEND_MEMREF_LEN * 8; bit++) {
			memcpy(bad, bytes, sizeof(bad));
			bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert_not(lend_memref_decode(bad, &got) &&
					  lend_memref_verify(&got, key),
				      "depth %d bit %u", depth, bit);
		}
		if (depth < 2)
			cr_assert_eq(
			    lend_memref_slice(&ref, 1, 500 - 10 * (uint64_t)depth, 3, &ref), 0);
	}
}

Test(memref, every_flipped_bit_is_refused)
{
	flip_every_bit(make_root(1000));
	flip_every_bit(lent(1000));
}

Test(memref, text_and_back)
{
	struct lend_rng rng;
	uint8_t bytes[LEND_MEMREF_LEN], back[LEND_MEMREF_LEN];
	char text[LEND_MEMREF_TEXT];

	lend_rng_seed(&rng, 1);
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)lend_rng_next(&rng);
		lend_memref_text(bytes, text);
		cr_assert(lend_memref_parse(text, back));
		cr_assert_eq(memcmp(bytes, back, sizeof(bytes)), 0);
	}
	memset(bytes, 0xff, sizeof(bytes));
	lend_memref_text(bytes, text);
	cr_assert_eq(memcmp(text, "________", 8), 0);
	text[LEND_MEMREF_TEXT - 1] = '_'; /* bits behind the last byte */
	cr_assert_not(lend_memref_parse(text, back));
	text[LEND_MEMREF_TEXT - 1] = 'w';
	cr_assert(lend_memref_parse(text, back));
	text[3] = '+';
	cr_assert_not(lend_memref_parse(text, back));
}

Test(memref, slices_agree_with_plain_ranges)
{
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct lend_rng rng;
		uint64_t from = 0, len, first;
		struct lend_memref ref;

		lend_rng_seed(&rng, seed);
		len = lend_rng_below(&rng, LEND_MEMREF_ROOT_MAX);
		ref = make_root(len);
		for (int i = 0; i < 2; i++) {
			uint64_t offset = lend_rng_below(&rng, len + 1);
			uint64_t part = lend_rng_below(&rng, len - offset + 1);

			cr_assert_eq(lend_memref_slice(&ref, offset, part, 1, &ref), 0);
			from += offset;
			len = part;
		}
		cr_assert_eq(lend_memref_range(&ref, &first), len, "seed %lu", (unsigned long)seed);
		cr_assert_eq(first, from, "seed %lu", (unsigned long)seed);
		cr_assert(lend_memref_verify(&ref, key));
	}
}
