#include "alloc/region.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "sys/shared_arena.h"
#include "sys/asan.h"
#include "sys/last_error.h"
#include "util/check.h"

#define REGION_LEN ((size_t)1 << LEND_REGION_SHIFT)

lend_region_entry *_Atomic lend_region_top[LEND_REGION_LEAF];
_Atomic uint64_t lend_regions_count;

static struct {
	pthread_mutex_t lock;
	struct lend_region *first, **last;                    /* oldest first */
	struct lend_region_watch watch[LEND_REGION_WATCHERS]; /* grow NULL: slot unused */
	size_t mapped;
} all = {.lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .last = &all.first};

void lend_regions_lock(void)
{
	pthread_mutex_lock(&all.lock);
}

void lend_regions_unlock(void)
{
	pthread_mutex_unlock(&all.lock);
}

struct lend_region *lend_regions_first(void)
{
	return all.first;
}

static void *map_zero(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Leaves are never freed: 64 KiB for 16 GiB of addresses. */
static lend_region_entry *entry_of(uintptr_t address, bool make)
{
	uintptr_t at = address >> LEND_REGION_SHIFT;
	lend_region_entry *leaf;

	LEND_CHECK(at / LEND_REGION_LEAF < LEND_REGION_LEAF);
	leaf = atomic_load_explicit(&lend_region_top[at / LEND_REGION_LEAF], memory_order_relaxed);
	if (!leaf && make) {
		leaf = map_zero(LEND_REGION_LEAF * sizeof(*leaf));
		if (leaf)
			atomic_store_explicit(&lend_region_top[at / LEND_REGION_LEAF], leaf,
					      memory_order_release);
	}
	return leaf ? &leaf[at % LEND_REGION_LEAF] : NULL;
}

/* Enters value into the table under all addresses of the region; NULL removes it. Returns false: no
 * memory. */
static bool enter_region(struct lend_region *r, struct lend_region *value)
{
	for (size_t at = 0; at < r->len; at += REGION_LEN)
		if (!entry_of((uintptr_t)r->base + at, value != NULL))
			return false;
	for (size_t at = 0; at < r->len; at += REGION_LEN)
		atomic_store_explicit(entry_of((uintptr_t)r->base + at, false), value,
				      memory_order_release);
	return true;
}

/* Maps the record and the tables of a region of that many tiles, in one mapping; all tiles are
 * free. */
static struct lend_region *record_new(uint32_t tiles)
{
	size_t used =
	    lend_align_up(sizeof(struct lend_region) + tiles * sizeof(struct lend_tile), 64);
	size_t slabs = lend_align_up(used + tiles / 8, 64);
	size_t len = lend_align_up(slabs + tiles * sizeof(struct lend_slab), 4096);
	uint8_t *at = map_zero(len);
	struct lend_region *r = (struct lend_region *)(void *)at;

	if (!at)
		return NULL;
	r->slab = (struct lend_slab *)(void *)(at + slabs);
	r->used = (uint64_t *)(void *)(at + used);
	r->self_len = len;
	r->tiles = r->free = r->longest = tiles;
	return r;
}

/* Adds a quarter of the mapped memory, so that both the number of regions and the unused memory
 * stay small. */
static size_t growth_len(size_t need)
{
	size_t more = lend_align_up(all.mapped / 4, REGION_LEN);

	more = more > LEND_REGION_GROWTH ? LEND_REGION_GROWTH : more;
	return need > more ? need : more;
}

static void set_key(struct lend_region *r, int watcher)
{
	const struct lend_region_watch *watch = &all.watch[watcher];
	uint64_t key = 0;

	if (watch->grow(watch->arg, r->base, r->len, &key) < 0)
		return; /* the watcher could not register the region: there is no key for it */
	atomic_store_explicit(&r->key[watcher], key, memory_order_relaxed);
	atomic_fetch_or_explicit(&r->keyed, 1u << watcher, memory_order_release);
}

static void unset_key(struct lend_region *r, int watcher)
{
	const struct lend_region_watch *watch = &all.watch[watcher];
	uint32_t bit = 1u << watcher;

	if (!(atomic_fetch_and_explicit(&r->keyed, ~bit, memory_order_relaxed) & bit))
		return;
	watch->shrink(watch->arg, r->base, r->len,
		      atomic_load_explicit(&r->key[watcher], memory_order_relaxed));
}

static void link_region(struct lend_region *r)
{
	r->link = all.last;
	*all.last = r;
	all.last = &r->next;
	all.mapped += r->len;
	r->number = atomic_load_explicit(&lend_regions_count, memory_order_relaxed) + 1;
	for (int w = 0; w < LEND_REGION_WATCHERS; w++)
		if (all.watch[w].grow)
			set_key(r, w);
	atomic_store_explicit(&lend_regions_count, r->number, memory_order_release);
}

static bool map_memory(struct lend_region *r, size_t len, bool shared)
{
	if (!shared)
		return lend_mapping_map(&r->heap, len) == 0;
	r->shared = true;
	r->heap = (struct lend_mapping){.base = lend_arena_take(len), .len = len};
	return r->heap.base;
}

static void unmap_memory(struct lend_region *r)
{
	if (r->shared)
		lend_arena_give(r->heap.base, r->heap.len);
	else
		lend_mapping_unmap(&r->heap);
}

struct lend_region *lend_region_map(uint32_t tiles, bool shared)
{
	size_t len = growth_len(lend_align_up((size_t)tiles * LEND_TILE_LEN, REGION_LEN));
	struct lend_region *r = record_new((uint32_t)(len / LEND_TILE_LEN));

	if (!r) {
		lend_fail(ENOMEM, "no memory for the tables of %zu bytes: raise ulimit -v", len);
		return NULL;
	}
	if (!map_memory(r, len, shared))
		goto out_record;
	r->base = r->heap.base;
	r->len = r->heap.len;
	LEND_CHECK(((uintptr_t)r->base & (REGION_LEN - 1)) == 0 && r->len == len);
	if (!enter_region(r, r)) {
		lend_fail(ENOMEM, "no memory for the table of addresses: raise ulimit -v");
		goto out_heap;
	}
	link_region(r);
	return r;

out_heap:
	unmap_memory(r);
out_record:
	munmap(r, r->self_len);
	return NULL;
}

static size_t empty_besides(const struct lend_region *region)
{
	size_t sum = 0;

	for (const struct lend_region *r = all.first; r; r = r->next)
		if (r != region && r->free == r->tiles)
			sum += r->len;
	return sum;
}

void lend_region_drop(struct lend_region *r, size_t spare)
{
	if (r->free != r->tiles || r->refs || r->inherited || empty_besides(r) + r->len <= spare)
		return;
	for (int w = 0; w < LEND_REGION_WATCHERS; w++)
		if (all.watch[w].grow)
			unset_key(r, w);
	enter_region(r, NULL);
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	else
		all.last = r->link;
	all.mapped -= r->len;
	LEND_SHOW(r->base, r->len);
	unmap_memory(r);
	munmap(r, r->self_len);
}

void lend_regions_forked(void)
{
	for (struct lend_region *r = all.first; r; r = r->next)
		r->inherited = r->shared;
	lend_arena_forked();
}

int lend_regions_watch(const struct lend_region_watch *watch)
{
	int w = 0;

	lend_regions_lock();
	while (w < LEND_REGION_WATCHERS && all.watch[w].grow)
		w++;
	if (w < LEND_REGION_WATCHERS) {
		all.watch[w] = *watch;
		for (struct lend_region *r = all.first; r; r = r->next)
			set_key(r, w);
	}
	lend_regions_unlock();
	return w < LEND_REGION_WATCHERS
		   ? w
		   : lend_fail(ENOSPC, "%d watchers of the heap already: end one",
			       LEND_REGION_WATCHERS);
}

void lend_regions_unwatch(int w)
{
	lend_regions_lock();
	LEND_CHECK(w >= 0 && w < LEND_REGION_WATCHERS && all.watch[w].grow);
	for (struct lend_region *r = all.first; r; r = r->next)
		unset_key(r, w);
	all.watch[w].grow = NULL;
	lend_regions_unlock();
}

void lend_regions_ref(uint64_t *seen, void (*visit)(void *arg, void *memory, size_t len), void *arg)
{
	lend_regions_lock();
	for (struct lend_region *r = all.first; r; r = r->next) {
		if (r->number <= *seen)
			continue;
		r->refs++;
		visit(arg, r->base, r->len);
	}
	*seen = atomic_load_explicit(&lend_regions_count, memory_order_relaxed);
	lend_regions_unlock();
}

void lend_regions_unref(uint64_t seen)
{
	lend_regions_lock();
	for (struct lend_region *r = all.first; r && r->number <= seen; r = r->next) {
		LEND_CHECK(r->refs > 0);
		r->refs--;
	}
	lend_regions_unlock();
}

void lend_regions_sum(struct lend_regions_sum *sum)
{
	*sum = (struct lend_regions_sum){0};
	lend_regions_lock();
	for (const struct lend_region *r = all.first; r; r = r->next) {
		sum->n++;
		sum->mapped += r->len;
		sum->huge += r->heap.huge ? r->len : 0;
		sum->used += (size_t)(r->tiles - r->free) * LEND_TILE_LEN;
	}
	lend_regions_unlock();
}
