/* loan - memory for arguments in the shared heap, and loans that outlive a call.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_LENT_LOAN_H
#define LEND_CN_LENT_LOAN_H

#include "cn/client.h"

/* Ends the client's published loans. */
void cn_loans_drop(struct lend_mem *mem);

#endif
