/* inline_threshold - from which length on an argument is better lent than sent, by measurement.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_INLINE_THRESHOLD_H
#define LEND_CN_ARGS_INLINE_THRESHOLD_H

#include "cn/client.h"

/* Bytes; measures beside the way what is not known yet. node: as named, from 0. */
uint64_t cn_gauge(struct lend_mem *mem, lend_session session, uint16_t node);
/* A call of its is under way. */
bool cn_gauge_busy(const struct lend_mem *mem);
void cn_gauge_cancel(struct lend_mem *mem);
void cn_gauge_drop(struct lend_mem *mem);

#endif
