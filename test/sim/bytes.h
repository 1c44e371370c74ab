/* bytes - what a message must read as: a PRF of (seed, call, direction, offset), eight bytes at a
 * time. Layer: test/sim. */
#ifndef TEST_SIM_BYTES_H
#define TEST_SIM_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t sim_bytes_key(uint64_t seed, uint32_t call, bool reply)
{
	uint64_t x = (seed ^ (uint64_t)call << 1 ^ reply) * UINT64_C(0x9e3779b97f4a7c15);

	return (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9) | 1;
}

static inline uint64_t sim_bytes_word(uint64_t key, uint64_t word)
{
	uint64_t x = key * (word + 1);

	return x ^ x >> 32;
}

/* Bytes [offset, offset + len) of the message, whole words where they are whole. */
static inline void sim_bytes_fill(uint8_t *at, uint64_t offset, uint64_t len, uint64_t key)
{
	while (len > 0) {
		uint64_t word = sim_bytes_word(key, offset / 8), in = offset % 8;
		uint64_t n = 8 - in < len ? 8 - in : len;

		if (n == 8)
			memcpy(at, &word, 8);
		else
			memcpy(at, (const uint8_t *)&word + in, n);
		at += n;
		offset += n;
		len -= n;
	}
}

static inline bool sim_bytes_same(const uint8_t *at, uint64_t offset, uint64_t len, uint64_t key)
{
	uint64_t wrong = 0;

	while (len > 0) {
		uint64_t word = sim_bytes_word(key, offset / 8), in = offset % 8, got;
		uint64_t n = 8 - in < len ? 8 - in : len;

		if (n == 8) {
			memcpy(&got, at, 8);
			wrong |= got ^ word;
		} else {
			wrong |= (uint64_t)(memcmp(at, (const uint8_t *)&word + in, n) != 0);
		}
		at += n;
		offset += n;
		len -= n;
	}
	return !wrong;
}

#endif
