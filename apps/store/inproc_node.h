/* inproc_node - a memory node in this process: both ends of an operation in one thread.
 * Layer: apps/store, which sees into the node. Threads: one at a time turns it, the caller's or its
 * own. */
#ifndef APPS_STORE_INPROC_NODE_H
#define APPS_STORE_INPROC_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "lend/rpc.h"

struct app_inside;

/* A node for so many bytes, in pages of page bytes (0: 4 KiB), that listens there; its address goes
 * into text. app_die() when it cannot be opened. */
struct app_inside *app_inside_open(const char *listen, const char *eal, uint64_t bytes,
				   uint32_t page, char *text, size_t cap);
/* To be polled by turns with the client's endpoint, and what the node does after each of them. */
struct lend_ep *app_inside_ep(struct app_inside *node);
void app_inside_between(void *node);
/* Both. */
void app_inside_turn(struct app_inside *node);
/* A thread of its own turns it, from begin to end: who closes a client waits for the node. NULL is
 * nothing. */
void app_inside_alone_begin(struct app_inside *node);
void app_inside_alone_end(struct app_inside *node);
/* After its clients are closed. NULL is nothing. */
void app_inside_close(struct app_inside *node);

#endif
