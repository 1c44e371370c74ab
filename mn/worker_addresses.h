/* worker_addresses - the addresses of a node's workers: worker i at NAME.i or PORT + i of what
 * worker 0 has. Layer: mn. Threads: the main one, before the workers run. */
#ifndef MN_WORKER_ADDRESSES_H
#define MN_WORKER_ADDRESSES_H

#include "mn/node_worker.h"

/* Opens the endpoints of n workers at config->listen. Where a port is to be picked and its
 * neighbours are taken, another one is tried. 0 or -errno with lend_why(). */
int mn_shards_listen(struct mn_worker *worker, uint32_t n, const struct mn_config *config);
/* Addresses, comma separated, worker by worker, of as many as there is room for: what HELLO tells
 * to people and tools. Clients go by the rule. */
void mn_shards_text(const struct mn_worker *worker, uint32_t n, char text[LEND_MEMOP_TEXT_MAX + 1]);

#endif
