/* paged_view - a space over a network as memory: pages are fetched when they are touched.
 *
 * A page is missing, or present and clean, or present and dirty (stored to). It becomes present
 * once, and stays. Clean pages are write-protected: the first store is reported, and marks the page
 * before it happens. Layer: cn. Threads: the marks are atomic; all other state changes under the
 * pager's lock. */
#ifndef LEND_CN_PAGING_PAGED_VIEW_H
#define LEND_CN_PAGING_PAGED_VIEW_H

#include <stdatomic.h>

#include "cn/paging/readahead.h"
#include "cn/paging/page_cache.h"
#include "cn/space_pointer.h"

enum { CN_PAGE = CN_CACHE_PAGE };

struct cn_fault {
	struct cn_view view; /* first */
	int fd;              /* the pager's */
	uint64_t pages;
	_Atomic uint64_t *here, *stored; /* a bit per page: present; dirty */
	atomic_bool torn;                /* zeros were shown for a page that could not be fetched */
	bool zeros;                      /* the space had only zeros when the view was made */
	bool singly;                     /* the node lost a page of it: fetch pages one by one */
	struct cn_cache_key key;         /* of its first page; serial 0: do not cache */
	struct cn_ahead ahead;
	/* for READs of its pages */
	char home[CN_HOME_MAX];
	uint64_t life;
	uint32_t client;
	struct lend_memspace wire;
};

extern const struct cn_view_ops cn_fault_ops;

/* here: the number of pages, of at most n, that are present up to the first missing one. missing:
 * the number that are missing up to the first present one. */
uint64_t cn_fault_here(const struct cn_fault *f, uint64_t page, uint64_t n);
uint64_t cn_fault_missing(const struct cn_fault *f, uint64_t page, uint64_t n);
/* The length in bytes of n pages, without the part past the end of the space. */
uint64_t cn_fault_len(const struct cn_fault *f, uint64_t page, uint64_t n);
/* Fills n missing pages. stored: as dirty and writable, for a store. */
void cn_fault_fill(struct cn_fault *f, uint64_t page, uint64_t n, const void *bytes, bool stored);
/* Marks a clean page dirty and removes its protection, for a store. */
void cn_fault_store(struct cn_fault *f, uint64_t page);
/* cached: copies the first of n missing pages out of the cache; returns how many pages, up to the
 * first that is not cached. uncached: copies nothing; returns how many, up to the first that is
 * cached. */
uint64_t cn_fault_cached(const struct cn_fault *f, uint64_t page, uint64_t n, char *bytes);
uint64_t cn_fault_uncached(const struct cn_fault *f, uint64_t page, uint64_t n);
/* Adds pages from the node to the cache; sets the bytes past the end of the space to zero. */
void cn_fault_keep(const struct cn_fault *f, uint64_t page, uint64_t n, char *bytes);

#endif
