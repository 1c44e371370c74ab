/* Goal: the model's versions of ranges equal the bytes that were written, through any writes and
 * slices, and one wrong byte is found at its offset.
 * Method: the same history on plain arrays, under seeds.
 * Covers: test/sim/memory/mem_bytes.c */
#include "sim/memory/mem_bytes.h"

#include <criterion/criterion.h>
#include <string.h>

#include "util/rng.h"

enum { LEN = 3000, WRITES = 12 };

static struct lend_rng rng;

static uint64_t draw_below(uint64_t n)
{
	return lend_rng_below(&rng, n);
}

/* Writes to both. Sometimes the model has more ranges than it can hold. */
static void write_both(struct mem_view *v, uint8_t *bytes, uint32_t writes, uint32_t client)
{
	for (uint32_t i = 0; i < writes; i++) {
		uint64_t offset = draw_below(v->len + 1), len = draw_below(v->len - offset + 1);
		uint64_t version = mem_version(client, 3, i + 1);

		mem_view_write(v, offset, len, version);
		mem_fill(bytes + offset, version, 0, len);
	}
}

Test(mem_bytes, view__equals_the_written_bytes)
{
	static uint8_t bytes[LEN], part[LEN];
	struct mem_view v, cut;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t offset, len, at;

		lend_rng_seed(&rng, seed);
		memset(bytes, 0, sizeof(bytes));
		mem_view_zero(&v, draw_below(LEN + 1));
		write_both(&v, bytes, (uint32_t)draw_below(WRITES), 1);
		cr_assert(!v.blurred);
		offset = draw_below(v.len + 1);
		len = draw_below(v.len - offset + 1);
		cr_assert_eq(mem_view_match(&v, offset, bytes + offset, len), len, "seed %llu",
			     (unsigned long long)seed);
		mem_view_slice(&cut, &v, offset, len);
		memcpy(part, bytes + offset, len);
		write_both(&cut, part, (uint32_t)draw_below(3), 2);
		cr_assert_eq(mem_view_match(&cut, 0, part, len), len, "seed %llu",
			     (unsigned long long)seed);
		cr_assert_eq(mem_view_match(&v, 0, bytes, v.len), v.len, "the source is unchanged");
		if (!len)
			continue;
		at = draw_below(len);
		part[at] ^= (uint8_t)(1 + draw_below(255));
		cr_assert_eq(mem_view_match(&cut, 0, part, len), at, "seed %llu",
			     (unsigned long long)seed);
	}
}

Test(mem_bytes, too_many_extents__unknown_content)
{
	static uint8_t bytes[LEN];
	struct mem_view v;

	mem_view_zero(&v, LEN);
	for (uint32_t i = 0; i < MEM_EXTENTS / 2; i++)
		mem_view_write(&v, 10 * i + 5, 2, mem_version(1, 0, i + 1));
	cr_assert(v.blurred);
	cr_assert_eq(mem_view_match(&v, 0, bytes, LEN), LEN);
}

Test(mem_bytes, foreign_bytes__name_their_origin)
{
	uint8_t bytes[64];
	uint64_t version, at;

	lend_rng_seed(&rng, 1);
	for (int i = 0; i < 200; i++) {
		uint64_t from = draw_below(100000),
			 want = mem_version(1 + (uint32_t)draw_below(65535), 2, 77);

		mem_fill(bytes, want, from, sizeof(bytes));
		cr_assert(mem_foreign(bytes, sizeof(bytes), &version, &at));
		cr_assert_eq(version, want);
		cr_assert_eq(at, from);
	}
	memset(bytes, 0, sizeof(bytes));
	cr_assert(!mem_foreign(bytes, sizeof(bytes), &version, &at), "zeros belong to no client");
}
