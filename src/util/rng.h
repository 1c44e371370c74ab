/* rng - xoshiro256** (Blackman, Vigna): fast, repeatable numbers for the simulator, tests and
 * jitter. Not for secrets: those come from the machine's random source. Layer: util. Lives by value
 * in its owner; one thread at a time. */
#ifndef LEND_UTIL_RNG_H
#define LEND_UTIL_RNG_H

#include <stdint.h>

#include "util/check.h"

struct lend_rng {
	uint64_t s[4]; /* never all zero once seeded */
};

/* Expands any seed, 0 included, with splitmix64: its four outputs are never all zero. */
static inline void lend_rng_seed(struct lend_rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		r->s[i] = z ^ z >> 31;
	}
}

static inline uint64_t lend_rng_rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static inline uint64_t lend_rng_next(struct lend_rng *r)
{
	uint64_t *s = r->s;
	uint64_t out = lend_rng_rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = lend_rng_rotl(s[3], 45);
	return out;
}

/* Returns a uniform number in [0, n), n > 0. Draws again while the number would favour small
 * values, in the worst case every other time. */
static inline uint64_t lend_rng_below(struct lend_rng *r, uint64_t n)
{
	uint64_t x, floor;

	LEND_CHECK(n > 0);
	floor = (0 - n) % n; /* 2^64 mod n */
	do
		x = lend_rng_next(r);
	while (x < floor);
	return x % n;
}

/* Returns a uniform number in [0, 1), in steps of 2^-53. */
static inline double lend_rng_unit(struct lend_rng *r)
{
	return (double)(lend_rng_next(r) >> 11) * 0x1p-53;
}

#endif
