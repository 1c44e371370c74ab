/* worker_addresses - the addresses of a node's workers: worker i is at NAME.i or PORT + i, counted
 * from worker 0's.
 * Layer: mn. Threads: the main one, before the workers run. */
#ifndef MN_WORKER_ADDRESSES_H
#define MN_WORKER_ADDRESSES_H

#include "mn/node_worker.h"

/* Opens the endpoints of n workers at config->listen. When the port is to be picked and the ports
 * next to it are in use, tries another one. Returns 0, or -errno with lend_why(). */
int mn_addresses_listen(struct mn_worker *worker, uint32_t n, const struct mn_config *config);
/* Writes the addresses of as many workers as fit, comma separated, in the order of the workers.
 * HELLO carries this text for operators and tools; clients derive addresses by the rule above. */
void mn_addresses_text(const struct mn_worker *worker, uint32_t n,
		       char text[LEND_MEMOP_TEXT_MAX + 1]);

#endif
