/* deferred_release - references that their operation is done with, and nobody waits for: given up
 * at their nodes beside the way, as many per call as have come together meanwhile, until the node
 * has said so. Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_DEFERRED_RELEASE_H
#define LEND_CN_DEFERRED_RELEASE_H

#include "cn/client.h"

/* Room for n references more, so that giving them up cannot fail. 0 or -ENOMEM. */
int cn_left_reserve(struct lend_mem *mem, uint32_t n);
/* Gives up room that was reserved and is not needed. */
void cn_left_unreserve(struct lend_mem *mem, uint32_t n);
/* Takes the place of one reserved. held: this client holds it; else a TRANSFER that nobody got. */
void cn_left_add(struct lend_mem *mem, const struct lend_ref *ref, bool held);
/* Those of a node become a RELEASE in a slot of its, to be cleaned. */
void cn_left_take(struct cn_node *node);
void cn_left_drop(struct lend_mem *mem);

#endif
