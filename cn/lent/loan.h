/* loan - memory for arguments in the shared heap, and loans that outlive a call.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_LENT_LOAN_H
#define LEND_CN_LENT_LOAN_H

#include "cn/client.h"

/* Ends the client's published loans. */
void cn_loans_drop(struct lend_mem *mem);
/* Ends loans and results that have expired, by this time at the latest. */
void cn_loans_watch(struct lend_mem *mem, lend_ns at);
/* Returns whether ref is of a loan that this client published. */
bool cn_loan_is_own(const struct lend_mem *mem, const struct lend_memref *ref);

#endif
