/* memnode - a subcommand's client of a memory node: opens it, waits for operations, reads its
 * counters.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_COMMON_MEMNODE_H
#define APPS_COMMON_MEMNODE_H

#include "lend/mem.h"

/* Opens a client of the node at address; NULL: of none yet. app_die() with a fix when no node
 * answers. */
struct lend_mem *app_node_open(struct lend_ep *ep, const char *address);
/* Waits for an operation that was started with result rc (0 or a negative errno). app_die("what:
 * ...") unless it succeeds. */
void app_node_wait(struct lend_mem *mem, struct lend_op *op, int rc, const char *what);
void app_node_stat(struct lend_mem *mem, struct lend_mem_stat *stat);
/* Does the same for a second, without the counters; returns the status. */
enum lend_status app_node_try(struct lend_mem *mem);
/* Like app_node_stat(), but waits up to a second until no page is used, since replies in flight
 * still pin pages. */
void app_node_stat_idle(struct lend_mem *mem, struct lend_mem_stat *stat);

#endif
