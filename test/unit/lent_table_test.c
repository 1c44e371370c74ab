/* Goal: a reference to lent memory is valid from its add to its end, for its own range, and never
 * again. Method: a table of ranges, every flipped bit, and seeds against a list of all references
 * ever made. A second process that reads in place gets the bytes of that entry, or finds that it
 * ended. Method: reads in steps, with ends, other loans and stores between any two of them.
 * Covers: src/wire/lent_table.c */
#include <criterion/criterion.h>
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
			cr_assert_eq(at, row[i].offset);
	}
	cr_assert_eq(lend_memref_slice(&ref, 40, 20, LEND_RIGHT_READ, &slice), 0);
	cr_assert_eq(check(&slice, 5, 15, &at), LEND_MEM_OK);
	cr_assert_eq(at, 45);
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
	cr_assert(want != LEND_MEM_OK || at == offset);
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

/* Bytes that are lent in place: those of loan n are all n. Every loan writes over earlier ones. */
enum { MEMORY = 64, PLACES = 4, PLACE = MEMORY / PLACES, LOANS = 16 };
static struct {
	uint8_t memory[MEMORY];
	struct lend_memref ref[LOANS];
	uint32_t place[LOANS], n; /* place PLACES: not in the memory yet */
	bool live[LOANS], used[PLACES];
} owner;

static void owner_lends(struct lend_rng *rng)
{
	uint32_t place = (uint32_t)lend_rng_below(rng, PLACES), n = owner.n;

	if (n == LOANS || owner.used[place])
		return;
	owner.n++;
	memset(owner.memory + place * PLACE, (int)n, PLACE);
	owner.used[place] = owner.live[n] = true;
	owner.place[n] = place;
	owner.ref[n] = add((uint64_t)place * PLACE, PLACE);
}

static void owner_ends(struct lend_rng *rng)
{
	uint32_t n = owner.n ? (uint32_t)lend_rng_below(rng, owner.n) : 0;

	if (!owner.live[n])
		return;
	cr_assert(lend_lent_end(&table, owner.ref[n].slot, owner.ref[n].serial));
	owner.live[n] = false;
	owner.used[owner.place[n]] = false;
}

static void owner_steps(struct lend_rng *rng)
{
	for (uint64_t i = lend_rng_below(rng, 3); i; i--)
		if (lend_rng_below(rng, 2))
			owner_lends(rng);
		else
			owner_ends(rng);
}

/* Reads a loan in steps. Returns whether the read was OK; *right: so are the bytes. */
static bool read_in_steps(uint32_t n, struct lend_rng *rng, bool *right)
{
	const struct lend_memref *ref = &owner.ref[n];
	uint64_t first, at;
	struct lend_lent_entry copy;

	lend_lent_copy(&entry[ref->slot], &copy);
	owner_steps(rng);
	*right = true;
	if (lend_lent_check(&copy, ref, 0, PLACE, &first) != LEND_MEM_OK ||
	    !lend_lent_inside(&copy, MEMORY))
		return false;
	at = atomic_load(&copy.at) + first;
	for (uint32_t i = 0; i < PLACE; i++) {
		*right &= owner.memory[at + i] == n;
		if (i % 4 == 0)
			owner_steps(rng);
	}
	return lend_lent_intact(&entry[ref->slot], ref->serial);
}

Test(lent_table, read_in_place__owner_goes_on__never_torn, .init = init)
{
	uint32_t fine = 0, torn = 0;

	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct lend_rng rng;
		bool right, ok;

		memset(entry, 0, sizeof(entry[0]) * LOANS);
		memset(&owner, 0, sizeof(owner));
		init();
		lend_rng_seed(&rng, seed);
		while (!owner.n)
			owner_lends(&rng);
		owner_steps(&rng);
		ok = read_in_steps((uint32_t)lend_rng_below(&rng, owner.n), &rng, &right);
		cr_assert(!ok || right, "seed %lu", (unsigned long)seed);
		fine += ok;
		torn += !right;
	}
	cr_assert(fine > 100 && torn > 100, "%u read, %u overwritten", fine, torn);
}

Test(lent_table, place__table, .init = init)
{
	static const struct {
		uint64_t at, len;
		bool want;
	} row[] = {
	    {0, 100, true},          {0, 101, false},
	    {100, 0, true},          {99, 1, true},
	    {99, 2, false},          {101, 0, false},
	    {UINT64_MAX, 0, false},  {UINT64_MAX - 9, 100, false},
	    {10, UINT64_MAX, false}, {LEND_LENT_NOWHERE, 1, false},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_lent_entry copy = {.at = row[i].at, .len = row[i].len};

		cr_assert_eq(lend_lent_inside(&copy, 100), row[i].want, "row %zu", i);
	}
}

Test(lent_table, move__bytes_get_a_place__reader_sees_it, .init = init)
{
	struct lend_memref ref = add(LEND_LENT_NOWHERE, 10);
	struct lend_lent_entry copy;

	lend_lent_copy(&entry[ref.slot], &copy);
	cr_assert_not(lend_lent_inside(&copy, MEMORY));
	lend_lent_move(&entry[ref.slot], 20);
	lend_lent_copy(&entry[ref.slot], &copy);
	cr_assert(lend_lent_inside(&copy, MEMORY));
	cr_assert_eq(atomic_load(&copy.at), 20);
	cr_assert(lend_lent_intact(&entry[ref.slot], ref.serial));
}
