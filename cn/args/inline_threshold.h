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
/* Returns whether an argument of a method is lent, rather than sent inline. Where the method has
 * one service, which reads in place, calls are tried both ways (way_trial.h). tag: of a call that
 * is tried, for cn_threshold_tried(); else 0. */
bool cn_threshold_lends(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
			uint8_t *tag);
/* Notes the time in ns of a call that was tried. */
void cn_threshold_tried(struct lend_mem *mem, lend_session session, uint32_t method, uint64_t len,
			uint8_t tag, lend_ns time);
/* Notes how many services a message of this method went through, as its reply reports. */
void cn_threshold_learn(struct lend_mem *mem, lend_session session, uint32_t method, uint8_t hops);
/* Returns whether messages of this method go through two services at least, as far as is known. */
bool cn_threshold_passed_on(struct lend_mem *mem, lend_session session, uint32_t method);
/* Returns whether a measuring call is in flight. */
bool cn_threshold_busy(const struct lend_mem *mem);
void cn_threshold_cancel(struct lend_mem *mem);
void cn_threshold_drop(struct lend_mem *mem);

#endif
