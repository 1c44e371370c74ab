/* args_serve - methods with requests of arguments: see lend_serve_args().
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_ARGS_SERVE_H
#define LEND_CN_ARGS_ARGS_SERVE_H

#include "cn/client.h"

/* Ends the client's methods. Requests that wait for their arguments are refused when these
 * have been fetched. */
void cn_serves_end(struct lend_mem *mem);
/* Returns whether requests of this client are in handlers, or wait for their arguments. */
bool cn_serves_busy(const struct lend_mem *mem);
void cn_serves_drop(struct lend_mem *mem);

#endif
