/* Goal: the page cache returns the bytes that were added under exactly this key, or nothing. It
 * keeps pages that are used again while a scan passes through, and never exceeds its limit. Method:
 * keys that differ in one field each; a scan next to pages that are used again; then seeds against
 * a model of every page that was added. Covers: cn/paging/page_cache.c */
#include <criterion/criterion.h>
#include <string.h>

#include "cn/paging/page_cache.h"
#include "lend/mem.h"
#include "util/rng.h"

enum { PAGE = CN_CACHE_PAGE };

static struct lend_mem_cache_stat stat(void)
{
	struct lend_mem_cache_stat s;

	lend_mem_cache_stat_get(&s);
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

/* True: the page is cached, with these bytes. */
static bool finds(const struct cn_cache_key *key, uint64_t what)
{
	char page[PAGE], want[PAGE];
	bool has = cn_cache_has(key);

	fill(want, what);
	cr_assert_eq(cn_cache_find(key, page), has);
	cr_assert(!has || !memcmp(page, want, PAGE));
	return has;
}

Test(page_cache, find__one_key_field_differs__misses)
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
	add(&key[0], 99); /* a page never changes: the first copy stays */
	cr_assert(finds(&key[0], 0));
	cr_assert_eq(stat().pages_used, 7);
	cr_assert_eq(lend_mem_cache_limit(100 * PAGE), 0);
	cr_assert_not(finds(&key[0], 0), "a new limit begins empty");
}

Test(page_cache, add__scan_passes__used_pages_stay)
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

Test(page_cache, limits)
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
	cr_assert(finds(&key, 1), "a failed add changes nothing");
}

Test(page_cache, seeds)
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
