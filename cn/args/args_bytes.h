/* args_bytes - replies of arguments to stock gRPC clients: one message of all their bytes. */
#ifndef LEND_CN_ARGS_ARGS_BYTES_H
#define LEND_CN_ARGS_ARGS_BYTES_H

#include "cn/args/args.h"

/* Answers with the bytes of n arguments, one after the other; references are read before. The
 * pieces of arguments are copied at once. Returns 0; -ENOMEM: no memory, nothing was done. */
int cn_args_reply_bytes(struct lend_mem *mem, lend_request request, enum lend_status status,
			const struct lend_argument *arg, int n);

#endif
