/* storesuite - setup and teardown of the store's tests: a store of 64 pages, clients a and b of two
 * processes; at the end everything must be free. Layer: test. */
#ifndef TEST_UNIT_STORESUITE_H
#define TEST_UNIT_STORESUITE_H

#include "teardown.h"
#include "unit/storekit.h"

#define S UINT64_C(1000000000)
KIT const struct lend_memterms transfer = {LEND_TERMS_TRANSFER, 0, 10 * S};
KIT const struct lend_memterms shared = {LEND_TERMS_SHARED, 1, 10 * S};
KIT const struct lend_memterms shared0 = {LEND_TERMS_SHARED, 0, 10 * S};

KIT uint8_t data[64 * LEND_MEM_PAGE], back[64 * LEND_MEM_PAGE];
static struct kit *k;
static struct client a, b;

KIT void setup(void)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 4096 + 1);
	k = kit_open(64, 1);
	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_hello(k, &b, 2, 1), LEND_MEM_OK);
}

KIT void kept_nothing(uint32_t tenant)
{
	struct lend_store_usage use;

	lend_store_usage(k->store, tenant, &use);
	cr_assert_eq(use.pages, 0, "tenant %u pays %llu pages", tenant,
		     (unsigned long long)use.pages);
	cr_assert_eq(use.refs, 0, "tenant %u has %u references", tenant, use.refs);
}

/* Both processes hang up. Grants end at their deadlines, and large objects are freed by steps. */
KIT void teardown(void)
{
	struct lend_memstats stats;

	lend_store_hangup(k->store, a.life);
	lend_store_hangup(k->store, b.life);
	while (kit_stats(k).grants || lend_store_deadline(k->store) == 0)
		kit_next_deadline(k);
	stats = kit_stats(k);
	cr_assert_eq(stats.pages_used, 0, "%llu pages are left",
		     (unsigned long long)stats.pages_used);
	cr_assert_eq(stats.refs + stats.spaces + stats.holds + stats.nodes_used, 0);
	cr_assert_eq(stats.clients, 0, "%llu clients are left", (unsigned long long)stats.clients);
	kept_nothing(0);
	kept_nothing(1);
	kit_close(k);
}

#define OK(x)     cr_assert_eq((x), LEND_MEM_OK)
#define IS(x, st) cr_assert_eq((x), LEND_MEM_##st)

#endif
