/* Goal: a view that a process maps keeps the bytes of that moment, until the process reports the
 * unmap or its socket closes, whatever happens to spaces, snapshots, clients and leases. Method:
 * random histories of several processes; the bytes of every view are kept and compared after each
 * operation, read where a mapping would read them; audits, and an empty store at the end. LEND_SEED
 * replays one history. Covers: mn/store/pinned_map.c, mn/store/space.c, mn/store/cow.c */
#include <stdlib.h>

#include "unit/pinkit.h"
#include "util/rng.h"

enum { CLIENTS = 3, VIEWS = 12, REFS = 8, STEPS = 400, SEEDS = 60, PAGES_MAX = 9 };

/* A mapped view: the bytes it had when the node described it. */
struct told {
	bool live;
	uint32_t client; /* the process with the key that it needs */
	uint64_t key;
	struct lend_memview view;
	uint8_t byte[PAGES_MAX];
};
struct world {
	struct kit *k;
	struct lend_rng rng;
	uint64_t seed, keys;
	struct client client[CLIENTS];
	uint64_t key[CLIENTS]; /* keys of the processes' sockets */
	struct {
		bool live;
		uint32_t client,
		    told; /* the process that maps it; the entry of its view, or VIEWS */
		uint64_t pages;
		struct lend_memspace space;
	} space[VIEWS];
	struct told told[VIEWS];
	struct lend_memref ref[REFS];
	uint32_t refs;
};

static uint32_t draw_below(struct world *w, uint32_t n)
{
	return (uint32_t)lend_rng_below(&w->rng, n);
}

static void send_hello(struct world *w, uint32_t i)
{
	(void)kit_hello(w->k, &w->client[i], 10 + i, 1);
	if (!w->key[i])
		w->key[i] = ++w->keys;
	(void)lend_store_pool_open(w->k->store, w->key[i]);
}

static void check_views(struct world *w)
{
	for (uint32_t i = 0; i < VIEWS; i++)
		for (uint32_t p = 0; w->told[i].live && p < w->told[i].view.pages; p++)
			cr_assert_eq(pinned_seen(w->k, &w->told[i].view, p), w->told[i].byte[p],
				     "seed %llu: view %u shows another page %u",
				     (unsigned long long)w->seed, i, p);
}

/* The reply's view, which must show the space's bytes. */
static uint32_t learn_view(struct world *w, uint32_t client, uint32_t at)
{
	uint32_t i = 0;

	while (i < VIEWS && w->told[i].live)
		i++;
	cr_assert_lt(i, VIEWS);
	w->told[i] = (struct told){
	    .live = true, .client = client, .key = w->key[client], .view = pinned_view(w->k, at)};
	for (uint32_t p = 0; p < w->told[i].view.pages; p++)
		w->told[i].byte[p] = pinned_seen(w->k, &w->told[i].view, p);
	return i;
}

static void forget_spaces(struct world *w, uint32_t client)
{
	for (uint32_t i = 0; i < VIEWS; i++)
		if (w->space[i].client == client)
			w->space[i].live = false; /* its views stay mapped */
}

static void some_put(struct world *w, uint32_t client)
{
	static uint8_t data[PAGES_MAX * PAGE];
	uint32_t pages = 1 + draw_below(w, PAGES_MAX);

	for (uint32_t i = 0; i < pages; i++)
		memset(data + i * PAGE, 1 + (int)draw_below(w, 255), PAGE);
	if (kit_put(w->k, &w->client[client], data, pages * PAGE, kit_owned,
		    &w->ref[w->refs % REFS]) == LEND_MEM_OK)
		w->refs++;
}

static void some_map(struct world *w, uint32_t client, uint32_t i)
{
	const struct lend_memref *ref = &w->ref[draw_below(w, REFS)];
	struct lend_memop op = {.kind = LEND_MEMOP_POOL_MAP, .ref = *ref, .target = w->key[client]};
	uint32_t told = 0;

	for (uint32_t t = 0; t < VIEWS; t++)
		told += w->told[t].live;
	if (!w->refs || told > VIEWS - 2 || w->space[i].live ||
	    kit_do(w->k, &w->client[client], &op, NULL) != LEND_MEM_OK)
		return;
	w->space[i].live = true;
	w->space[i].client = client;
	lend_memspace_decode(w->k->out.head, 16, &w->space[i].space);
	w->space[i].told = learn_view(w, client, 24);
	w->space[i].pages = w->told[w->space[i].told].view.pages;
}

