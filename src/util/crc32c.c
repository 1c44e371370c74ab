#include "util/crc32c.h"

#include "util/bits.h"

/* A CRC is linear over xor, so four basis values give the table of all 16 sums. */
#define SUM(i, a, b, c, d)                                                                         \
	(((i)&1 ? (a) : 0u) ^ ((i)&2 ? (b) : 0u) ^ ((i)&4 ? (c) : 0u) ^ ((i)&8 ? (d) : 0u))
#define SUMS4(i, a, b, c, d)                                                                       \
	SUM(i, a, b, c, d), SUM((i) + 1, a, b, c, d), SUM((i) + 2, a, b, c, d),                    \
	    SUM((i) + 3, a, b, c, d)
#define SUMS16(a, b, c, d)                                                                         \
	{                                                                                          \
		SUMS4(0, a, b, c, d), SUMS4(4, a, b, c, d), SUMS4(8, a, b, c, d),                  \
		    SUMS4(12, a, b, c, d)                                                          \
	}

/* The effect of eight steps on the CRC's low and high nibble; polynomial 0x1edc6f41, reflected. */
static const uint32_t byte_lo[16] = SUMS16(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu);
static const uint32_t byte_hi[16] = SUMS16(0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u);

uint32_t lend_crc32c_table(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *at = data;

	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		uint32_t low = (crc ^ at[i]) & 0xff;

		crc = crc >> 8 ^ byte_lo[low & 15] ^ byte_hi[low >> 4];
	}
	return ~crc;
}

#ifdef __SSE4_2__
#include <immintrin.h>
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#endif

/* The instruction has a latency of three cycles but can start in every cycle. So three runs of LANE
 * bytes are summed in parallel and then joined: the CRC of a followed by b is the CRC of a moved
 * past len(b) zeros, xor the CRC of b begun with 0. past_lane moves a CRC past LANE zeros, nibble
 * by nibble. */
enum { LANE = 256 };
static const uint32_t past_lane[8][16] = {
    SUMS16(0xdcb17aa4u, 0xbc8e83b9u, 0x7cf17183u, 0xf9e2e306u),
    SUMS16(0xf629b0fdu, 0xe9bf170bu, 0xd69258e7u, 0xa8c8c73fu),
    SUMS16(0x547df88fu, 0xa8fbf11eu, 0x541b94cdu, 0xa837299au),
    SUMS16(0x558225c5u, 0xab044b8au, 0x53e4e1e5u, 0xa7c9c3cau),
    SUMS16(0x4a7ff165u, 0x94ffe2cau, 0x2c13b365u, 0x582766cau),
    SUMS16(0xb04ecd94u, 0x6571edd9u, 0xcae3dbb2u, 0x902bc195u),
    SUMS16(0x25bbf5dbu, 0x4b77ebb6u, 0x96efd76cu, 0x2833d829u),
    SUMS16(0x5067b052u, 0xa0cf60a4u, 0x4472b7b9u, 0x88e56f72u),
};

static inline uint32_t move_crc(uint32_t crc)
{
	uint32_t moved = 0;

	for (int i = 0; i < 8; i++)
		moved ^= past_lane[i][crc >> (4 * i) & 15];
	return moved;
}

static inline uint32_t three_lanes(uint32_t crc, const uint8_t *at)
{
	uint64_t a = crc, b = 0, c = 0;

	for (int i = 0; i < LANE; i += 8) {
		a = _mm_crc32_u64(a, lend_load_u64(at + i));
		b = _mm_crc32_u64(b, lend_load_u64(at + LANE + i));
		c = _mm_crc32_u64(c, lend_load_u64(at + 2 * LANE + i));
	}
	return move_crc(move_crc((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

/* For machines that multiply polynomials 64 bytes at a time. A run of RUN bytes is multiplied by
 * x^(8 * D) modulo the polynomial, 16 bytes at a time, and added to the data D bytes after it. In
 * the middle of long data, four runs are summed in parallel. They are adjacent, so the processor
 * prefetches the data; it does not recognise the access pattern of three lanes. The remaining runs
 * follow one after another, then the four parts of the last run. The two factors are x^(8 * D + 32)
 * and x^(8 * D - 32), reflected and shifted by one, as a product of reflected numbers requires. */
enum { RUN = 64, RUNS = 4, FOLD_MIN = 3 * RUN };
#define WITH_PRODUCTS __attribute__((target("avx512f,vpclmulqdq,pclmul")))
static const uint64_t past_part[2] = {0xf20c0dfeu, 0x493c7d27u};
static const uint64_t past_run[2] = {0x740eef02u, 0x9e4addf8u};
static const uint64_t past_runs[2] = {0xdcb17aa4u, 0xb9e02b86u};

/* The compiler's builtin adds to each program a constructor that queries all features of the
 * processor, which is slow on a virtual machine. The loader has already done that. */
static inline bool can_fold(void)
{
#ifdef CPU_FEATURE_ACTIVE
	return CPU_FEATURE_ACTIVE(VPCLMULQDQ) && CPU_FEATURE_ACTIVE(AVX512F);
#else
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
#endif
}

WITH_PRODUCTS static inline __m512i load_factors(const uint64_t past[2])
{
	return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)past));
}

WITH_PRODUCTS static inline __m512i add_product(__m512i sum, __m512i by, __m512i next)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, by, 0x00),
					 _mm512_clmulepi64_epi128(sum, by, 0x11), next, 0x96);
}

/* Adds runs to the sum in *one while at least RUNS of them are left before end; returns the
 * position after them. */
