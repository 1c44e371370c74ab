/* run - consecutive tiles: slabs and large objects are made from them.
 * Layer: alloc. Threads: any. Ownership: the caller that takes a run owns it until it is given
 * back.
 *
 * First fit over the regions, oldest first, so that younger regions become empty and are unmapped.
 */
#ifndef LEND_ALLOC_RUN_H
#define LEND_ALLOC_RUN_H

#include "alloc/region.h"

/* Bytes of empty regions that are kept: about as many as were in use recently, within limits. New
 * memory costs a page fault and zeroing for each page, more than a copy of the same bytes. */
#define LEND_RUN_SPARE     ((size_t)64 << 20)
#define LEND_RUN_SPARE_MAX ((size_t)256 << 20)

/* Takes n tiles, aligned to align tiles (a power of two, 2 MiB at most), as a slab of class kind -
 * 1 or as LEND_TILE_RUN. shared: from the arena. Returns the first tile's record; NULL: no memory,
 * with lend_why_text() set unless shared. */
struct lend_slab *lend_run_take(uint32_t n, uint32_t align, uint8_t kind, bool shared);
/* Frees a whole run, by the record of its first tile. */
void lend_run_give(struct lend_slab *slab, uint32_t n);
/* Unmaps the empty regions. */
void lend_runs_trim(void);

/* Returns the address of the slab or run of this record. */
static inline void *lend_run_base(const struct lend_slab *slab)
{
	return slab->region->base + (size_t)(slab - slab->region->slab) * LEND_TILE_LEN;
}

#endif
