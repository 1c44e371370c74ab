/* page_fetch - fetches touched pages, and those that will be touched next, for the waiting threads.
 * Layer: cn. Threads: the pager's, under its lock, except cn_page_fetch_drop(). */
#ifndef LEND_CN_PAGING_PAGE_FETCH_H
#define LEND_CN_PAGING_PAGE_FETCH_H

#include "cn/paging/paged_view.h"

/* open: begins with the pager's endpoint; returns 0 or -ENOMEM. close: ends, after that endpoint
 * was closed and no memory is served any more. */
int cn_page_fetch_open(struct lend_ep *ep);
void cn_page_fetch_close(void);
/* Returns whether there is room to serve one more touch. */
bool cn_page_fetch_room(void);
/* Fetches a missing page that a thread waits for. */
void cn_page_fetch_touch(struct cn_paged_view *f, uint64_t page, bool store);
/* Retries failed READs that are due. Returns the time of the next retry; LEND_NEVER: none. */
lend_ns cn_page_fetch_retry(lend_ns now);
/* Forgets memory that is about to be freed: nothing of it is used here when this returns. */
void cn_page_fetch_drop(struct cn_paged_view *f);
/* Stores the counters of fetches in stat. */
void cn_page_fetch_stat(struct lend_mem_cache_stat *stat);

#endif
