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
#include "cn/space_view.h"

enum { CN_PAGE = CN_CACHE_PAGE };

struct cn_paged_view {
	struct cn_view view; /* first */
	int fd;              /* descriptor of the pager */
	uint64_t pages;
	_Atomic uint64_t *present, *stored; /* a bit per page: present; dirty */
	atomic_bool torn;        /* zeros were shown for a page that could not be fetched */
	bool zeros;              /* the space had only zeros when the view was made */
	bool singly;             /* the node lost a page of it: fetch pages one by one */
	struct cn_cache_key key; /* key of the view's first page; serial 0: do not cache */
	struct cn_readahead ahead;
	/* Where its pages are read, and by which life and client. */
	char home[CN_HOME_MAX];
	uint64_t life;
	uint32_t client;
	struct lend_memspace wire;
};

extern const struct cn_view_ops cn_fault_ops;

/* here: the number of pages, of at most n, that are present up to the first missing one. missing:
 * the number that are missing up to the first present one. */
uint64_t cn_paged_present(const struct cn_paged_view *f, uint64_t page, uint64_t n);
uint64_t cn_paged_missing(const struct cn_paged_view *f, uint64_t page, uint64_t n);
/* Returns the length in bytes of n pages, without the part past the end of the space. */
uint64_t cn_paged_len(const struct cn_paged_view *f, uint64_t page, uint64_t n);
/* Fills n missing pages. stored: as dirty and writable, for a store. */
void cn_paged_fill(struct cn_paged_view *f, uint64_t page, uint64_t n, const void *bytes,
		   bool stored);
/* Marks a clean page dirty and removes its protection, for a store. */
void cn_paged_store(struct cn_paged_view *f, uint64_t page);
/* cached: copies the first of n missing pages out of the cache; returns how many pages, up to the
 * first that is not cached. uncached: copies nothing; returns how many, up to the first that is
 * cached. */
uint64_t cn_paged_cached(const struct cn_paged_view *f, uint64_t page, uint64_t n, char *bytes);
uint64_t cn_paged_uncached(const struct cn_paged_view *f, uint64_t page, uint64_t n);
/* Adds pages from the node to the cache; sets the bytes past the end of the space to zero. */
void cn_paged_keep(const struct cn_paged_view *f, uint64_t page, uint64_t n, char *bytes);

#endif
