/* memnode - a memory node as a subcommand sees it: opened, waited for, asked.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_COMMON_MEMNODE_H
#define APPS_COMMON_MEMNODE_H

#include "lend/mem.h"

/* Opens a client of the node at address; app_die() naming the mend when there is none. */
struct lend_mem *app_node_open(struct lend_ep *ep, const char *address);
/* Waits for an operation that was started with rc (0 or a negative errno): app_die("what: ...")
 * unless it went well. */
void app_node_wait(struct lend_mem *mem, struct lend_op *op, int rc, const char *what);
void app_node_stat(struct lend_mem *mem, struct lend_mem_stat *stat);
/* The same, but waits up to a second until no page is used: replies under way still hold theirs. */
void app_node_stat_idle(struct lend_mem *mem, struct lend_mem_stat *stat);

#endif
