/* toy_seal - struct lend_seal_ops of SipHash and a small group: as fast as a test needs, and the
 * same in each run. It keeps no secret. */
#ifndef TEST_SCEN_TOY_SEAL_H
#define TEST_SCEN_TOY_SEAL_H

#include <string.h>

#include "seal/seal.h"
#include "util/bits.h"
#include "util/rng.h"
#include "util/siphash.h"

/* A hash of 32 bytes: two halves under different keys. */
static inline void toy_hash(const uint8_t key[32], const void *data, size_t len, uint8_t out[32])
{
	uint8_t low[16], high[16];

	memcpy(low, key, 16);
	memcpy(high, key + 16, 16);
	high[0] ^= 0x5a;
	lend_siphash128(low, data, len, out);
	lend_siphash128(high, data, len, out + 16);
}

static inline void toy_sha256(const void *data, size_t len, uint8_t out[32])
{
	static const uint8_t none[32] = "toy hash";

	toy_hash(none, data, len, out);
}

static inline void toy_hmac(const uint8_t key[32], const void *data, size_t len, uint8_t out[32])
{
	toy_hash(key, data, len, out);
}

static inline void toy_sha256_after(const uint8_t first[32], const void *data, size_t len,
				    uint8_t out[32])
{
	uint8_t key[32];

	memcpy(key, first, 32);
	toy_hash(key, data, len, out);
}

#define TOY_PRIME ((UINT64_C(1) << 61) - 1)

static inline uint64_t toy_times(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b % TOY_PRIME);
}

static inline int toy_dh(const uint8_t secret[32], const uint8_t theirs[32], uint8_t out[32])
{
	uint64_t base = theirs ? lend_load_u64(theirs) % TOY_PRIME : 3, power = 1;
	uint64_t x = lend_load_u64(secret) >> 4;

	for (; x; x >>= 1) {
		if (x & 1)
			power = toy_times(power, base);
		base = toy_times(base, base);
	}
	memset(out, 0, 32);
	memcpy(out, &power, sizeof(power));
	return power <= 1 ? -1 : 0;
}

/* Keystream: the hash of key and block number, 32 bytes each. */
static inline void toy_mix(const uint8_t key[32], uint8_t *text, size_t len)
{
	uint8_t block[32];

	for (uint64_t at = 0; at < len; at++) {
		if (at % 32 == 0)
			toy_hash(key, &at, sizeof(at), block);
		text[at] ^= block[at % 32];
	}
}

static inline void toy_tag(const uint8_t key[32], const uint8_t bound[32], const uint8_t *text,
			   size_t len, uint8_t tag[16])
{
	uint8_t one[32], two[32];

	toy_hash(key, bound, 32, one);
	toy_hash(one, text, len, two);
	memcpy(tag, two, 16);
}

static inline void toy_aead_seal(const uint8_t key[32], const uint8_t bound[32], uint8_t *text,
				 size_t len)
{
	toy_mix(key, text, len);
	toy_tag(key, bound, text, len, text + len);
}

static inline int toy_aead_open(const uint8_t key[32], const uint8_t bound[32], uint8_t *text,
				size_t len)
{
	uint8_t tag[16];

	toy_tag(key, bound, text, len, tag);
	if (memcmp(tag, text + len, sizeof(tag)))
		return -1;
	toy_mix(key, text, len);
	return 0;
}

static struct lend_rng toy_rng;
static inline void toy_random(void *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = (uint8_t)lend_rng_next(&toy_rng);
}

static inline void toy_wipe(void *at, size_t len)
{
	memset(at, 0, len);
}

static const struct lend_seal_ops toy_seal_ops = {.sha256 = toy_sha256,
						  .hmac_sha256 = toy_hmac,
						  .dh = toy_dh,
						  .random = toy_random,
						  .sha256_after = toy_sha256_after,
						  .aead_seal = toy_aead_seal,
						  .aead_open = toy_aead_open,
						  .wipe = toy_wipe};

#endif
