/* region - memory of the heap as it came from the kernel, and the table that finds it by address.
 * Layer: alloc. Threads: any; changes hold lend_regions_lock(), lookups hold no lock. Ownership:
 * the process's heap; a region is unmapped when none of its tiles is in use and no endpoint holds
 * it.
 *
 * Each watcher registers a region once, as a whole. So regions are few and large, and finding the
 * key of a pointer takes two loads from the table and one from the region. */
#ifndef LEND_ALLOC_REGION_H
#define LEND_ALLOC_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/size_class.h"
#include "sys/mapped_memory.h"

enum {
	LEND_REGION_SHIFT = 21,        /* regions are whole multiples of 2 MiB, in address too */
	LEND_REGION_LEAF = 1 << 13,    /* entries of each level of the table */
	LEND_REGION_GROWTH = 64 << 20, /* bytes of a region at most, except for larger objects */
	LEND_REGION_WATCHERS = 8,
};

/* kind of a tile: 1 + class of the slab that it is part of, or part of a run, or free */
enum { LEND_TILE_FREE = 0, LEND_TILE_RUN = 254, LEND_TILE_INSIDE = 255 };
struct lend_tile {
	uint8_t kind;
	uint8_t back; /* slab: number of tiles from its first one to this one */
};

/* The record of a slab or a run; its first tile has it. */
struct lend_slab {
	uint64_t free[LEND_SLAB_OBJECTS_MAX / 64]; /* bit map: the object is free */
	struct lend_slab *next, *prev;             /* slabs of the class that have free objects */
	struct lend_region *region;
	uint32_t n; /* slab: free objects; run: tiles */
	uint8_t class;
	uint8_t listed; /* the slab is in its class's list of slabs with free objects */
};
_Static_assert(sizeof(struct lend_slab) == 64, "one cache line, touched for first tiles only");

struct lend_region {
	uint8_t *base;
	struct lend_slab *slab; /* by tile; that of a first tile describes its slab or run */
	uint64_t *used;         /* bit map: the tile is in use */
	size_t len;
	uint32_t tiles, free;
	uint32_t longest; /* upper bound of the length of a run of free tiles */
	uint32_t refs;    /* endpoints that have it registered: it stays mapped */
	bool shared;      /* part of the arena, which peers may read */
	bool inherited;   /* made by the parent of this process before fork(): nothing more is
			     allocated from it */
	uint64_t number;  /* number of the region, in the order in which they were made, from 1 */
	_Atomic uint64_t key[LEND_REGION_WATCHERS];
	_Atomic uint32_t keyed; /* bit map of the valid entries of key[] */
	struct lend_region *next, **link;
	struct lend_mapping heap;
	size_t self_len; /* bytes of this struct and its tables, which are mapped together */
	struct lend_tile tile[];
};

typedef struct lend_region *_Atomic lend_region_entry;
extern lend_region_entry *_Atomic lend_region_top[LEND_REGION_LEAF];

/* Returns the region that contains an address, for any value of it; NULL: none. The region stays
 * valid at least as long as something in it is in use. */
static inline struct lend_region *lend_region_of(const void *p)
{
	uintptr_t at = (uintptr_t)p >> LEND_REGION_SHIFT;
	lend_region_entry *leaf;

	if (at / LEND_REGION_LEAF >= LEND_REGION_LEAF)
		return NULL;
	leaf = atomic_load_explicit(&lend_region_top[at / LEND_REGION_LEAF], memory_order_acquire);
	return leaf ? atomic_load_explicit(&leaf[at % LEND_REGION_LEAF], memory_order_acquire)
		    : NULL;
}

void lend_regions_lock(void);
void lend_regions_unlock(void);

/* Locked: returns the oldest region; next leads to the younger ones. */
struct lend_region *lend_regions_first(void);
/* Locked: maps a region with room for at least that many tiles and notifies the watchers. NULL: no
 * memory, with lend_why_text() set unless shared. */
struct lend_region *lend_region_map(uint32_t tiles, bool shared);
/* Locked: unmaps the region if it is empty, has no references, and the empty regions, with this
 * one, have more than spare bytes. */
void lend_region_drop(struct lend_region *region, size_t spare);

/* Locked: gives up the regions of shared memory in a fork's child; they stay the parent's. */
void lend_regions_forked(void);

/* Callbacks of a watcher, which is notified of each region; the region keeps the key that grow
 * stores. -ENOSPC: all LEND_REGION_WATCHERS are in use. */
struct lend_region_watch {
	int (*grow)(void *arg, void *memory, size_t len, uint64_t *key);
	void (*shrink)(void *arg, void *memory, size_t len, uint64_t key);
	void *arg;
};
int lend_regions_watch(const struct lend_region_watch *watch);
void lend_regions_unwatch(int watcher);

/* The number of regions made so far. A watcher that can register only in its own thread compares it
 * with the number that it has registered. */
extern _Atomic uint64_t lend_regions_count;
/* Passes each region after number *seen to the callback and takes a reference to it; *seen becomes
 * the count. */
void lend_regions_ref(uint64_t *seen, void (*visit)(void *arg, void *memory, size_t len),
		      void *arg);
/* Drops the references that lend_regions_ref() took to regions up to number seen. */
void lend_regions_unref(uint64_t seen);

struct lend_regions_sum {
	size_t mapped, huge, used; /* bytes */
	uint32_t n;
};
void lend_regions_sum(struct lend_regions_sum *sum);

#endif
