/* nth_node - a memory node at an endpoint of ours. Layer: test. */
#ifndef TEST_KILL_NTH_NODE_H
#define TEST_KILL_NTH_NODE_H

#include "lend/rpc.h"

struct nth_node;

/* As mnd.c does it: 0 or -errno with lend_why(); *out may be set either way. */
int nth_node_open(struct lend_ep *ep, struct nth_node **out);
/* After lend_close(ep); every ledger is counted: it stops the process when one is wrong. */
void nth_node_close(struct nth_node *node);

#endif
