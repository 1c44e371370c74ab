/* Goal: the cache gives the bytes that were added under exactly that name or none, keeps what is
 * asked for while others pass by, and never more than its limit.
 * Method: names that differ in one field each; a scan beside pages that are asked for; then seeds
 * against a model that knows every page that was ever added. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cn/paging/page_cache.h"
#include "lend/mem.h"
#include "util/rng.h"

enum { PAGE = CN_CACHE_PAGE };

static struct lend_mem_cache_stat stat(void)
{
	struct lend_mem_cache_stat s;

	lend_mem_cache_stat(&s);
	return s;
}

static void fill(char *page, uint64_t what)
{
	for (size_t i = 0; i < PAGE; i += 8)
		memcpy(page + i, &(uint64_t){what * 0x9e3779b97f4a7c15u + i}, 8);
}

static void add(const struct cn_cache_key *key, uint64_t what)
{
	char page[PAGE];

	fill(page, what);
	cn_cache_add(key, page);
}

/* It is there, with those bytes. */
static bool finds(const struct cn_cache_key *key, uint64_t what)
{
	char page[PAGE], want[PAGE];
	bool has = cn_cache_has(key);

	fill(want, what);
	cr_assert_eq(cn_cache_find(key, page), has);
	cr_assert(!has || !memcmp(page, want, PAGE));
	return has;
}

Test(cache, a_name_is_all_of_its_fields)
{
	const struct cn_cache_key base = {
	    .serial = 7, .offset = 4096, .node = 1, .epoch = 2, .slot = 3, .len = 4096};
	struct cn_cache_key key[7] = {base, base, base, base, base, base, base};

	key[1].serial++;
	key[2].offset++;
	key[3].node++;
	key[4].epoch++;
	key[5].slot++;
	key[6].len--;
	cr_assert_eq(lend_mem_cache_limit(100 * PAGE), 0);
	for (uint64_t i = 0; i < 7; i++) {
		cr_assert_not(finds(&key[i], i), "%llu", (unsigned long long)i);
		add(&key[i], i);
	}
	for (uint64_t i = 0; i < 7; i++)
		cr_assert(finds(&key[i], i), "%llu", (unsigned long long)i);
	add(&key[0], 99); /* a page never changes: the first stays */
	cr_assert(finds(&key[0], 0));
	cr_assert_eq(stat().pages_used, 7);
	cr_assert_eq(lend_mem_cache_limit(100 * PAGE), 0);
	cr_assert_not(finds(&key[0], 0), "a new limit begins empty");
}

Test(cache, what_is_asked_for_outlives_a_scan)
{
	struct cn_cache_key key = {.serial = 1, .len = PAGE};

	cr_assert_eq(lend_mem_cache_limit(8 * PAGE), 0);
	add(&key, 0);
	for (uint64_t i = 1; i < 1000; i++) {
		key.offset = i * PAGE;
		add(&key, i);
		key.offset = 0;
		cr_assert(finds(&key, 0), "after %llu others", (unsigned long long)i);
	}
	cr_assert_eq(stat().pages_used, 8);
	cr_assert_eq(stat().evictions, 1000 - 8);
}

Test(cache, limits)
{
	struct cn_cache_key key = {.serial = 1, .len = PAGE};

	cr_assert_eq(lend_mem_cache_limit(PAGE - 1), 0);
	add(&key, 0);
	cr_assert_not(finds(&key, 0));
	cr_assert_eq(lend_mem_cache_limit(PAGE), 0);
	add(&key, 0);
	cr_assert(finds(&key, 0));
	key.offset++;
	add(&key, 1);
	cr_assert(finds(&key, 1));
	cr_assert_eq(stat().pages_used, 1);
	cr_assert_lt(lend_mem_cache_limit((UINT64_C(1) << 40) + 1), 0);
	cr_assert(finds(&key, 1), "what failed changed nothing");
}

Test(cache, seeds)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t pages = 1 + seed * seed % 60, hits = 0, before;
		struct lend_rng rng;

		lend_rng_seed(&rng, seed);
		cr_assert_eq(lend_mem_cache_limit(pages * PAGE), 0);
		before = stat().hits;
		for (int i = 0; i < 3000; i++) {
			uint64_t what = lend_rng_below(&rng, 100);
			struct cn_cache_key key = {
			    .serial = what / 10, .offset = what % 10 * 4096, .len = PAGE};

			if (lend_rng_below(&rng, 2))
				add(&key, what);
			else
				hits += finds(&key, what);
			cr_assert_leq(stat().pages_used, pages, "seed %llu",
				      (unsigned long long)seed);
		}
		cr_assert_eq(stat().hits - before, hits, "seed %llu", (unsigned long long)seed);
		cr_assert_gt(hits, 0);
	}
}
