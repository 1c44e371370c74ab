/* args_serve - methods whose requests are arguments: see lend_serve_args().
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_ARGS_SERVE_H
#define LEND_CN_ARGS_ARGS_SERVE_H

#include "cn/client.h"

/* Ends the client's methods. Requests whose arguments are being fetched are refused when their
 * fetches end. */
void cn_serves_end(struct lend_mem *mem);
/* Requests of this client are in handlers or being fetched. */
bool cn_serves_busy(const struct lend_mem *mem);
void cn_serves_drop(struct lend_mem *mem);

#endif
