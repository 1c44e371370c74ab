/* alloc - the public functions of the heap: a small object comes from the thread's cache, a longer
 * one is a run of tiles.
 * Layer: alloc. Threads: any. Ownership: allocated memory is the caller's. */
#include "lend/alloc.h"

#include <errno.h>

#include "alloc/cache.h"
#include "sys/asan.h"
#include "sys/last_error.h"
#include "sys/shared_arena.h"

#define LEN_MAX ((size_t)1 << 46)

static __attribute__((noinline)) void *take_run(size_t len, uint32_t align, bool shared)
{
	size_t tiles = (len + LEND_TILE_LEN - 1) / LEND_TILE_LEN;
	struct lend_slab *run;
	void *p;

	if (len > LEN_MAX) {
		(void)lend_fail(
		    ENOMEM, "%zu bytes of memory: more than the address space; ask for less", len);
		return NULL;
	}
	run = lend_run_take((uint32_t)tiles + !tiles, align, LEND_TILE_RUN, shared);
	if (!run)
		return NULL;
	p = lend_run_base(run);
	LEND_SHOW(p, (size_t)run->n * LEND_TILE_LEN);
	return p;
}

static __attribute__((noinline)) void free_run(struct lend_region *r, const void *p)
{
	size_t offset = (size_t)((const uint8_t *)p - r->base), tile = offset / LEND_TILE_LEN;
	struct lend_slab *run = &r->slab[tile];
	bool is_a_live_start = r->tile[tile].kind == LEND_TILE_RUN && offset % LEND_TILE_LEN == 0;

	LEND_CHECK(is_a_live_start);
	LEND_HIDE(p, (size_t)run->n * LEND_TILE_LEN);
	lend_run_give(run, run->n);
}

/* Takes an object from a bin that has one, and clears its mark, if any. */
static inline void *pop(struct lend_bin *bin, uint32_t class)
{
	uint64_t *p = bin->take[--bin->n];

	LEND_SHOW(p, lend_class_len(class));
	*p = 0;
	return p;
}

static __attribute__((noinline)) void *take_slow(uint32_t class)
{
	struct lend_bin *bin = lend_cache_filled(class);

	return bin ? pop(bin, class) : NULL;
}

static inline void *take_object(uint32_t class)
{
	struct lend_bin *bin = &lend_cache_self->bin[class];

	if (__builtin_expect(bin->n == 0, 0))
		return take_slow(class);
	return pop(bin, class);
}

void *lend_malloc(size_t len)
{
	if (__builtin_expect(len > LEND_CLASS_LEN_MAX, 0))
		return take_run(len, 1, false);
	return take_object(lend_class_of(len));
}

void *lend_malloc_shared(size_t len)
{
	return take_run(len, 1, true);
}

bool lend_is_shared(const void *p)
{
	uint64_t offset;

	return lend_arena_find(p, 1, &offset);
}

void *lend_aligned(size_t align, size_t len)
{
	uint32_t class;

	if (!lend_is_pow2(align) || align > (size_t)1 << LEND_REGION_SHIFT) {
		(void)lend_fail(EINVAL, "alignment %zu: give a power of two, 2 MiB at most", align);
		return NULL;
	}
	if (align > LEND_TILE_LEN || len > LEND_CLASS_LEN_MAX)
		return take_run(len, align > LEND_TILE_LEN ? (uint32_t)(align / LEND_TILE_LEN) : 1,
				false);
	/* Slabs begin at a tile, so an object is aligned to the largest power of two that divides
	 * its length. */
	class = lend_class_of(len > align ? len : align);
	while (lend_class_len(class) & (align - 1))
		class ++;
	return take_object(class);
}

/* Puts an object into a bin that has room. offset: from the start of the object's slab. */
static inline void push(struct lend_cache *cache, uint32_t class, void *p, uint32_t offset)
{
	struct lend_bin *bin = &cache->bin[class];
	uint64_t mark = lend_cache_mark(cache, p);
	bool was_free = *(uint64_t *)p == mark;

	LEND_CHECK(lend_class_is_start(offset, bin->magic));
	LEND_CHECK(!was_free);
	*(uint64_t *)p = mark;
	LEND_HIDE((uint8_t *)p + sizeof(mark), lend_class_len(class) - sizeof(mark));
	bin->give[bin->back++] = p;
}

static __attribute__((noinline)) void give_slow(uint32_t class, void *p, uint32_t offset)
{
	if (lend_cache_emptied(class))
		push(lend_cache_self, class, p, offset);
	else /* no memory for a cache */
		lend_slabs_give(class, &p, 1);
}

static __attribute__((noinline)) void free_foreign(const void *p)
{
	bool is_of_this_heap = p == NULL;

	LEND_CHECK(is_of_this_heap);
}

void lend_free(void *p)
{
	struct lend_cache *cache = lend_cache_self;
	struct lend_region *r = lend_region_of(p);
	uint32_t class, offset;
	struct lend_tile tile;
	size_t at;

	if (__builtin_expect(!r, 0)) {
		free_foreign(p);
		return;
	}
	at = (size_t)((uint8_t *)p - r->base);
	tile = r->tile[at / LEND_TILE_LEN];
	class = tile.kind - 1u;
	if (__builtin_expect(class >= LEND_CLASSES, 0)) {
		free_run(r, p);
		return;
	}
	offset = (uint32_t)(at % LEND_TILE_LEN) + (uint32_t)tile.back * LEND_TILE_LEN;
	if (__builtin_expect(cache->bin[class].back == cache->bin[class].batch, 0)) {
		give_slow(class, p, offset);
		return;
	}
	push(cache, class, p, offset);
}

size_t lend_usable(const void *p)
{
	struct lend_region *r = lend_region_of(p);
	bool is_of_this_heap = r != NULL;
	size_t tile;

	LEND_CHECK(is_of_this_heap);
	tile = (size_t)((const uint8_t *)p - r->base) / LEND_TILE_LEN;
	if (r->tile[tile].kind == LEND_TILE_RUN)
		return (size_t)r->slab[tile].n * LEND_TILE_LEN;
	LEND_CHECK(r->tile[tile].kind - 1u < LEND_CLASSES);
	return lend_class_len(r->tile[tile].kind - 1u);
}

void lend_alloc_trim(void)
{
	lend_cache_flush();
	lend_slabs_trim();
	lend_runs_trim();
}

void lend_alloc_stat_get(struct lend_alloc_stat *stat)
{
	struct lend_regions_sum sum;

	lend_regions_sum(&sum);
	*stat = (struct lend_alloc_stat){
	    .mapped = sum.mapped, .huge = sum.huge, .used = sum.used, .regions = sum.n};
}

int lend_alloc_watch_add(const struct lend_alloc_watch *watch)
{
	return lend_regions_watch(
	    &(struct lend_region_watch){watch->grow, watch->shrink, watch->arg});
}

void lend_alloc_watch_remove(int watch)
{
	lend_regions_unwatch(watch);
}

bool lend_alloc_key(int watch, const void *p, uint64_t *key)
{
	const struct lend_region *r = lend_region_of(p);

	if (!r || !(atomic_load_explicit(&r->keyed, memory_order_acquire) >> watch & 1))
		return false;
	*key = atomic_load_explicit(&r->key[watch], memory_order_relaxed);
	return true;
}
