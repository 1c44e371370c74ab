/* bits - small arithmetic: min and max, alignment, unaligned little-endian loads and stores, and a
 * constant-time comparison of secrets. Layer: util. No state. */
#ifndef LEND_UTIL_BITS_H
#define LEND_UTIL_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t lend_min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t lend_max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline uint64_t lend_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t lend_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns whether x is a power of two; zero is none. */
static inline bool lend_is_pow2(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* Returns the smallest power of two that is not below n, for n up to 2^31. */
static inline uint32_t lend_pow2_above(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Returns the smallest multiple of pow2 that is not below x; the caller knows that it fits. */
static inline uint64_t lend_align_up(uint64_t x, uint64_t pow2)
{
	return (x + pow2 - 1) & ~(pow2 - 1);
}

/* Returns the distance from bit `from` of a ring of words to the next set bit; 0: `from` itself is
 * set; UINT32_MAX: no bit is set. */
static inline uint32_t lend_bits_distance(const uint64_t *map, uint32_t words, uint32_t from)
{
	for (uint32_t i = 0; i <= words; i++) {
		uint64_t bits = map[(from / 64 + i) % words];

		/* The first word is read twice: its upper bits first, its lower bits at the end. */
		if (i == 0)
			bits &= ~UINT64_C(0) << (from % 64);
		if (bits)
			return i * 64 + (uint32_t)__builtin_ctzll(bits) - from % 64;
	}
	return UINT32_MAX;
}

/* Copies 16 bytes. */
static inline void lend_copy_part(uint8_t *to, const uint8_t *from)
{
	uint64_t part[2];

	memcpy(part, from, 16);
	memcpy(to, part, 16);
}

/* Works as memcpy(), but copies 8 to 64 bytes inline: the last parts overlap those before. */
static inline __attribute__((always_inline)) void lend_copy_short(void *to, const void *from,
								  uint32_t len)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	uint64_t word[2];

	if (len - 8 > 56) {
		memcpy(to, from, len);
	} else if (len < 16) {
		memcpy(&word[0], f, 8);
		memcpy(&word[1], f + len - 8, 8);
		memcpy(t, &word[0], 8);
		memcpy(t + len - 8, &word[1], 8);
	} else {
		lend_copy_part(t, f);
		if (len > 32) {
			lend_copy_part(t + 16, f + 16);
			lend_copy_part(t + len - 32, f + len - 32);
		}
		lend_copy_part(t + len - 16, f + len - 16);
	}
}

/* Placed after a copy into the variable x from memory that another process can write: the compiler
 * must use the copy from here on and must not read the original a second time. */
#define LEND_ONCE(x)     __asm__ volatile("" : "+m"(x))
#define LEND_ONCE_REG(x) __asm__ volatile("" : "+r"(x)) /* x fits into a register */

/* memcpy compiles to one instruction; the swap is compiled away on little-endian machines. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LEND_LE16(x) __builtin_bswap16(x)
#define LEND_LE32(x) __builtin_bswap32(x)
#define LEND_LE64(x) __builtin_bswap64(x)
#else
#define LEND_LE16(x) (x)
#define LEND_LE32(x) (x)
#define LEND_LE64(x) (x)
#endif

static inline uint16_t lend_load_u16(const void *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return LEND_LE16(v);
}

static inline uint32_t lend_load_u32(const void *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return LEND_LE32(v);
}

static inline uint64_t lend_load_u64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return LEND_LE64(v);
}

static inline void lend_store_u16(void *at, uint16_t v)
{
	v = LEND_LE16(v);
	memcpy(at, &v, sizeof(v));
}

static inline void lend_store_u32(void *at, uint32_t v)
{
	v = LEND_LE32(v);
	memcpy(at, &v, sizeof(v));
}

static inline void lend_store_u64(void *at, uint64_t v)
{
	v = LEND_LE64(v);
	memcpy(at, &v, sizeof(v));
}

/* Compares all n bytes of both, whatever they hold. The compiler must treat the intermediate result
 * as unknown, so it cannot end the loop early. */
static inline bool lend_equal_ct(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a;
	const uint8_t *y = b;
	uint64_t differ = 0;
	size_t i = 0;

	for (; n - i >= 8; i += 8) {
		differ |= lend_load_u64(x + i) ^ lend_load_u64(y + i);
		__asm__ volatile("" : "+r"(differ));
	}
	for (; i < n; i++) {
		differ |= (uint64_t)(x[i] ^ y[i]);
		__asm__ volatile("" : "+r"(differ));
	}
	return differ == 0;
}

#endif
