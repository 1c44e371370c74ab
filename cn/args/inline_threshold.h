/* inline_threshold - the length from which an argument is passed by reference, from measurements.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_INLINE_THRESHOLD_H
#define LEND_CN_ARGS_INLINE_THRESHOLD_H

#include "cn/client.h"

/* Returns the threshold in bytes, and starts measurements of unknown costs in the background. node:
 * index in order of naming, from 0. */
uint64_t cn_threshold(struct lend_mem *mem, lend_session session, uint16_t node);
/* A measuring call is under way. */
bool cn_threshold_busy(const struct lend_mem *mem);
void cn_threshold_cancel(struct lend_mem *mem);
void cn_threshold_drop(struct lend_mem *mem);

#endif