static void some_write(struct world *w, uint32_t i)
{
	uint8_t data[2 * PAGE];
	uint64_t len = 1 + draw_below(w, sizeof(data)), at;

	if (!w->space[i].live)
		return;
	at = draw_below(w, (uint32_t)w->space[i].pages) * (uint64_t)PAGE;
	memset(data, 1 + (int)draw_below(w, 255), sizeof(data));
	if (len > w->space[i].pages * PAGE - at)
		len = w->space[i].pages * PAGE - at;
	(void)kit_space_op(w->k, &w->client[w->space[i].client], LEND_MEMOP_WRITE,
			   &w->space[i].space, at, len, data);
}

/* A new view of the space: the earlier one is no longer mapped. */
static void some_view(struct world *w, uint32_t i)
{
	uint32_t client = w->space[i].client;

	if (!w->space[i].live)
		return;
	if (pinned_op(w->k, &w->client[client], LEND_MEMOP_POOL_VIEW, &w->space[i].space, 0,
		      w->key[client]) == LEND_MEM_OK) {
		w->told[w->space[i].told].live = false;
		w->space[i].told = learn_view(w, client, 0);
	}
}

static void some_end(struct world *w, uint32_t i)
{
	if (!w->space[i].live)
		return;
	if (kit_space_op(w->k, &w->client[w->space[i].client], LEND_MEMOP_FREE, &w->space[i].space,
			 0, 0, NULL) == LEND_MEM_OK)
		w->told[w->space[i].told].live = false;
	w->space[i].live = false;
}

static void some_drop(struct world *w, uint32_t t)
{
	if (!w->told[t].live)
		return;
	if (pinned_op(w->k, &w->client[w->told[t].client], LEND_MEMOP_POOL_DROP,
		      &w->told[t].view.pinned_map, 0, w->told[t].key) == LEND_MEM_OK)
		w->told[t].live = false;
}

static void socket_ends(struct world *w, uint32_t client)
{
	lend_store_pool_hangup(w->k->store, w->key[client]);
	for (uint32_t t = 0; t < VIEWS; t++)
		w->told[t].live &= w->told[t].key != w->key[client];
	w->key[client] = 0;
}

static void fall_out(struct world *w, uint32_t client)
{
	if (draw_below(w, 2)) {
		lend_store_hangup(w->k->store, w->client[client].life);
	} else {
		w->k->now += w->k->config.lease + 1;
		lend_store_tick(w->k->store, w->k->now);
		for (uint32_t i = 0; i < CLIENTS; i++)
			forget_spaces(w, i);
	}
	forget_spaces(w, client);
}

static void run_step(struct world *w)
{
	uint32_t what = draw_below(w, 32), client = draw_below(w, CLIENTS),
		 i = draw_below(w, VIEWS);

	if (what < 6)
		some_put(w, client);
	else if (what < 14)
		some_map(w, client, i);
	else if (what < 22)
		some_write(w, i);
	else if (what < 24)
		some_view(w, i);
	else if (what < 26)
		some_end(w, i);
	else if (what < 28)
		some_drop(w, i);
	else if (what < 30 && w->refs)
		(void)kit_release(w->k, &w->client[client], &w->ref[draw_below(w, REFS)]);
	else if (what == 30)
		socket_ends(w, client);
	else
		fall_out(w, client);
	for (i = 0; i < CLIENTS; i++)
		send_hello(w, i);
	lend_store_tick(w->k->store, w->k->now);
}

static void run_history(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	w->seed = seed;
	w->k = kit_open(120, 5);
	lend_rng_seed(&w->rng, seed);
	for (uint32_t i = 0; i < CLIENTS; i++)
		send_hello(w, i);
	for (int i = 0; i < STEPS; i++) {
		run_step(w);
		check_views(w);
		if (i % 50 == 0)
			kit_audit(w->k);
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		socket_ends(w, i);
		lend_store_hangup(w->k->store, w->client[i].life);
	}
	for (int i = 0; i < 200; i++)
		lend_store_tick(w->k->store, w->k->now);
	cr_assert_eq(kit_stats(w->k).pinned_maps + kit_stats(w->k).pages_used, 0, "seed %llu",
		     (unsigned long long)seed);
	kit_close(w->k);
	free(w);
}

Test(store_views, at_random)
{
	const char *given = getenv("LEND_SEED");

	if (given)
		run_history(strtoull(given, NULL, 10));
	for (uint64_t seed = 1; !given && seed <= SEEDS; seed++)
		run_history(seed);
}
