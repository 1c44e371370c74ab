/* landing - long messages received into page frames.
 *
 * The first bytes of a put or write go into an entry of this table, its payload into the frames
 * that the store has placed it in. A placement that no operation took is undone when the message is
 * released.
 * Layer: mn. Threads: the endpoint's. Owner: node_server.c; borrows endpoint and store. */
#ifndef MN_LANDING_H
#define MN_LANDING_H

#include "lend/rpc.h"
#include "mn/memory.h"
#include "mn/store/exec.h"

struct mn_landings;

/* Returns NULL if there is no memory. */
struct mn_landings *mn_landings_open(struct lend_ep *ep, struct lend_store *store);
/* Long messages are received into huge pages of this memory, which has the store's pages. */
void mn_landings_set_memory(struct mn_landings *table, struct mn_memory *memory);
/* Call it when nothing is in flight. NULL does nothing. */
void mn_landings_close(struct mn_landings *table);
/* Returns where a message of len bytes from this peer is received, of which the first n are known:
 * in frames, in a buffer if it needs none, or NULL if it is too long or memory is short. */
struct lend_buf *mn_landings_choose(struct mn_landings *table, const struct lend_store_peer *peer,
				    const void *first, uint32_t n, uint64_t len);
/* Returns the placement of a message, for lend_store_exec(), once; 0: it is in no frames. */
uint32_t mn_landings_take(struct mn_landings *table, const struct lend_buf *message);

#endif
