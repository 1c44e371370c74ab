/* Goal: the heap notifies its watchers of each region that is mapped or unmapped, finds the
 * watchers' keys of a region, and keeps referenced regions mapped. Method: watchers that keep their
 * own list, which is compared with the heap's. Covers: src/alloc/region.c, src/alloc/alloc.c */
#include <criterion/criterion.h>

#include <errno.h>

#include "alloc/region.h"
#include "lend/alloc.h"

#define MIB ((size_t)1 << 20)

static size_t mapped_bytes(void)
{
	struct lend_alloc_stat stat;

	lend_alloc_stat_get(&stat);
	return stat.mapped;
}

/* A device that gives a key to some of the regions. */
struct device {
	int regions, refuse;
	size_t len;
	uint64_t next;
};

static int on_grow(void *arg, void *memory, size_t len, uint64_t *key)
{
	struct device *d = arg;

	cr_assert((uintptr_t)memory % (2 * MIB) == 0 && len % (2 * MIB) == 0);
	if (d->refuse)
		return -ENOMEM;
	d->regions++;
	d->len += len;
	*key = ++d->next << 32 | (uint32_t)((uintptr_t)memory >> 21);
	return 0;
}

static void on_shrink(void *arg, void *memory, size_t len, uint64_t key)
{
	struct device *d = arg;

	cr_assert_eq((uint32_t)key, (uint32_t)((uintptr_t)memory >> 21));
	d->regions--;
	d->len -= len;
}

static int watch_with(struct device *d)
{
	return lend_alloc_watch_add(&(struct lend_alloc_watch){on_grow, on_shrink, d});
}

Test(alloc_watch, watch__regions_come_and_go__keys_are_found)
{
	struct device one = {0}, two = {0}, deaf = {.refuse = 1};
	void *before = lend_malloc(64), *after;
	int w1 = watch_with(&one), w2 = watch_with(&two), w3 = watch_with(&deaf);
	uint64_t k1, k2, k3;

	cr_assert_eq(one.regions, 1);
	after = lend_malloc(10 * MIB);
	cr_assert_eq(one.regions, 2);
	cr_assert_eq(one.len, mapped_bytes());
	cr_assert(lend_alloc_key(w1, before, &k1) && lend_alloc_key(w2, before, &k2));
	cr_assert_eq(k1, k2);
	cr_assert(lend_alloc_key(w1, (char *)after + 10 * MIB - 1, &k3));
	cr_assert_eq(k3 >> 32, 2);
	cr_assert(!lend_alloc_key(w3, before, &k3) && !lend_alloc_key(w1, &k1, &k3));
	cr_assert(!lend_alloc_key(w1, NULL, &k3) && !lend_alloc_key(w1, (void *)-1, &k3));
	lend_alloc_watch_remove(w2);
	cr_assert_eq(two.regions, 0);
	cr_assert(!lend_alloc_key(w2, before, &k2));
	lend_free(before);
	lend_free(after);
	lend_alloc_trim();
	cr_assert_eq(one.regions, 0);
	cr_assert_eq(one.len, 0);
	for (int i = 0; i < LEND_REGION_WATCHERS - 2; i++)
		cr_assert_geq(watch_with(&two), 0);
	cr_assert_eq(watch_with(&two), -ENOSPC);
}

static void count_bytes(void *arg, void *memory, size_t len)
{
	(void)memory;
	*(size_t *)arg += len;
}

Test(alloc_watch, hold__freed_region__stays_mapped)
{
	uint64_t seen = 0;
	size_t told = 0;
	void *p = lend_malloc(3 * MIB), *q;

	lend_regions_ref(&seen, count_bytes, &told);
	cr_assert_eq(told, mapped_bytes());
	q = lend_malloc(100 * MIB);
	lend_regions_ref(&seen, count_bytes, &told);
	cr_assert_eq(told, mapped_bytes());
	lend_regions_ref(&seen, count_bytes, &told);
	cr_assert_eq(told, mapped_bytes());
	lend_free(p);
	lend_free(q);
	q = lend_malloc(200 * MIB); /* without a reference */
	lend_free(q);
	lend_alloc_trim();
	cr_assert_eq(told, mapped_bytes());
	lend_regions_unref(seen);
	lend_alloc_trim();
	cr_assert_eq(mapped_bytes(), 0);
}
