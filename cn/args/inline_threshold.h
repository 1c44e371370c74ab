/* inline_threshold - the length from which an argument is passed by reference, from measurements.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_INLINE_THRESHOLD_H
#define LEND_CN_ARGS_INLINE_THRESHOLD_H

#include "cn/client.h"

/* Returns the length in bytes of the longest argument of a method that is sent inline. Starts
 * measurements of unknown costs that len bytes need, in the background. lent: by reference means
 * lent memory of the caller; else a memory node. */
uint64_t cn_threshold(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
		      bool lent);
/* Notes how many services a message of this method went through, as its reply reports. */
void cn_threshold_learn(struct lend_mem *mem, lend_session session, uint32_t method, uint8_t hops);
/* Returns whether messages of this method go through two services at least, as far as is known. */
bool cn_threshold_passed_on(struct lend_mem *mem, lend_session session, uint32_t method);
/* Returns whether a measuring call is in flight. */
bool cn_threshold_busy(const struct lend_mem *mem);
void cn_threshold_cancel(struct lend_mem *mem);
void cn_threshold_drop(struct lend_mem *mem);

#endif
