/* node_worker - one endpoint with one store behind it, and the thread that runs the event loop of
 * both.
 *
 * Workers share nothing: each has its own addresses, sessions, leases and pages, and a reference
 * contains the number of its worker.
 * Layer: mn. Threads: listen, open and close before and after run; run is the worker's own. Owner:
 * lend_mn.c. */
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
	char address[LEND_MEMOP_TEXT_MAX + 1]; /* its addresses, in the form of lend_address() */
	pthread_t thread;
	bool pin, running;
	bool keep; /* leave the store's memory for the next start */
	uint32_t drain_ms, clients;
	struct mn_query ask;
	int rc; /* result of run() in a thread, with its lend_why() */
	char why[512];
	atomic_uint *leaving;    /* borrowed, shared by all workers; 2: at once */
	void (*leave_all)(void); /* sets *leaving and wakes all workers */
	uint64_t tx_bytes;       /* set by close_endpoint(), like tx_in_place */
	uint64_t tx_in_place; /* datagrams with pages that a device or its driver read in place */
	struct lend_memstats published; /* by lend_stats_publish(), as last read */
};

/* Opens the endpoint; index is set, all else zero. */
int mn_worker_listen(struct mn_worker *worker, const struct mn_config *config, const char *listen);
/* Builds the store and the server for it. store is complete except for the worker, which is the
 * worker's index. */
int mn_worker_open(struct mn_worker *worker, const struct mn_config *config,
		   const struct lend_store_config *store);
/* Run the event loop until *leaving is set: in this thread (run), or in a thread of its own
 * (start). run returns 0 or the -errno of a failure; a failure in a thread of its own makes all
 * workers leave. start returns 0 or -errno when there is no thread. */
int mn_worker_run(struct mn_worker *worker);
int mn_worker_start(struct mn_worker *worker);
int mn_worker_join(struct mn_worker *worker); /* returns the result of run(); lend_why() is set */
/* Close the sessions, after which counters can still be read; then free the rest. Neither fails. */
void mn_worker_close_endpoint(struct mn_worker *worker);
void mn_worker_close(struct mn_worker *worker);

#endif
