/* Goal: the listing for the operator matches the store's content, comes in bounded steps, and
 * tolerates changes between steps. Evicted objects are gone for every holder, with exact ledgers.
 * Method: a table of objects and clients, then random histories next to a separate count. Covers:
 * mn/store/admin_list.c */
#include "mn/store/admin_list.h"
#include "unit/storekit.h"
#include "util/rng.h"

enum { FAR = 1000000000 };

static uint32_t list_all(struct kit *k, struct lend_list_object *out, uint32_t step)
{
	uint32_t slot = 0, n = 0;

	do
		n += lend_store_list(k->store, &slot, out + n, step);
	while (slot);
	return n;
}

Test(store_admin_list, objects_and_clients)
{
	static const struct lend_memterms shared = {LEND_TERMS_SHARED, 2, FAR};
	static const struct lend_memterms given = {LEND_TERMS_TRANSFER, 0, FAR};
	struct kit *k = kit_open(64, 1);
	struct lend_list_object o[8];
	struct lend_list_client *c = calloc(k->config.clients + 1, sizeof(*c));
	struct client a = {.number = 0}, b = {.number = 0};
	struct lend_memref one, two;
	struct lend_memspace space;
	uint32_t at = 0, slot = 0;
	uint8_t bytes[5000] = {1};

	cr_assert_eq(list_all(k, o, 8), 0);
	cr_assert_eq(kit_hello(k, &a, 7, 1), LEND_MEM_OK);
	cr_assert_eq(kit_hello(k, &b, 8, 1), LEND_MEM_OK);
	cr_assert_eq(kit_put(k, &a, bytes, 5000, shared, &one), LEND_MEM_OK);
	cr_assert_eq(kit_put(k, &a, bytes, 10, given, &two), LEND_MEM_OK);
	cr_assert_eq(kit_alloc(k, &b, 300, &space), LEND_MEM_OK);

	cr_assert_eq(lend_store_list(k->store, &slot, o, 1), 1, "no more than asked for");
	cr_assert_neq(slot, 0);
	for (uint32_t step = 1; step <= 8; step++)
		cr_assert_eq(list_all(k, o, step), 3);
	cr_assert(!o[0].is_space && o[0].serial == one.serial && o[0].len == 5000);
	cr_assert(o[0].holds == 1 && o[0].grants == 1 && o[0].expires == LEND_NEVER);
	cr_assert(o[1].holds == 0 && o[1].grants == 1 && o[1].expires == k->now + FAR);
	cr_assert(o[2].is_space && o[2].number == 1 && o[2].owner[0] == 8 && o[2].len == 300);
	do
		lend_store_list_clients(k->store, k->now, &at, c);
	while (at);
	cr_assert(c[1].life && c[1].holds == 1 && c[1].spaces == 0 && c[1].bytes == 5000);
	cr_assert(c[2].life && c[2].holds == 0 && c[2].spaces == 1 && c[2].bytes == 300);
	cr_assert(c[1].process[0] == 7 && c[1].lease == k->config.lease && !c[3].life);

	cr_assert_not(lend_store_evict(k->store, o[0].slot, o[0].serial + 1), "another one");
	cr_assert_not(lend_store_evict(k->store, UINT32_MAX, 1));
	for (int i = 0; i < 3; i++)
		cr_assert(lend_store_evict(k->store, o[i].slot, o[i].serial));
	cr_assert_not(lend_store_evict(k->store, o[0].slot, o[0].serial), "it was gone");
	cr_assert_eq(kit_get(k, &a, &one, 0, 1, bytes), LEND_MEM_NOT_FOUND);
	cr_assert_eq(kit_release(k, &a, &one), LEND_MEM_NOT_FOUND);
	cr_assert_eq(kit_space_op(k, &b, LEND_MEMOP_FREE, &space, 0, 0, NULL), LEND_MEM_NOT_FOUND);
	cr_assert_eq(list_all(k, o, 8), 0);
	while (lend_store_deadline(k->store) == 0)
		lend_store_tick(k->store, k->now);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	free(c);
	kit_close(k);
}

