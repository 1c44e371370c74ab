/* region - memory of the heap as it came from the kernel, and the table that finds it by address.
 * Layer: alloc. Threads: any; what changes regions holds lend_regions_lock(), looking up holds
 * nothing. Ownership: the heap's, which is the process's; a region goes back to the kernel when
 * none of its tiles is in use and nobody holds it.
 *
 * A region is registered as a whole, once, by each who watches: so regions are few and large, and
 * the key of a pointer is two loads of the table, one of the region.
 */
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
	LEND_REGION_GROWTH = 64 << 20, /* bytes of a region at most, but for larger objects */
	LEND_REGION_WATCHERS = 8,
};

/* What a tile is: part of a slab of class kind - 1, or of a run, or free. */
enum { LEND_TILE_FREE = 0, LEND_TILE_RUN = 254, LEND_TILE_INSIDE = 255 };
struct lend_tile {
	uint8_t kind;
	uint8_t back; /* of a slab: tiles from its first one */
};

/* What stands at a slab's or a run's first tile. */
struct lend_slab {
	uint64_t free[LEND_SLAB_OBJECTS_MAX / 64]; /* by object */
	struct lend_slab *next, *prev;             /* those of a class that have free ones */
	struct lend_region *region;
	uint32_t n; /* of a slab: free objects; of a run: its tiles */
	uint8_t class;
	uint8_t listed; /* among those of its class that have free ones */
};
_Static_assert(sizeof(struct lend_slab) == 64, "one cache line, touched for first tiles only");

struct lend_region {
	uint8_t *base;
	struct lend_slab *slab; /* by tile */
	uint64_t *used;         /* by tile, a bit each */
	size_t len;
	uint32_t tiles, free;
	uint32_t longest; /* no run of free tiles is longer */
	uint32_t holds;   /* endpoints that have it registered: it stays mapped */
	bool shared;      /* of the arena, which peers may read */
	bool inherited;   /* a fork's parent's arena: nothing is taken from it any more */
	uint64_t number;  /* counted up from 1 */
	_Atomic uint64_t key[LEND_REGION_WATCHERS];
	_Atomic uint32_t keyed; /* which of key are valid, by bit */
	struct lend_region *next, **link;
	struct lend_heap heap;
	size_t self_len; /* of this and its tables, which are mapped together */
	struct lend_tile tile[];
};

typedef struct lend_region *_Atomic lend_region_entry;
extern lend_region_entry *_Atomic lend_region_top[LEND_REGION_LEAF];

/* The region an address lies in, of any address; NULL: none. It is there at least as long as
 * something in it is in use. */
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

/* Locked: the regions, oldest first. */
struct lend_region *lend_regions_first(void);
/* Locked: maps one with room for so many tiles at least, tells the watchers. NULL: no memory;
 * lend_why_text() says so, unless it was to be shared. */
struct lend_region *lend_region_map(uint32_t tiles, bool shared);
/* Locked: gives it back to the kernel if it is empty, not held, and more than spare bytes of
 * others are empty besides. */
void lend_region_drop(struct lend_region *region, size_t spare);

/* Locked, in a fork's child: shared memory stays its parent's. */
void lend_regions_forked(void);

/* Who wants to know of each region: keys are kept for it. -ENOSPC. */
struct lend_region_watch {
	int (*grow)(void *arg, void *memory, size_t len, uint64_t *key);
	void (*shrink)(void *arg, void *memory, size_t len, uint64_t key);
	void *arg;
};
int lend_regions_watch(const struct lend_region_watch *watch);
void lend_regions_unwatch(int watcher);

/* For who can register only in its own thread: how many regions there have been, to compare. */
extern _Atomic uint64_t lend_regions_count;
/* Tells each region after number *seen, and holds it; *seen is what the count was. */
void lend_regions_hold(uint64_t *seen, void (*tell)(void *arg, void *memory, size_t len),
		       void *arg);
/* Gives up what was held by calls up to seen. */
void lend_regions_let_go(uint64_t seen);

struct lend_regions_sum {
	size_t mapped, huge, used; /* bytes */
	uint32_t n;
};
void lend_regions_sum(struct lend_regions_sum *sum);

#endif
