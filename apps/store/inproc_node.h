/* inproc_node - a memory node in this process, so that both ends of an operation are in one thread.
 * Layer: apps/store, which may include the node's code. Threads: one at a time polls it, the
 * caller's or its own. */
#ifndef APPS_STORE_INPROC_NODE_H
#define APPS_STORE_INPROC_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "lend/rpc.h"

struct app_inproc;

/* Opens a node of bytes, in pages of page bytes (0: 4 KiB), that listens on listen. Stores its
 * address in text[0, cap). app_die() when it cannot be opened. */
struct app_inproc *app_inproc_open(const char *listen, const char *eal, uint64_t bytes,
				   uint32_t page, char *text, size_t cap);
/* app_inproc_ep() returns the node's endpoint, which the caller polls alternately with the
 * client's. app_inproc_between() does the node's work after each poll. */
struct lend_ep *app_inproc_ep(struct app_inproc *node);
void app_inproc_between(void *node);
/* Polls the node's endpoint once, then does the node's work. */
void app_inproc_turn(struct app_inproc *node);
/* Start and end a thread that polls the node. Needed while a client closes, since closing blocks
 * until the node answers. NULL: do nothing. */
void app_inproc_alone_begin(struct app_inproc *node);
void app_inproc_alone_end(struct app_inproc *node);
/* Closes the node, after its clients are closed. NULL: does nothing. */
void app_inproc_close(struct app_inproc *node);

#endif
