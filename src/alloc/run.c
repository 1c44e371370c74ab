#include "alloc/run.h"

#include "util/check.h"

#define NONE UINT32_MAX

/* Locked: bytes of tiles in use now, and at most; each region that becomes empty lowers the second
 * towards the first. */
static struct {
	size_t used, most;
} run;
enum { FADE = 32 };

/* Unmaps empty regions beyond spare bytes, `hot` last; it may be NULL. */
static void drop_empty(struct lend_region *hot, size_t spare)
{
	struct lend_region *next;

	for (struct lend_region *r = lend_regions_first(); r; r = next) {
		next = r->next;
		if (r != hot)
			lend_region_drop(r, spare);
	}
	if (hot)
		lend_region_drop(hot, spare);
}

static size_t spare_bytes(void)
{
	size_t spare = run.most + run.most / 4;

	run.most -= (run.most - run.used) / FADE;
	if (spare < LEND_RUN_SPARE)
		return LEND_RUN_SPARE;
	return spare < LEND_RUN_SPARE_MAX ? spare : LEND_RUN_SPARE_MAX;
}

/* Returns the first tile at or after from that is used, or free, as used asks for. If there is
 * none, returns the number of tiles, a multiple of 64. */
static uint32_t next_tile(const struct lend_region *r, uint32_t from, bool used)
{
	for (uint32_t word = from / 64; word < r->tiles / 64; word++) {
		uint64_t bits = used ? r->used[word] : ~r->used[word];

		if (word == from / 64)
			bits &= UINT64_MAX << from % 64;
		if (bits)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return r->tiles;
}

/* Returns where n free tiles begin; NONE: there are none, and r->longest is now exact. */
static uint32_t find_run(struct lend_region *r, uint32_t n, uint32_t align)
{
	uint32_t longest = 0, end;

	if (r->longest < n)
		return NONE;
	for (uint32_t first = next_tile(r, 0, false); first < r->tiles;
	     first = next_tile(r, end, false)) {
		uint32_t at = (uint32_t)lend_align_up(first, align);

		end = next_tile(r, first, true);
		if (at < end && n <= end - at)
			return at;
		longest = lend_max_u32(longest, end - first);
	}
	r->longest = longest;
	return NONE;
}

static void mark_tiles(struct lend_region *r, uint32_t first, uint32_t n, bool used)
{
	for (uint32_t end = first + n; first < end;) {
		uint32_t many = lend_min_u32(64 - first % 64, end - first);
		uint64_t bits = UINT64_MAX >> (64 - many) << first % 64;

		LEND_CHECK((r->used[first / 64] & bits) == (used ? 0 : bits));
		r->used[first / 64] ^= bits;
		first += many;
	}
	r->free += used ? -n : n;
	run.used += (used ? (size_t)n : -(size_t)n) * LEND_TILE_LEN;
	run.most = run.used > run.most ? run.used : run.most;
}

static void describe_run(struct lend_region *r, uint32_t first, uint32_t n, uint8_t kind)
{
	for (uint32_t i = 0; i < n; i++)
		r->tile[first + i] = (struct lend_tile){
		    i > 0 && kind == LEND_TILE_RUN ? LEND_TILE_INSIDE : kind, (uint8_t)i};
}

struct lend_slab *lend_run_take(uint32_t n, uint32_t align, uint8_t kind, bool shared)
{
	struct lend_slab *slab = NULL;
	struct lend_region *r;
	uint32_t first = NONE;

	lend_regions_lock();
	for (r = lend_regions_first(); r; r = r->next) {
		if (r->shared != shared || r->inherited)
			continue;
		first = find_run(r, n, align);
		if (first != NONE)
			break;
	}
	if (!r) {
		r = lend_region_map(n, shared);
		first = 0;
	}
	if (r) {
		mark_tiles(r, first, n, true);
		describe_run(r, first, n, kind);
		slab = &r->slab[first];
		*slab = (struct lend_slab){.region = r, .n = n};
	}
	lend_regions_unlock();
	return slab;
}

void lend_run_give(struct lend_slab *slab, uint32_t n)
{
	struct lend_region *r = slab->region;
	uint32_t first = (uint32_t)(slab - r->slab);

	lend_regions_lock();
	mark_tiles(r, first, n, false);
	describe_run(r, first, n, LEND_TILE_FREE);
	r->longest = r->free;
	if (r->free == r->tiles)
		drop_empty(r, spare_bytes());
	lend_regions_unlock();
}

void lend_runs_trim(void)
{
	lend_regions_lock();
	drop_empty(NULL, 0);
	lend_regions_unlock();
}
