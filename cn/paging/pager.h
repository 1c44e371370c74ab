/* pager - the thread that serves touches of missing pages, one per process, with an endpoint of its
 * own. It runs while at least one client has joined it. Layer: cn. Threads: any. */
#ifndef LEND_CN_PAGING_PAGER_H
#define LEND_CN_PAGING_PAGER_H

#include "cn/paging/paged_view.h"

/* join: starts the thread if needed. Returns the descriptor to register memory with; -errno with
 * lend_why(). A second join by the same client does nothing more. */
int cn_pager_join(struct lend_mem *mem);
void cn_pager_leave(struct lend_mem *mem);
/* add: serves this memory from now on: 0, -ENOMEM, or -errno of lend_connect(): the thread's own
 * endpoint opens the carrier first. del: stops serving; the thread does not use it
 * any more. Returns false in a fork's child, which does not have the memory. */
int cn_pager_add(struct cn_paged_view *f);
bool cn_pager_del(struct cn_paged_view *f);
/* While the lock is held, pages do not change, except missing ones that a prefetch fills. The
 * holder must not touch such memory. */
void cn_pager_lock(void);
void cn_pager_unlock(void);
void cn_pager_prefetched(uint64_t pages);
void cn_pager_stat(struct lend_mem_cache_stat *stat);

#endif