/* More entries than one step examines: each call is bounded, and together they list all. */
Test(store_admin_list, more_than_a_step)
{
	enum { MANY = LEND_LIST_STEP + 100 };
	struct kit *k = kit_open(64, 1);
	struct lend_list_object *o = calloc(MANY + 10, sizeof(*o));
	struct lend_list_client *c = calloc(k->config.clients + 1, sizeof(*c));
	struct client a = {.number = 0}, gone = {.number = 0};
	struct lend_memop bye = {.kind = LEND_MEMOP_BYE_CLIENT};
	struct lend_memref ref[MANY];
	struct lend_memspace space;
	uint32_t slot = 0, at = 0, n = 0, calls = 0;
	uint8_t byte = 1;

	k->config.objects = k->config.holds = k->config.grants = MANY + 10;
	free(k->store);
	k->size = lend_store_size(&k->config);
	k->store = aligned_alloc(64, (k->size + 63) & ~(size_t)63);
	lend_store_init(k->store, &k->config, k->pages, k->now);
	free(k->scratch);
	k->scratch = malloc(lend_store_audit_size(k->store));
	cr_assert_eq(kit_hello(k, &gone, 8, 1), LEND_MEM_OK);
	cr_assert_eq(kit_hello(k, &a, 7, 1), LEND_MEM_OK);
	cr_assert_eq(kit_do(k, &gone, &bye, NULL), LEND_MEM_OK);
	for (uint32_t i = 0; i < MANY; i++)
		cr_assert_eq(kit_put(k, &a, &byte, i == MANY - 1, kit_owned, &ref[i]), 0);
	cr_assert_eq(kit_alloc(k, &a, 10, &space), LEND_MEM_OK);
	for (uint32_t i = 0; i < 9; i++)
		cr_assert_eq(kit_release(k, &a, &ref[i]), LEND_MEM_OK);
	do {
		uint32_t found = lend_store_list(k->store, &slot, o + n, MANY + 10 - n);

		cr_assert_leq(found, LEND_LIST_STEP);
		n += found;
		calls++;
	} while (slot);
	cr_assert(n == MANY - 9 + 1 && calls == 2, "%u in %u calls", n, calls);
	for (calls = 0; calls == 0 || at; calls++)
		lend_store_list_clients(k->store, k->now + 2 * k->config.lease, &at, c);
	cr_assert(calls > 1);
	cr_assert(c[2].life && c[2].holds == MANY - 9 && c[2].spaces == 1 && c[2].bytes == 11);
	cr_assert_eq(c[2].lease, 0, "expired without a tick");
	cr_assert(!c[1].life && !c[1].holds);
	free(o);
	free(c);
	kit_close(k);
}

/* Shared objects, evicted in any order between operations of their holders. */
static void history(uint64_t seed)
{
	struct kit *k = kit_open(64, 1);
	struct lend_list_object *o = calloc(k->config.objects, sizeof(*o));
	struct client client[4] = {{.number = 0}};
	struct lend_memref ref;
	struct lend_rng rng;
	uint8_t byte = 1;

	lend_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(kit_hello(k, &client[i], i / 2, i + 1), LEND_MEM_OK);
	for (int i = 0; i < 100; i++) {
		struct lend_memterms t = {LEND_TERMS_SHARED, 4, FAR};
		uint32_t n = list_all(k, o, 1 + (uint32_t)lend_rng_below(&rng, 9)), held = 0;

		for (uint32_t j = 0; j < n; j++)
			held += o[j].holds;
		cr_assert_eq(held, kit_stats(k).holds, "seed %llu", (unsigned long long)seed);
		cr_assert_eq(n, kit_stats(k).refs + kit_stats(k).spaces);
		if (n && lend_rng_below(&rng, 3) == 0) {
			n = (uint32_t)lend_rng_below(&rng, n);
			cr_assert(lend_store_evict(k->store, o[n].slot, o[n].serial));
			kit_audit(k);
		} else if (kit_put(k, &client[lend_rng_below(&rng, 4)], &byte, 1, t, &ref) == 0) {
			for (int w = 0; w < 4; w++)
				if (lend_rng_below(&rng, 2))
					(void)kit_ref_op(k, &client[w], LEND_MEMOP_ADOPT, &ref);
		}
	}
	free(o);
	kit_close(k);
}

Test(store_admin_list, random_evictions)
{
	for (uint64_t seed = 1; seed <= 30; seed++)
		history(seed);
}
