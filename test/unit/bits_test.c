/* Goal: little-endian loads and stores work on any machine and at any address; alignment,
 * comparison, short copies and the search in a ring of bits work at their edges. Method: tables of
 * input and want; each pair of positions in a ring. Covers: src/util/bits.h */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/bits.h"

Test(bits, loads_and_stores_are_little_endian)
{
	uint8_t at[9] = {0xff, 1, 2, 3, 4, 5, 6, 7, 8}, copy[9] = {0xff};

	cr_assert_eq(lend_load_u16(at + 1), 0x0201);
	cr_assert_eq(lend_load_u32(at + 1), 0x04030201);
	cr_assert_eq(lend_load_u64(at + 1), UINT64_C(0x0807060504030201));
	lend_store_u64(copy + 1, UINT64_C(0x0807060504030201));
	cr_assert_arr_eq(copy, at, 9);
	lend_store_u32(copy + 3, 0x0c0b0a09);
	lend_store_u16(copy + 7, 0x0e0d);
	cr_assert_arr_eq(copy + 3, ((uint8_t[]){9, 10, 11, 12, 13, 14}), 6);
	cr_assert_eq(copy[2], 2);
}

Test(bits, powers_and_alignment)
{
	cr_assert(!lend_is_pow2(0));
	cr_assert(lend_is_pow2(1));
	cr_assert(!lend_is_pow2(3));
	cr_assert(lend_is_pow2(UINT64_C(1) << 63));
	cr_assert_eq(lend_align_up(0, 64), 0);
	cr_assert_eq(lend_align_up(1, 64), 64);
	cr_assert_eq(lend_align_up(64, 64), 64);
	cr_assert_eq(lend_align_up(65, 64), 128);
	cr_assert_eq(lend_align_up(5, 1), 5);
}

Test(bits, min_and_max)
{
	cr_assert_eq(lend_min_u32(1, UINT32_MAX), 1);
	cr_assert_eq(lend_max_u32(1, UINT32_MAX), UINT32_MAX);
	cr_assert_eq(lend_min_u64(1, UINT64_MAX), 1);
	cr_assert_eq(lend_max_u64(1, UINT64_MAX), UINT64_MAX);
}

Test(bits, the_next_bit_of_a_ring_is_found_from_every_place)
{
	enum { WORDS = 2, BITS = 64 * WORDS };
	uint64_t none[WORDS] = {0};

	cr_assert_eq(lend_bits_distance(none, WORDS, 70), UINT32_MAX);
	for (uint32_t set = 0; set < BITS; set++)
		for (uint32_t from = 0; from < BITS; from++) {
			uint32_t before = (set + BITS - 1) % BITS;
			uint64_t map[WORDS] = {0};

			map[set / 64] |= UINT64_C(1) << set % 64;
			cr_assert_eq(lend_bits_distance(map, WORDS, from),
				     (set + BITS - from) % BITS);
			map[before / 64] |= UINT64_C(1) << before % 64;
			cr_assert_eq(lend_bits_distance(map, WORDS, from),
				     from == set ? 0 : (before + BITS - from) % BITS);
		}
}

Test(bits, a_short_copy_takes_each_byte_and_no_other)
{
	enum { LONGEST = 140, ROOM = LONGEST + 2 };

	for (uint32_t len = 0; len <= LONGEST; len++) {
		uint8_t to[ROOM] = {0}, *from = malloc(len ? len : 1);

		cr_assert(from);
		for (uint32_t i = 0; i < len; i++)
			from[i] = (uint8_t)(i + 1);
		lend_copy_short(to + 1, from, len);
		cr_assert_eq(memcmp(to + 1, from, len), 0, "%u bytes", len);
		cr_assert_eq(to[0] | to[len + 1], 0, "%u bytes", len);
		free(from);
	}
}

Test(bits, equal_looks_at_every_byte)
{
	uint8_t a[16] = {0}, b[16] = {0};

	cr_assert(lend_equal_ct(a, b, 0));
	cr_assert(lend_equal_ct(a, b, 16));
	for (int i = 0; i < 16; i++) {
		b[i] = 0x80;
		cr_assert(!lend_equal_ct(a, b, 16), "byte %d", i);
		cr_assert(lend_equal_ct(a, b, (size_t)i), "byte %d", i);
		b[i] = 0;
	}
}
