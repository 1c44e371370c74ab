/* page_fetch - fetches touched pages, and those that will be touched next, for the waiting threads.
 * Layer: cn. Threads: the pager's, under its lock, except cn_pull_drop(). */
#ifndef LEND_CN_PAGING_PAGE_FETCH_H
#define LEND_CN_PAGING_PAGE_FETCH_H

#include "cn/paging/paged_view.h"

/* open: with the pager's endpoint; 0 or -ENOMEM. close: after that endpoint was closed, when no
 * memory is served any more. */
int cn_pull_open(struct lend_ep *ep);
void cn_pull_close(void);
/* Returns whether there is room to serve one more touch. */
bool cn_pull_room(void);
/* A thread waits for a missing page. */
void cn_pull_touch(struct cn_fault *f, uint64_t page, bool store);
/* Retries failed READs that are due. Returns the time of the next retry; LEND_NEVER: none. */
lend_ns cn_pull_again(lend_ns now);
/* The memory is about to be freed. Nothing of it is used here when this returns. */
void cn_pull_drop(struct cn_fault *f);
/* Adds its counters. */
void cn_pull_stat(struct lend_mem_cache_stat *stat);

#endif
