/* run - tiles in a row: what slabs and large objects are cut from.
 * Layer: alloc. Threads: any. Ownership: a run is its taker's until it is given back.
 *
 * First fit over the regions by age, so that the younger ones become empty and go back. */
#ifndef LEND_ALLOC_RUN_H
#define LEND_ALLOC_RUN_H

#include "alloc/region.h"

#define LEND_RUN_SPARE ((size_t)64 << 20) /* bytes of empty regions that are kept */

/* n tiles whose address is a multiple of align tiles (a power of two, 2 MiB at most), as a slab of
 * kind - 1 or as LEND_TILE_RUN; shared: of the arena. NULL: no memory, lend_why_text() says so,
 * unless it was to be shared. */
struct lend_slab *lend_run_take(uint32_t n, uint32_t align, uint8_t kind, bool shared);
/* A whole one, by its first tile's record. */
void lend_run_give(struct lend_slab *slab, uint32_t n);
/* Empty regions go back to the kernel. */
void lend_runs_trim(void);

/* Where what stands at this record begins. */
static inline void *lend_run_base(const struct lend_slab *slab)
{
	return slab->region->base + (size_t)(slab - slab->region->slab) * LEND_TILE_LEN;
}

#endif
