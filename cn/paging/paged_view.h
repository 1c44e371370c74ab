/* paged_view - a space over a network as memory: pages come when they are touched.
 *
 * A page is missing, or here and clean, or here and stored to. It becomes here once, and stays;
 * clean pages are protected, so that the first store is told and marks the page before it happens.
 * Layer: cn. Threads: the marks are atomic; what else changes is under the pager's lock. */
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
	_Atomic uint64_t *here, *stored; /* a bit per page */
	atomic_bool torn;                /* zeros stood for a page */
	bool zeros;                      /* the space was zeros when this began */
	bool singly;             /* the node lost a page of it: one is asked for at a time */
	struct cn_cache_key key; /* of its first page; serial 0: not for the cache */
	struct cn_ahead ahead;
	/* how to ask for its pages */
	char home[CN_HOME_MAX];
	uint64_t life;
	uint32_t client;
	struct lend_memspace wire;
};

extern const struct cn_view_ops cn_fault_ops;

/* The first of at most n pages from here on that are not here: how many are; and how many are not.
 */
uint64_t cn_fault_here(const struct cn_fault *f, uint64_t page, uint64_t n);
uint64_t cn_fault_missing(const struct cn_fault *f, uint64_t page, uint64_t n);
/* Bytes of n pages that the space has. */
uint64_t cn_fault_len(const struct cn_fault *f, uint64_t page, uint64_t n);
/* Fills n missing pages; stored: they are given for a store. */
void cn_fault_fill(struct cn_fault *f, uint64_t page, uint64_t n, const void *bytes, bool stored);
/* Lets go of a clean page for a store. */
void cn_fault_store(struct cn_fault *f, uint64_t page);
/* Of n missing pages, the first ones that are in the cache, copied out; without bytes none is
 * copied, and it is how many are not. */
uint64_t cn_fault_cached(const struct cn_fault *f, uint64_t page, uint64_t n, char *bytes);
uint64_t cn_fault_uncached(const struct cn_fault *f, uint64_t page, uint64_t n);
/* Pages that came from the node; what is past the end of the space becomes zero. */
void cn_fault_keep(const struct cn_fault *f, uint64_t page, uint64_t n, char *bytes);

#endif
