/* choice - decisions out of a fuzzer's bytes, so that mutated bytes are changed decisions.
 * A byte is a decision. Once they are used up every decision is 0 and choice_left() reports it.
 * Between choice_dice() and choice_bytes() decisions come from a generator that two bytes seed:
 * many cheap ones, still the same for the same input. Layer: test. Lives by value in its owner. */
#ifndef TEST_FUZZ_CHOICE_H
#define TEST_FUZZ_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "util/rng.h"

struct choice {
	const uint8_t *at, *end;
	bool dice;
	struct lend_rng rng;
};

static inline bool choice_left(const struct choice *c)
{
	return c->at < c->end;
}

static inline uint8_t choice_u8(struct choice *c)
{
	if (c->dice)
		return (uint8_t)lend_rng_next(&c->rng);
	return c->at < c->end ? *c->at++ : 0;
}

static inline uint32_t choice_u16(struct choice *c)
{
	uint32_t high = choice_u8(c);

	return high << 8 | choice_u8(c);
}

/* One of n, up to 256. */
static inline uint32_t choice_of(struct choice *c, uint32_t n)
{
	return choice_u8(c) % n;
}

/* True once in n. */
static inline bool choice_rare(struct choice *c, uint32_t n)
{
	return choice_u8(c) % n == n - 1;
}

static inline void choice_dice(struct choice *c)
{
	lend_rng_seed(&c->rng, choice_u16(c));
	c->dice = true;
}

static inline void choice_bytes(struct choice *c)
{
	c->dice = false;
}

/* A number near a limit: small, near a power of two, near all ones, or any. */
static inline uint64_t choice_edge(struct choice *c)
{
	uint8_t b = choice_u8(c);
	uint64_t v = 0;

	if (b < 96)
		return b % 24;
	if (b < 192)
		return (UINT64_C(1) << b % 64) + (b / 64 == 1 ? 0 : UINT64_MAX);
	if (b < 208)
		return UINT64_MAX - b % 16;
	for (uint32_t n = 1 + b % 8; n > 0; n--)
		v = v << 8 | choice_u8(c);
	return v;
}

#endif
