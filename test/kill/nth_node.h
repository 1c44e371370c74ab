/* nth_node - a memory node at an endpoint of ours. Layer: test. */
#ifndef TEST_KILL_NTH_NODE_H
#define TEST_KILL_NTH_NODE_H

#include <stdbool.h>

#include "lend/rpc.h"

struct nth_node;

/* As mn/lend_mn.c does it: 0 or -errno with lend_why(); *out may be set either way. */
int nth_node_open(struct lend_ep *ep, struct nth_node **out);
/* Serves until something came or lend_stop(); operations that waited for their turn run, too.
 * Returns as lend_turn(). */
int nth_node_turn(struct nth_node *node, struct lend_ep *ep);
/* No page is kept for a message under way. */
bool nth_node_idle(const struct nth_node *node);
/* After lend_close(ep); every ledger is counted: NULL, or what is wrong. empty: every client has
 * left, nothing may be held either. */
const char *nth_node_close(struct nth_node *node, bool empty);

#endif
