/* bytes - the expected content of a message: a PRF of (seed, call, direction, offset), eight bytes
 * at a time. Layer: test/sim. */
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

/* Writes bytes [offset, offset + len) of the message. Whole 8-byte words need only an addition
 * each, which the compiler can vectorise. */
static inline void sim_bytes_fill(uint8_t *at, uint64_t offset, uint64_t len, uint64_t key)
{
	uint64_t in = offset % 8, n = 8 - in < len ? 8 - in : len, word, x;

	if (in) {
		word = sim_bytes_word(key, offset / 8);
		memcpy(at, (const uint8_t *)&word + in, n);
		at += n;
		offset += n;
		len -= n;
	}
	x = key * (offset / 8 + 1);
	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t w = x + key * i;

		w ^= w >> 32;
		memcpy(at + 8 * i, &w, 8);
	}
	if (len % 8) {
		word = sim_bytes_word(key, offset / 8 + len / 8);
		memcpy(at + len / 8 * 8, &word, len % 8);
	}
}

static inline bool sim_bytes_same(const uint8_t *at, uint64_t offset, uint64_t len, uint64_t key)
{
	uint64_t in = offset % 8, n = 8 - in < len ? 8 - in : len, word, x, wrong = 0;

	if (in) {
		word = sim_bytes_word(key, offset / 8);
		wrong = memcmp(at, (const uint8_t *)&word + in, n) != 0;
		at += n;
		offset += n;
		len -= n;
	}
	x = key * (offset / 8 + 1);
	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t w = x + key * i, got;

		memcpy(&got, at + 8 * i, 8);
		wrong |= got ^ w ^ w >> 32;
	}
	if (len % 8) {
		word = sim_bytes_word(key, offset / 8 + len / 8);
		wrong |= (uint64_t)memcmp(at + len / 8 * 8, &word, len % 8) & UINT32_MAX;
	}
	return !wrong;
}

#endif
