/* Goal: lend_crc32c is the CRC32C of RFC 3720; it chains, and its fast code equals the table's. The
 * checksum of a changed message follows from the old one and the change. Method: the vectors of RFC
 * 3720 B.4, then random bytes at random offsets, lengths around the lanes and folds, splits and
 * changed middles under seeds. Covers: src/util/crc32c.c */
#include <criterion/criterion.h>

#include "util/bits.h"
#include "util/crc32c.h"
#include "util/rng.h"

Test(crc32c, published_vectors)
{
	static const uint8_t read_command[48] = {
	    0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02};
	uint8_t bytes[32];

	cr_assert_eq(lend_crc32c(0, "", 0), 0);
	cr_assert_eq(lend_crc32c(0, "123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	cr_assert_eq(lend_crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	cr_assert_eq(lend_crc32c(0, bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	cr_assert_eq(lend_crc32c(0, bytes, 32), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	cr_assert_eq(lend_crc32c(0, bytes, 32), 0x113fdb5c);
	cr_assert_eq(lend_crc32c(0, read_command, 48), 0xd9963a56);
}

Test(crc32c, fast_equals_table_and_chains)
{
	static uint8_t bytes[8192];

	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct lend_rng rng;
		size_t at, len, cut;
		uint32_t start, whole;

		lend_rng_seed(&rng, seed);
		for (size_t i = 0; i < 64; i++)
			lend_store_u64(bytes + lend_rng_below(&rng, sizeof(bytes) - 8),
				       lend_rng_next(&rng));
		at = lend_rng_below(&rng, 64);
		len = lend_rng_below(&rng, sizeof(bytes) - at);
		cut = lend_rng_below(&rng, len + 1);
		start = (uint32_t)lend_rng_next(&rng);
		whole = lend_crc32c(start, bytes + at, len);
		cr_assert_eq(whole, lend_crc32c_table(start, bytes + at, len), "seed %lu", seed);
		cr_assert_eq(
		    whole,
		    lend_crc32c(lend_crc32c(start, bytes + at, cut), bytes + at + cut, len - cut),
		    "seed %lu", seed);
	}
}

Test(crc32c, lengths_around_the_lanes)
{
	static uint8_t bytes[3200];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 131 + i / 256);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		uint32_t want = lend_crc32c_table(7, bytes, len);

		cr_assert_eq(lend_crc32c(7, bytes, len), want, "length %zu", len);
		cr_assert_eq(lend_crc32c_lanes(7, bytes, len), want, "length %zu, no folds", len);
	}
}

/* The difference between two checksums, moved past a tail of any length, equals the one of the
 * whole messages. */
Test(crc32c, difference_moves_past_a_tail)
{
	static uint8_t bytes[1 << 16];

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct lend_rng rng;
		size_t len, at, n;
		uint32_t was, apart;

		lend_rng_seed(&rng, seed);
		len = 1 + lend_rng_below(&rng, seed % 2 ? 5000 : sizeof(bytes));
		at = lend_rng_below(&rng, len);
		n = 1 + lend_rng_below(&rng, len - at);
		was = lend_crc32c(0, bytes, len);
		apart = lend_crc32c(UINT32_MAX, bytes + at, n);
		for (size_t i = 0; i < n; i++)
			bytes[at + i] = (uint8_t)lend_rng_next(&rng);
		apart ^= lend_crc32c(UINT32_MAX, bytes + at, n);
		cr_assert_eq(was ^ lend_crc32c_past(apart, len - at - n),
			     lend_crc32c(0, bytes, len), "seed %lu", seed);
	}
}

/* Lengths too long to sum: moving in two steps equals moving in one. */
Test(crc32c, difference_moves_past_tails_of_any_length)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, 1);
	for (int i = 0; i < 1000; i++) {
		uint64_t a = lend_rng_next(&rng) >> lend_rng_below(&rng, 63) >> 1;
		uint64_t b = lend_rng_next(&rng) >> lend_rng_below(&rng, 63) >> 1;
		uint32_t apart = (uint32_t)lend_rng_next(&rng);

		cr_assert_eq(lend_crc32c_past(lend_crc32c_past(apart, a), b),
			     lend_crc32c_past(apart, a + b), "%lu + %lu", a, b);
	}
}
