/* page_cache - pages of snapshots that this process has fetched, by snapshot and offset.
 *
 * A snapshot never changes, so a cached page stays valid as long as its key is in use: serials are
 * not used again within an epoch. One cache for all clients of the process, bounded, with eviction
 * by the clock algorithm. Layer: cn. Threads: any, under its own lock. */
#ifndef LEND_CN_PAGING_PAGE_CACHE_H
#define LEND_CN_PAGING_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

enum { CN_CACHE_PAGE = 4096 };

struct cn_cache_key {
	uint64_t serial, offset;    /* in the root; not always a multiple of a page */
	uint32_t node, epoch, slot; /* name of the snapshot */
	uint32_t len;               /* bytes of the page that may be seen; the rest is zero */
};

/* Copies the CN_CACHE_PAGE bytes of a page out. Returns false: not cached. */
bool cn_cache_find(const struct cn_cache_key *key, void *page);
/* Returns whether a page is cached. That is not counted as a hit, and the page is not kept for
 * longer. */
bool cn_cache_has(const struct cn_cache_key *key);
/* Take the lock before a fork, and release it afterwards. */
void cn_cache_freeze(void);
void cn_cache_thaw(void);
/* Copies a page in, unless it is cached already, or there is no memory for a cache. */
void cn_cache_add(const struct cn_cache_key *key, const void *page);

#endif
