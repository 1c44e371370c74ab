/* shown_memory - an endpoint's part of lend/one_sided.h. Layer: rpc. Threads: the endpoint's. */
#ifndef LEND_RPC_SHOWN_MEMORY_H
#define LEND_RPC_SHOWN_MEMORY_H

#include "lend/rpc.h"

/* Registers the method by which peers agree on reads and report their end. */
int lend_one_sided_serve(struct lend_ep *ep);

#endif
