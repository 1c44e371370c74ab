/* Goal: recovery refuses an arena of another config, with the reason, and a damaged one. Any other
 * arena continues with every byte, hold and ledger, even if a client was just ending when the node
 * was killed. Method: each field of config and layout changed in turn; each kind of damage that is
 * checked for; random histories under seeds, some with a client that is half ended. Covers:
 * mn/store/recover.c, mn/store/layout.c, mn/store/undo_log.h */
#include <stddef.h>

#include "mn/store/recover.h"
#include "mn/store/store.h"
#include "unit/storekit.h"
#include "util/rng.h"

enum { PAGES = 64, FAR = 1000000000, CLIENTS = 4, REFS = 12 };

static const struct lend_memterms shared = {LEND_TERMS_SHARED, CLIENTS, FAR};

static const char *find_mismatch(const struct kit *k, const struct lend_store_config *config)
{
	return lend_store_mismatch(k->store, k->size, config);
}

Test(store_recover, config_must_match)
{
	struct kit *k = kit_open(PAGES, 1);
	struct lend_store_config c = k->config;
	uint32_t *const sizes[] = {&c.objects,      &c.holds,      &c.grants, &c.clients,
				   &c.incarnations, &c.placements, &c.open};

	cr_assert_null(find_mismatch(k, &c));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		(*sizes[i])--;
		cr_expect_str_eq(find_mismatch(k, &c),
				 "its size or number of clients was different", "size %zu", i);
		c = k->config;
	}
	c.page *= 2;
	cr_expect_str_eq(find_mismatch(k, &c), "its page size was different");
	c = k->config;
	c.node = 0; /* any node number */
	cr_expect_null(find_mismatch(k, &c));
	c.node = 12;
	cr_expect_str_eq(find_mismatch(k, &c), "it is of another node");
	c = k->config;
	c.worker = 1;
	cr_expect_str_eq(find_mismatch(k, &c), "it is of another node");
	c = k->config;
	c.workers = 4;
	cr_expect_str_eq(find_mismatch(k, &c), "it is of another node");
	cr_expect_str_eq(lend_store_mismatch(k->store, 8, &k->config),
			 "it was written by another version");
	cr_expect_str_eq(lend_store_mismatch(k->store, k->size - 1, &k->config),
			 "its size or number of clients was different");
	kit_close(k);
}

Test(store_recover, layout_must_match)
{
#define FIELD(name) offsetof(struct lend_store, name)
#define TABLE(name) FIELD(name.at), FIELD(name.cap)
	static const size_t field[] = {
	    FIELD(layout),       FIELD(size),           FIELD(node_refs), FIELD(sums),
	    FIELD(hold_buckets), FIELD(client_buckets), FIELD(heap),      FIELD(records),
	    FIELD(undo),         FIELD(tenants),        FIELD(hold_mask), FIELD(client_mask),
	    FIELD(undo_cap),     TABLE(frame),          TABLE(node),      TABLE(object),
	    TABLE(hold),         TABLE(grant),          TABLE(client),    TABLE(incarnation),
	    TABLE(placement),    TABLE(mapper)};
	struct kit *k = kit_open(PAGES, 1);

	for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++) {
		uint8_t *byte = (uint8_t *)k->store + field[i];

		*byte ^= 64;
		cr_expect(find_mismatch(k, &k->config), "field %zu", i);
		*byte ^= 64;
	}
	k->store->hold.top = k->store->hold.cap + 1;
	cr_expect(find_mismatch(k, &k->config));
	k->store->hold.top = 0;
	k->store->undo_n = k->store->undo_cap + 1;
	cr_expect(find_mismatch(k, &k->config));
	k->store->undo_n = 0;
	cr_expect_null(find_mismatch(k, &k->config));
	kit_close(k);
}

static const char *recover_store(struct kit *k)
{
	return lend_store_recover(k->store, &k->config, k->pages, k->now);
}

/* The undo log names an address outside of the arena. */
static void expect_bad_note(uint64_t at)
{
	struct kit *k = kit_open(PAGES, 1);

	memcpy(lend_at(k->store, k->store->undo), &at, sizeof(at));
	k->store->undo_n = 1;
	cr_expect_str_eq(recover_store(k), "the record of its last operation is damaged");
	free(k->store);
	free(k->pages);
	free(k->scratch);
	free(k);
}

/* DAMAGE is done to the only object's page table, which has two levels. */
enum damage { HEIGHT, ROOT, CHILD, FRAME, DAMAGES };