WITH_PRODUCTS static const uint8_t *add_runs(__m512i *one, const uint8_t *at, const uint8_t *end)
{
	const __m512i by = load_factors(past_runs);
	__m512i sum[RUNS] = {*one};

	for (int i = 1; i < RUNS; i++, at += RUN)
		sum[i] = _mm512_loadu_si512(at);
	for (; end - at >= RUNS * RUN; at += RUNS * RUN) {
		for (int i = 0; i < RUNS; i++)
			sum[i] = add_product(sum[i], by, _mm512_loadu_si512(at + i * RUN));
	}
	for (int i = 1; i < RUNS; i++)
		sum[i] = add_product(sum[i - 1], load_factors(past_run), sum[i]);
	*one = sum[RUNS - 1];
	return at;
}

WITH_PRODUCTS static inline __m128i add_part(__m128i sum, __m128i next)
{
	const __m128i by = _mm_loadu_si128((const void *)past_part);
	__m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
	__m128i high = _mm_clmulepi64_si128(sum, by, 0x11);

	return _mm_xor_si128(next, _mm_xor_si128(low, high));
}

/* Returns the CRC of the last run: adds up its four parts. */
WITH_PRODUCTS static uint32_t end_run(__m512i run)
{
	__m128i sum = _mm512_castsi512_si128(run);
	uint64_t crc;

	sum = add_part(sum, _mm512_extracti32x4_epi32(run, 1));
	sum = add_part(sum, _mm512_extracti32x4_epi32(run, 2));
	sum = add_part(sum, _mm512_extracti32x4_epi32(run, 3));
	crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(sum));
	return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(sum, 1));
}

/* Sums *data except for less than one run at the end; moves *data behind the summed part. */
WITH_PRODUCTS static uint32_t fold_runs(uint32_t crc, const uint8_t **data, size_t len)
{
	const __m512i by = load_factors(past_run);
	const uint8_t *at = *data + RUN, *end = *data + len - len % RUN;
	__m512i sum = _mm512_xor_si512(_mm512_loadu_si512(*data),
				       _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));

	if (len >= 2 * RUNS * RUN)
		at = add_runs(&sum, at, end);
	for (; at < end; at += RUN)
		sum = add_product(sum, by, _mm512_loadu_si512(at));
	*data = at;
	return end_run(sum);
}

uint32_t lend_crc32c_lanes(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *at = data;
	uint64_t sum = ~crc;

	for (; len >= (size_t)3 * LANE; len -= (size_t)3 * LANE, at += 3 * LANE)
		sum = three_lanes((uint32_t)sum, at);
	for (; len >= 8; len -= 8, at += 8)
		sum = _mm_crc32_u64(sum, lend_load_u64(at));
	if (len >= 4) {
		sum = _mm_crc32_u32((uint32_t)sum, lend_load_u32(at));
		len -= 4;
		at += 4;
	}
	for (; len; len--)
		sum = _mm_crc32_u8((uint32_t)sum, *at++);
	return ~(uint32_t)sum;
}

static __attribute__((noinline)) uint32_t of_long(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *at = data, *end = at + len;

	if (can_fold())
		crc = ~fold_runs(~crc, &at, len);
	return lend_crc32c_lanes(crc, at, (size_t)(end - at));
}

/* Short data skips the check of the processor's features. */
uint32_t lend_crc32c(uint32_t crc, const void *data, size_t len)
{
	return len < FOLD_MIN ? lend_crc32c_lanes(crc, data, len) : of_long(crc, data, len);
}

#else

uint32_t lend_crc32c_lanes(uint32_t crc, const void *data, size_t len)
{
	return lend_crc32c_table(crc, data, len);
}

uint32_t lend_crc32c(uint32_t crc, const void *data, size_t len)
{
	return lend_crc32c_table(crc, data, len);
}

#endif

/* x^(8 * 2^i - 32) modulo the polynomial; the highest bit is x^0. After the last entry the sequence
 * begins again with the first. */
static const uint32_t past[31] = {
    0xdd36fbfcu, 0xbef0965eu, 0x80000000u, 0x82f63b78u, 0xa66805ebu, 0x5d27e147u, 0x4f256efcu,
    0x069db049u, 0x5cf015c3u, 0x6ebf1d86u, 0x0b803b7du, 0xd07b8be2u, 0xc38a7543u, 0x2a543193u,
    0x0ee201e6u, 0xaf85baadu, 0x62809d1bu, 0xd4e35816u, 0xcf5531acu, 0xb6b0b548u, 0x7b578a73u,
    0x5b7ff1c3u, 0xd97d9a55u, 0x23c58698u, 0xa8900a0au, 0x3d908177u, 0xc7baed8fu, 0xd15d7d3fu,
    0x6b086b3fu, 0xb7720ee7u, 0xee51a57du};

/* a * b * x^32 modulo the polynomial: the CRC of a product of 64 bits is its remainder. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint64_t product = 0;
	uint8_t bytes[8];

	for (int i = 0; i < 32; i++)
		product ^= (uint64_t)b << i & -(uint64_t)(a >> i & 1);
	lend_store_u64(bytes, product << 1);
	return ~lend_crc32c(UINT32_MAX, bytes, sizeof(bytes));
}

uint32_t lend_crc32c_past(uint32_t apart, uint64_t len)
{
	for (uint32_t i = 0; len && apart; i = i == 30 ? 0 : i + 1, len >>= 1)
		if (len & 1)
			apart = multiply(apart, past[i]);
	return apart;
}
