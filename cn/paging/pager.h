/* pager - the thread that serves touches of missing pages, one per process, with an endpoint of its
 * own. It lives while a client has joined it. Layer: cn. Threads: any. */
#ifndef LEND_CN_PAGING_PAGER_H
#define LEND_CN_PAGING_PAGER_H

#include "cn/paging/paged_view.h"

/* The descriptor that memory is to be registered with, of a thread that runs; -errno with
 * lend_why(). Once more by the same client is nothing more. */
int cn_pager_join(struct lend_mem *mem);
void cn_pager_leave(struct lend_mem *mem);
/* Serves this memory from now on, or -ENOMEM. del: no longer, and nothing of the thread's uses it
 * any more; false in a fork's child, which has no such memory. */
int cn_pager_add(struct cn_fault *f);
bool cn_pager_del(struct cn_fault *f);
/* While it is held no page changes but missing ones by prefetch. The holder touches no such memory.
 */
void cn_pager_lock(void);
void cn_pager_unlock(void);
void cn_pager_prefetched(uint64_t pages);
void cn_pager_stat(struct lend_mem_cache_stat *stat);

#endif
