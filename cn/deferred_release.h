/* deferred_release - references that no operation needs any more and no caller waits for. They are
 * released at their nodes in the background: one RELEASE takes those that gathered meanwhile,
 * and is repeated until the node confirms it. Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_DEFERRED_RELEASE_H
#define LEND_CN_DEFERRED_RELEASE_H

#include "cn/client.h"

/* Reserves n entries, so that adding references cannot fail. Returns 0 or -ENOMEM. */
int cn_deferred_reserve(struct lend_mem *mem, uint32_t n);
/* Gives back reserved entries that are not needed. */
void cn_deferred_unreserve(struct lend_mem *mem, uint32_t n);
/* Adds a reference in one reserved entry. held: this client holds it; else it is a TRANSFER without
 * a receiver. */
void cn_deferred_add(struct lend_mem *mem, const struct lend_ref *ref, bool held);
/* Moves the node's references into a RELEASE in one of its slots, to be sent by the cleaning. */
void cn_deferred_take(struct cn_node *node);
void cn_deferred_drop(struct lend_mem *mem);

#endif
