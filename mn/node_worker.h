/* node_worker - one endpoint with one store behind it, and the thread that turns both.
 *
 * Workers share nothing: each has addresses, sessions, leases and pages of its own, and a reference
 * names its worker.
 * Layer: mn. Threads: listen, open and close before and after run; run is the worker's own.
 * Owner: mnd. */
#ifndef MN_NODE_WORKER_H
#define MN_NODE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "mn/worker_query.h"
#include "mn/config.h"
#include "mn/memory.h"
#include "mn/pool_server.h"
#include "mn/node_server.h"

struct mn_worker {
	uint32_t index;
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_serve *serve;
	const struct mn_tenants *tenants; /* borrowed; NULL: no quotas */
	struct mn_pool *pool;             /* or NULL */
	struct mn_memory arena, pages;
	char address[LEND_MEMOP_TEXT_MAX + 1]; /* where it is reached, as lend_address() says */
	pthread_t thread;
	bool pin, running;
	bool keep; /* what it holds stays for the next start */
	uint32_t drain_ms, clients;
	struct mn_ask ask;
	int rc; /* of run() in a thread, with its lend_why() */
	char why[512];
	atomic_uint *leaving; /* borrowed: all workers'; 2: at once */
	uint64_t tx_bytes;    /* after close_endpoint() */
};

/* Opens the endpoint; index is set, all else zero. */
int mn_worker_listen(struct mn_worker *worker, const struct mn_config *config, const char *listen);
/* Builds the store around which it serves; what is in store is filled in but for pages and tables.
 */
int mn_worker_open(struct mn_worker *worker, const struct mn_config *config,
		   const struct lend_store_config *store);
/* Turns until *leaving, in this thread or in one of its own; whoever fails tells the others to
 * leave, too. start: 0 or -errno. */
int mn_worker_run(struct mn_worker *worker);
int mn_worker_start(struct mn_worker *worker);
int mn_worker_join(struct mn_worker *worker); /* what run() gave; lend_why() is set */
/* Ends its sessions; counters can still be read. Then the rest. Both never fail. */
void mn_worker_close_endpoint(struct mn_worker *worker);
void mn_worker_close(struct mn_worker *worker);

#endif
