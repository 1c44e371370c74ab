/* Goal: the 8 bytes that answer a request are a checksum of its bytes and length, however the
 * request is split. With `ends` only the two ends count. Method: every length around the ends'
 * sizes, split at random under seeds, against the checksum of the whole; then one byte changed.
 * Covers: apps/peers/checksum.h */
#include <criterion/criterion.h>
#include <string.h>

#include "apps/peers/checksum.h"
#include "util/rng.h"

enum { LEN_MAX = 5 * PEER_SUM_ENDS, SEEDS = 50 };

static unsigned char bytes[LEN_MAX];

static void sum_in_parts(struct lend_rng *rng, uint64_t len, bool ends, unsigned char *out)
{
	struct peer_sum sum;

	peer_sum_begin(&sum, len, ends);
	for (uint64_t at = 0, n; at < len; at += n) {
		n = 1 + lend_rng_next(rng) % (len - at);
		peer_sum_add(&sum, bytes + at, n);
	}
	peer_sum_end(&sum, out);
}

/* The expected answer: the checksum of one copy of the bytes that count. */
static void sum_naively(uint64_t len, bool ends, unsigned char *out)
{
	uint32_t crc = lend_crc32c(0, bytes, len);
	static unsigned char both[2 * PEER_SUM_ENDS];

	if (ends && len > sizeof(both)) {
		memcpy(both, bytes, PEER_SUM_ENDS);
		memcpy(both + PEER_SUM_ENDS, bytes + len - PEER_SUM_ENDS, PEER_SUM_ENDS);
		crc = lend_crc32c(0, both, sizeof(both));
	}
	lend_store_u32(out, crc);
	lend_store_u32(out + 4, (uint32_t)len);
}

Test(peers_checksum, parts_and_ends)
{
	static const uint64_t lens[] = {8, 4095, 4096, 4097, 8191, 8192, 8193, 12289, LEN_MAX};
	unsigned char got[8], want[8];
	struct lend_rng rng;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t len = lens[seed % (sizeof(lens) / sizeof(lens[0]))];
		bool ends = seed % 2;

		lend_rng_seed(&rng, seed);
		for (uint64_t i = 0; i < len; i++)
			bytes[i] = (unsigned char)lend_rng_next(&rng);
		sum_in_parts(&rng, len, ends, got);
		sum_naively(len, ends, want);
		cr_assert(!memcmp(got, want, sizeof(want)), "seed %u, %lu bytes", seed, len);
	}
}

Test(peers_checksum, a_changed_byte_counts_where_it_is_read)
{
	unsigned char before[8], after[8];
	const uint64_t at[] = {0,
			       PEER_SUM_ENDS - 1,
			       PEER_SUM_ENDS,
			       LEN_MAX - PEER_SUM_ENDS - 1,
			       LEN_MAX - PEER_SUM_ENDS,
			       LEN_MAX - 1};
	const bool read[] = {true, true, false, false, true, true};
	struct lend_rng rng;

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		for (int ends = 0; ends < 2; ends++) {
			lend_rng_seed(&rng, i);
			sum_in_parts(&rng, LEN_MAX, ends, before);
			bytes[at[i]] ^= 1;
			sum_in_parts(&rng, LEN_MAX, ends, after);
			cr_assert_eq(memcmp(before, after, 8) != 0, !ends || read[i], "byte %lu",
				     at[i]);
		}
	}
}
