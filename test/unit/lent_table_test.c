/* Goal: a reference to lent memory is valid from its add to its end, for its own range, and never
 * again. Method: a table of ranges, every flipped bit, and seeds against a list of all references
 * ever made. Covers: src/wire/lent_table.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "util/rng.h"
#include "wire/lent_table.h"

static const uint8_t key[16] = "0123456789abcde";
static struct lend_lent_entry entry[LEND_LENT_MAX];
static struct lend_lent_table table;

static struct lend_memref add(uint64_t at, uint64_t len)
{
	struct lend_memref ref = {.node = 7, .epoch = 9};

	cr_assert(lend_lent_add(&table, at, len, key, &ref));
	return ref;
}

static enum lend_mem_status check(const struct lend_memref *ref, uint64_t offset, uint64_t len,
				  uint64_t *at)
{
	return lend_lent_check(&entry[ref->slot % LEND_LENT_MAX], ref, offset, len, at);
}

static void init(void)
{
	lend_lent_init(&table, entry);
}

Test(lent_table, range__by_offset_and_length__table, .init = init)
{
	static const struct {
		uint64_t offset, len;
		enum lend_mem_status want;
	} row[] = {
	    {0, 100, LEND_MEM_OK},
	    {0, 101, LEND_MEM_OUT_OF_RANGE},
	    {100, 0, LEND_MEM_OK},
	    {101, 0, LEND_MEM_OUT_OF_RANGE},
	    {99, 1, LEND_MEM_OK},
	    {99, 2, LEND_MEM_OUT_OF_RANGE},
	    {1, UINT64_MAX, LEND_MEM_OUT_OF_RANGE},
	    {UINT64_MAX, 2, LEND_MEM_OUT_OF_RANGE},
	};
	struct lend_memref ref = add(5000, 100), slice;
	uint64_t at;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_assert_eq(check(&ref, row[i].offset, row[i].len, &at), row[i].want, "row %zu",
			     i);
		if (row[i].want == LEND_MEM_OK)
			cr_assert_eq(at, 5000 + row[i].offset);
	}
	cr_assert_eq(lend_memref_slice(&ref, 40, 20, LEND_RIGHT_READ, &slice), 0);
	cr_assert_eq(check(&slice, 5, 15, &at), LEND_MEM_OK);
	cr_assert_eq(at, 5045);
	cr_assert_eq(check(&slice, 5, 16, &at), LEND_MEM_OUT_OF_RANGE);
	cr_assert_eq(lend_memref_slice(&ref, 0, 20, LEND_RIGHT_MAP, &slice), 0);
	cr_assert_eq(check(&slice, 0, 1, &at), LEND_MEM_PERMISSION_DENIED);
	/* Another entry was written over this one, except for the serial. */
	entry[ref.slot].len = 99;
	cr_assert_eq(check(&ref, 0, 1, &at), LEND_MEM_PERMISSION_DENIED);
}

Test(lent_table, reference__any_bit_flipped__refused, .init = init)
{
	uint8_t bytes[LEND_MEMREF_LEN], bad[LEND_MEMREF_LEN];
	struct lend_memref ref = add(0, 1000), got;
	uint64_t at;

	lend_memref_encode(&ref, bytes);
	for (uint32_t bit = 0; bit < LEND_MEMREF_LEN * 8; bit++) {
		memcpy(bad, bytes, sizeof(bad));
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (bit / 8 < 12) /* node, epoch, slot: the owner compares them, except here */
			continue;
		cr_assert_not(lend_memref_decode(bad, &got) &&
				  check(&got, 0, 1, &at) == LEND_MEM_OK,
			      "bit %u", bit);
	}
}

Test(lent_table, add__full_or_too_long__refused, .init = init)
{
	struct lend_memref ref = {.node = 7}, first = add(0, 1);

	cr_assert_not(lend_lent_add(&table, 0, LEND_MEMREF_ROOT_MAX + 1, key, &ref));
	for (int i = 1; i < LEND_LENT_MAX; i++)
		add(0, 1);
	cr_assert_not(lend_lent_add(&table, 0, 1, key, &ref));
	cr_assert(lend_lent_end(&table, first.slot, first.serial));
	cr_assert_not(lend_lent_end(&table, first.slot, first.serial));
	cr_assert_not(lend_lent_end(&table, first.slot, 0));
	cr_assert_not(lend_lent_end(&table, LEND_LENT_MAX + first.slot, first.serial));
	add(0, 1);
	table.serial = LEND_LENT_SERIAL_MAX;
	cr_assert(lend_lent_end(&table, first.slot, LEND_LENT_MAX + 1));
	cr_assert_not(lend_lent_add(&table, 0, 1, key, &ref));
}

/* The model: every reference ever made, and whether it was ended. */
enum { STEPS = 3000 };
static struct {
	struct lend_memref ref;
	uint64_t at, len;
	bool live;
} made[STEPS];

static void compare(uint32_t k, struct lend_rng *rng)
{
	uint64_t offset = lend_rng_below(rng, made[k].len + 3),
		 len = lend_rng_below(rng, made[k].len + 3), at = 0;
	bool inside = offset + len <= made[k].len;
	enum lend_mem_status want = !made[k].live ? LEND_MEM_NOT_FOUND
				    : inside      ? LEND_MEM_OK
						  : LEND_MEM_OUT_OF_RANGE;

	cr_assert_eq(check(&made[k].ref, offset, len, &at), want, "reference %u", k);
	cr_assert(want != LEND_MEM_OK || at == made[k].at + offset);
}

Test(lent_table, adds_and_ends__any_order__as_the_model, .init = init)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_rng rng;
		uint32_t n = 0;

		memset(entry, 0, sizeof(entry));
		init();
		lend_rng_seed(&rng, seed);
		for (int i = 0; i < STEPS; i++) {
			uint32_t k = n ? (uint32_t)lend_rng_below(&rng, n) : 0;
			uint64_t what = lend_rng_below(&rng, 3);

			if (what == 0 || !n) {
				made[n].at = lend_rng_below(&rng, 1 << 30);
				made[n].len = lend_rng_below(&rng, 100);
				made[n].live = true;
				made[n].ref = add(made[n].at, made[n].len);
				n++;
			} else if (what == 1) {
				cr_assert_eq(
				    lend_lent_end(&table, made[k].ref.slot, made[k].ref.serial),
				    made[k].live, "seed %lu", (unsigned long)seed);
				made[k].live = false;
			} else {
				compare(k, &rng);
			}
		}
		for (uint32_t k = 0; k < n; k++)
			compare(k, &rng);
	}
}
