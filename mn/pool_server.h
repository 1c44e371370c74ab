/* pool_server - offers the pages for processes of this host to map: passes them the file, and
 * detects their end.
 *
 * A thread of its own waits on the sockets and only queues events. The worker's thread handles them
 * in its event loop, so only one thread accesses the store.
 * Layer: mn. Threads: see above. Owner: the worker; borrows endpoint, store and memory. */
#ifndef MN_POOL_SERVER_H
#define MN_POOL_SERVER_H

#include "lend/rpc.h"
#include "mn/config.h"
#include "mn/memory.h"
#include "mn/store/exec.h"

struct mn_pool;

/* Finds "pool:NAME" among the addresses. Then config listens at shm:NAME instead, where calls of
 * the pool's clients arrive, names the pool, and uses memory that can be mapped. Returns 0, or
 * -EINVAL with lend_why(). */
int mn_pool_plan(struct mn_config *config);
/* Writes addresses in the form that users give: the one of the pool begins with "pool:". */
void mn_pool_text(const struct mn_config *config, const char *addresses, char *out, size_t cap);
/* Seals a worker's memory, if that is possible, and listens at the name of its shm address. 0, or
 * -errno with lend_why(). */
int mn_pool_open(struct lend_ep *ep, struct lend_store *store, struct mn_memory *memory,
		 const char *name, struct mn_pool **out);
/* Handles the queued events. Call it once per event-loop iteration; cheap when there are none. NULL
 * is ignored. */
void mn_pool_turn(struct mn_pool *pool);
/* Ends the pool. Call it before the endpoint closes. NULL is ignored. */
void mn_pool_close(struct mn_pool *pool);

#endif
