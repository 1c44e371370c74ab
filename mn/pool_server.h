/* pool_server - pages for the processes of this host to map: who has the file, and when they are
 * gone.
 *
 * A thread of its own waits on the sockets and only notes what happened; the store hears of it in
 * the worker's turn, so that nothing of it is touched by two.
 * Layer: mn. Threads: as said. Owner: the worker; borrows endpoint, store and memory. */
#ifndef MN_POOL_SERVER_H
#define MN_POOL_SERVER_H

#include "lend/rpc.h"
#include "mn/config.h"
#include "mn/memory.h"
#include "mn/store/exec.h"

struct mn_pool;

/* Finds "pool:NAME" among the addresses: config then listens at shm:NAME, for that is where such a
 * client's calls come, names the pool, and has memory that can be mapped. 0, or -EINVAL with
 * lend_why(). */
int mn_pool_plan(struct mn_config *config);
/* Addresses as people give them: the one of the pool begins with "pool:". */
void mn_pool_text(const struct mn_config *config, const char *addresses, char *out, size_t cap);
/* Seals the memory, if it can be, and listens at NAME. 0 or -errno with lend_why(). */
int mn_pool_open(struct lend_ep *ep, struct lend_store *store, struct mn_memory *memory,
		 const char *name, struct mn_pool **out);
/* What happened since: each turn. Cheap when nothing did. NULL is nothing. */
void mn_pool_turn(struct mn_pool *pool);
/* Before the endpoint closes. NULL is nothing. */
void mn_pool_close(struct mn_pool *pool);

#endif
