#include "util/siphash.h"

#include "util/bits.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static inline void two_rounds(struct sip *s)
{
	for (int i = 0; i < 2; i++) {
		s->v0 += s->v1;
		s->v1 = rotl(s->v1, 13) ^ s->v0;
		s->v0 = rotl(s->v0, 32);
		s->v2 += s->v3;
		s->v3 = rotl(s->v3, 16) ^ s->v2;
		s->v0 += s->v3;
		s->v3 = rotl(s->v3, 21) ^ s->v0;
		s->v2 += s->v1;
		s->v1 = rotl(s->v1, 17) ^ s->v2;
		s->v2 = rotl(s->v2, 32);
	}
}

static inline void absorb(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	two_rounds(s);
	s->v0 ^= word;
}

/* Returns the final 8 bytes of input: the remaining bytes of the data, and the length's low byte at
 * the top. */
static uint64_t last_word(const uint8_t *at, size_t len)
{
	uint64_t word = (uint64_t)len << 56;
	size_t n = len & 7;

	if (n && len > 8)
		return word | lend_load_u64(at + n - 8) >> (64 - 8 * n);
	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return word;
}

static inline struct sip absorb_all(const uint8_t key[16], const void *data, size_t len,
				    uint64_t wide)
{
	uint64_t k0 = lend_load_u64(key), k1 = lend_load_u64(key + 8);
	const uint8_t *at = data;
	const uint8_t *end = at + (len & ~(size_t)7);
	struct sip s = {
	    k0 ^ UINT64_C(0x736f6d6570736575),
	    k1 ^ UINT64_C(0x646f72616e646f6d) ^ wide,
	    k0 ^ UINT64_C(0x6c7967656e657261),
	    k1 ^ UINT64_C(0x7465646279746573),
	};

	for (; at != end; at += 8)
		absorb(&s, lend_load_u64(at));
	absorb(&s, last_word(at, len));
	return s;
}

static inline uint64_t squeeze(struct sip *s)
{
	two_rounds(s);
	two_rounds(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void lend_siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16])
{
	struct sip s = absorb_all(key, data, len, 0xee);

	s.v2 ^= 0xee;
	lend_store_u64(out, squeeze(&s));
	s.v1 ^= 0xdd;
	lend_store_u64(out + 8, squeeze(&s));
}

uint64_t lend_siphash64(const uint8_t key[16], const void *data, size_t len)
{
	struct sip s = absorb_all(key, data, len, 0);

	s.v2 ^= 0xff;
	return squeeze(&s);
}
