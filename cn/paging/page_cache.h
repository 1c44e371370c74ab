/* page_cache - pages of snapshots that this process has fetched, by what they are pages of.
 *
 * A snapshot never changes, so a page that is here is right for as long as its name is asked for:
 * serials are not used again within an epoch. One cache for all clients of the process; bounded;
 * the clock decides what goes. Layer: cn. Threads: any, under its own lock. */
#ifndef LEND_CN_PAGING_PAGE_CACHE_H
#define LEND_CN_PAGING_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

enum { CN_CACHE_PAGE = 4096 };

struct cn_cache_key {
	uint64_t serial, offset;    /* in the root; no need to be a multiple of a page */
	uint32_t node, epoch, slot; /* of the snapshot */
	uint32_t len;               /* of the page's bytes that may be seen; the rest is zero */
};

/* The bytes of a page, CN_CACHE_PAGE of them; false: not here. */
bool cn_cache_find(const struct cn_cache_key *key, void *page);
/* The same without looking at bytes, and without being counted or kept longer. */
bool cn_cache_has(const struct cn_cache_key *key);
/* The lock, around a fork. */
void cn_cache_freeze(void);
void cn_cache_thaw(void);
/* Copies a page in, unless it is here or there is no memory for any. */
void cn_cache_add(const struct cn_cache_key *key, const void *page);

#endif
