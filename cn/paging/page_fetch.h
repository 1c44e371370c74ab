/* page_fetch - pages on their way to who touched them, and those that will be touched next.
 * Layer: cn. Threads: the pager's, under its lock, but for cn_pull_drop(). */
#ifndef LEND_CN_PAGING_PAGE_FETCH_H
#define LEND_CN_PAGING_PAGE_FETCH_H

#include "cn/paging/paged_view.h"

/* With the pager's endpoint; 0 or -ENOMEM. close: after that was closed, and no memory is left. */
int cn_pull_open(struct lend_ep *ep);
void cn_pull_close(void);
/* There is room for what one more touch needs. */
bool cn_pull_room(void);
/* A thread waits for a missing page. */
void cn_pull_touch(struct cn_fault *f, uint64_t page, bool store);
/* Asks again where an answer failed and it is time to. When to look again: LEND_NEVER, no need. */
lend_ns cn_pull_again(lend_ns now);
/* This memory ends; nothing of it is used here when this returns. */
void cn_pull_drop(struct cn_fault *f);
/* Adds its counters. */
void cn_pull_stat(struct lend_mem_cache_stat *stat);

#endif
