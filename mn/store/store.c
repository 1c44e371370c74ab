#include "mn/store/store.h"

#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/layout.h"
#include "mn/store/page_checksum.h"
#include "mn/store/space.h"
#include "util/bits.h"
#include "util/siphash.h"

void lend_store_config_default(struct lend_store_config *config, uint64_t bytes, uint32_t page)
{
	uint64_t pages = lend_max_u64(1, lend_min_u64(bytes / page, LEND_STORE_PAGES_MAX));
	uint32_t objects = (uint32_t)lend_max_u64(1024, lend_min_u64(pages * 2, 1u << 20));

	*config = (struct lend_store_config){
	    .pages = (uint32_t)pages,
	    .page = page,
	    .objects = objects,
	    .holds = objects * 2,
	    .grants = objects,
	    .clients = 256,
	    .incarnations = 256,
	    .placements = 256,
	    .tenants = 256,
	    .open = LEND_MEM_OPEN_MAX,
	    .workers = 1,
	    .reap = 2,
	    .lease = UINT64_C(30) * 1000000000,
	    .late = UINT64_C(1) * 1000000000,
	    .revive = UINT64_C(5) * 1000000000,
	};
}

static bool in_range(uint32_t value, uint32_t min, uint32_t max)
{
	return value >= min && value <= max;
}

static uint32_t text_len(const char *text)
{
	uint32_t n = 0;

	while (text && n <= LEND_MEMOP_TEXT_MAX && text[n])
		n++;
	return n;
}

static bool is_valid(const struct lend_store_config *c)
{
	return in_range(c->pages, 1, LEND_STORE_PAGES_MAX) &&
	       in_range(c->page, LEND_MEM_PAGE, LEND_MEM_PAGE_MAX) && lend_is_pow2(c->page) &&
	       in_range(c->objects, 1, (1u << 24) - 1) && in_range(c->holds, 1, (1u << 24) - 1) &&
	       in_range(c->grants, 1, (1u << 24) - 1) && in_range(c->clients, 1, (1u << 16) - 1) &&
	       in_range(c->incarnations, 1, 1u << 16) && in_range(c->placements, 1, 4096) &&
	       c->checksum <= 1 && c->yields <= 1 && c->tenants <= LEND_TENANT_MASK + 1 &&
	       in_range(c->open, 1, LEND_MEM_OPEN_MAX) && c->reap > 0 && lend_is_pow2(c->open) &&
	       c->worker < c->workers && c->workers <= LEND_MEMREF_WORKERS_MAX && c->lease > 0 &&
	       c->lease < LEND_MEM_TTL_MAX && c->revive < LEND_MEM_TTL_MAX &&
	       text_len(c->addresses) <= LEND_MEMOP_TEXT_MAX;
}

size_t lend_store_size(const struct lend_store_config *config)
{
	struct lend_store s;

	if (!is_valid(config))
		return 0;
	memset(&s, 0, sizeof(s));
	lend_store_lay_out(&s, config);
	return s.size;
}

size_t lend_store_pages_size(const struct lend_store_config *config)
{
	return ((size_t)config->pages + 1) * config->page;
}

struct lend_store *lend_store_init(void *mem, const struct lend_store_config *config, void *pages,
				   lend_ns now)
{
	memset(mem, 0, lend_store_size(config));
	return lend_store_build(mem, config, pages, now);
}

struct lend_store *lend_store_build(void *mem, const struct lend_store_config *config, void *pages,
				    lend_ns now)
{
	struct lend_store *s = mem;

	(void)now;
	s->config = *config;
	s->config.tenants = lend_max_u32(config->tenants, 1);
	lend_store_lay_out(s, config);
	s->layout = lend_store_layout();
	s->pages = pages;
	s->free_budget = config->reap;
	s->config.addresses = NULL;
	lend_store_set_text(s, config->addresses);
	for (uint32_t i = 0; i < s->config.tenants; i++)
		lend_tenant_at(s, i)->quota =
		    (struct lend_store_quota){UINT64_MAX, UINT32_MAX, UINT32_MAX};
	lend_free_init(s, 1);
	s->lease_next = LEND_NEVER;
	if (s->config.checksum)
		lend_sum_whole(s, 0);
	/* Life numbers of other starts are not reused: their operations may still arrive. */
	s->life = lend_siphash64(config->key, &config->epoch, sizeof(config->epoch)) >> 1;
	return s;
}

uint64_t lend_store_records(const struct lend_store *store, uint64_t *bytes)
{
	*bytes = (uint64_t)store->config.clients * store->config.open * sizeof(struct lend_record);
	return store->records;
}

void lend_store_attach(struct lend_store *store, void *pages)
{
	store->pages = pages;
}

uint64_t lend_store_hash(const struct lend_store *store)
{
	const uint8_t *at = (const uint8_t *)&store->config;
	const uint8_t *end = (const uint8_t *)store + store->undo;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; end - at >= 8; at += 8) {
		h = (h ^ lend_load_u64(at)) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

void lend_store_set_text(struct lend_store *s, const char *addresses)
{
	memset(s->text, 0, sizeof(s->text));
	s->text_len = text_len(addresses);
	if (s->text_len)
		memcpy(s->text, addresses, s->text_len);
}

uint32_t lend_store_page(const struct lend_store *store)
{
	return store->config.page;
}

uint32_t lend_store_settled(const struct lend_store *store)
{
	return store->settled;
}

bool lend_store_awaits(const struct lend_store *store, uint32_t slot, uint64_t serial)
{
	uint32_t i = lend_object_find(store, slot, serial, LEND_OBJECT_SNAPSHOT);

	return i && lend_object_at(store, i)->unwritten;
}

bool lend_store_checks(const struct lend_store *store)
{
	return store->config.checksum;
}

void lend_store_set_tx_bytes(struct lend_store *store, uint64_t bytes)
{
	store->counts.tx_bytes = bytes;
}

void lend_store_stats(const struct lend_store *store, struct lend_memstats *stats)
{
	*stats = store->counts;
	stats->pages_total = store->frame.cap;
	stats->pages_used = store->frame.used;
	stats->pages_quarantined = store->free.rest[0].n + store->free.rest[1].n;
	stats->pages_pinned = store->pinned;
	stats->spaces = store->counts.spaces;
	stats->refs = store->object.used - store->counts.spaces - store->counts.pinned_maps;
	stats->clients = store->client.used;
	stats->incarnations = store->incarnation.used;
	stats->holds = store->hold.used;
	stats->grants = store->grant.used;
	stats->nodes_used = store->node.used;
	stats->page_bytes = store->config.page;
}
