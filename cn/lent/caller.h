/* caller - the reader's side of lent arguments: sessions to the callers that lend them.
 *
 * A caller has an entry in mem->node from CN_NODES_MAX on, and the operation is a GET like one at a
 * memory node, without HELLO, life or lease. Idle entries are used again, the least recently used
 * first. Layer: cn. Threads: the endpoint's. Entries are the client's until it is destroyed. */
#ifndef LEND_CN_LENT_CALLER_H
#define LEND_CN_LENT_CALLER_H

#include "cn/client.h"

/* Returns whether an address is on the carrier by which we reach this peer. */
bool cn_caller_near(const struct lend_peer *peer, const char *home);
/* Returns the index of the entry for this address, or -errno. key: the first byte of the id of the
 * key to connect with; 0: the endpoint's own. */
int cn_caller_find(struct lend_mem *mem, const char *home, uint8_t key);
/* Returns the index of the entry for reads that the peer of a session relays, or -errno. */
int cn_caller_relay(struct lend_mem *mem, lend_session session);
/* Lets the caller of op->parent read for this process, which cannot reach the lender. Returns
 * false: there is none, or it was asked before. */
bool cn_caller_ask_relay(struct cn_op *op);
/* Opens the session of a caller that has none. Returns whether it has one now. */
bool cn_caller_dial(struct cn_node *caller);
void cn_callers_drop(struct lend_mem *mem);

#endif