static void expect_bad_tree(enum damage damage)
{
	static uint8_t bytes[70 * LEND_MEM_PAGE];
	struct kit *k = kit_open(2 * PAGES, 1);
	struct client a = {.number = 0};
	struct lend_memref ref;
	struct lend_object *o = lend_object_at(k->store, 1);
	struct lend_node *root;

	cr_assert_eq(kit_hello(k, &a, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_put(k, &a, bytes, sizeof(bytes), kit_owned, &ref), LEND_MEM_OK);
	cr_assert_eq(o->height, 2);
	root = lend_node_at(k->store, o->root);
	if (damage == HEIGHT)
		o->height = LEND_HEIGHT_MAX + 1;
	else if (damage == ROOT)
		o->root = k->store->node.top + 1;
	else if (damage == CHILD)
		root->child[1] = k->store->node.top + 1;
	else
		lend_node_at(k->store, root->child[0])->child[2] = k->store->frame.top + 1;
	cr_expect_str_eq(recover_store(k), "its page tables are damaged", "damage %d", (int)damage);
	free(k->store);
	free(k->pages);
	free(k->scratch);
	free(k);
}

Test(store_recover, damage_is_seen)
{
	expect_bad_note(0);
	expect_bad_note(UINT64_MAX);
	for (enum damage d = 0; d < DAMAGES; d++)
		expect_bad_tree(d);
}

struct world {
	struct kit *k;
	struct client client[CLIENTS];
	struct lend_rng rng;
	struct lend_memref ref[REFS];
	uint8_t byte[REFS];
	bool holds[REFS][CLIENTS];
	struct lend_memspace space[CLIENTS];
	uint32_t gone; /* the client that is half ended; CLIENTS: none */
};

static struct client *set_tenant(struct world *w, uint32_t client)
{
	w->k->tenant = w->k->config.tenants > 1 ? client : 0;
	return &w->client[client];
}

static void make_world(struct world *w, uint64_t seed)
{
	uint8_t bytes[3 * LEND_MEM_PAGE];

	lend_rng_seed(&w->rng, seed);
	w->k->config.quarantine = seed % 2 ? FAR : 0;
	w->k->config.tenants = seed % 3 ? 1 : CLIENTS;
	lend_store_init(w->k->store, &w->k->config, w->k->pages, w->k->now);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		cr_assert_eq(kit_hello(w->k, set_tenant(w, i), i, i + 1), LEND_MEM_OK);
		cr_assert_eq(kit_alloc(w->k, set_tenant(w, i), 2 * LEND_MEM_PAGE, &w->space[i]), 0);
	}
	for (uint32_t i = 0; i < REFS; i++) {
		uint32_t by = (uint32_t)lend_rng_below(&w->rng, CLIENTS);
		size_t len = 1 + lend_rng_below(&w->rng, sizeof(bytes));
		bool give = lend_rng_below(&w->rng, 2);

		memset(bytes, w->byte[i] = (uint8_t)(i + seed), sizeof(bytes));
		cr_assert_eq(kit_put(w->k, set_tenant(w, by), bytes, len, give ? shared : kit_owned,
				     &w->ref[i]),
			     LEND_MEM_OK);
		w->holds[i][by] = true;
	}
	for (uint32_t i = 0; i < REFS; i += 3) /* so that there are free entries in between */
		for (uint32_t c = 0; c < CLIENTS; c++)
			if (w->holds[i][c] && lend_rng_below(&w->rng, 2)) {
				cr_assert_eq(kit_release(w->k, set_tenant(w, c), &w->ref[i]), 0);
				w->holds[i][c] = false;
			}
}

static void expect_world(struct world *w, uint64_t seed)
{
	uint8_t bytes[1];

	for (uint32_t c = 0; c < CLIENTS; c++) {
		enum lend_mem_status want = c == w->gone ? LEND_MEM_ABORTED : LEND_MEM_OK;

		for (uint32_t i = 0; i < REFS; i++) {
			if (!w->holds[i][c])
				continue;
			cr_assert_eq(kit_get(w->k, set_tenant(w, c), &w->ref[i], 0, 1, bytes), want,
				     "seed %llu", (unsigned long long)seed);
			cr_assert(want || bytes[0] == w->byte[i]);
		}
		cr_assert_eq(kit_space_op(w->k, set_tenant(w, c), LEND_MEMOP_READ, &w->space[c], 0,
					  1, bytes),
			     want);
	}
}

/* No page was lost: an object of all pages fits, once the freed ones have left quarantine. */
static void expect_room(struct world *w)
{
	static uint8_t bytes[PAGES * LEND_MEM_PAGE];
	struct client last = {.number = 0};
	struct lend_memref ref;

	for (uint32_t c = 0; c < CLIENTS; c++)
		lend_store_hangup(w->k->store, w->client[c].life);
	w->k->now += FAR; /* longer than any grant */
	cr_assert_eq(kit_hello(w->k, &last, 9, 1), LEND_MEM_OK);
	for (int i = 0; i < 4; i++) {
		lend_store_tick(w->k->store, w->k->now);
		w->k->now += FAR;
	}
	cr_assert_eq(kit_hello(w->k, &last, 9, 1), LEND_MEM_OK);
	cr_assert_eq(kit_put(w->k, &last, bytes, sizeof(bytes), kit_owned, &ref), LEND_MEM_OK);
}

static void run_history(uint64_t seed)
{
	struct world w = {.k = kit_open(PAGES, 1), .gone = CLIENTS};
	struct lend_memstats before, after;

	make_world(&w, seed);
	if (seed % 5 == 0) {
		w.gone = (uint32_t)(seed / 5 % CLIENTS);
		for (uint32_t i = 1; i <= w.k->store->client.top; i++)
			if (lend_client_at(w.k->store, i)->number == w.gone + 1)
				lend_client_at(w.k->store, i)->live = 0;
	}
	before = kit_stats(w.k);
	cr_assert_null(recover_store(w.k));
	kit_audit(w.k);
	after = kit_stats(w.k);
	if (w.gone == CLIENTS) {
		cr_assert_eq(after.pages_used, before.pages_used);
		cr_assert_eq(after.refs, before.refs);
		cr_assert_eq(after.holds, before.holds);
	} else {
		cr_assert_eq(after.clients, CLIENTS - 1);
		cr_assert_eq(after.spaces, CLIENTS - 1);
	}
	expect_world(&w, seed);
	expect_room(&w);
	kit_close(w.k);
}

Test(store_recover, recover__valid_arena__continues)
{
	for (uint64_t seed = 1; seed <= 60; seed++)
		run_history(seed);
}
