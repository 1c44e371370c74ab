/* fail_nth_node - a memory node at an endpoint of the test. Layer: test. */
#ifndef TEST_KILL_FAIL_NTH_NODE_H
#define TEST_KILL_FAIL_NTH_NODE_H

#include <stdbool.h>

#include "lend/rpc.h"

struct nth_node;

/* Like mn/lend_mn.c: 0 or -errno with lend_why(); *out may be set either way. */
int nth_node_open(struct lend_ep *ep, struct nth_node **out);
/* Serves until something arrived or lend_stop(); queued operations run, too. Returns as
 * lend_wait(). */
int nth_node_turn(struct nth_node *node, struct lend_ep *ep);
/* True: no page is pinned for a message in flight. */
bool nth_node_idle(const struct nth_node *node);
/* After lend_close(ep); audits every ledger. Returns NULL, or what is wrong. empty: every client
 * has left, so nothing may be held either. */
const char *nth_node_close(struct nth_node *node, bool empty);

#endif
