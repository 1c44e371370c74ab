/* node_server - runs operations that arrive from sessions in the store, and sends replies, without
 * copying page bytes.
 *
 * The payloads of long puts and writes are received directly into page frames. Replies are chains
 * of pages, pinned until the carrier no longer reads them. The permissions of a session follow the
 * life that it opened or joined. When the last session of a life that used shm hangs up, everything
 * that the life held is released at once.
 * Layer: mn. Threads: the endpoint's. Owner: lend_mn.c; borrows endpoint and store. */
#ifndef MN_NODE_SERVER_H
#define MN_NODE_SERVER_H

#include "lend/rpc.h"
#include "mn/memory.h"
#include "mn/store/exec.h"
#include "mn/tenants.h"

struct mn_serve;

/* Registers the methods and the session callback at ep. Returns 0, or -errno with lend_why(). */
int mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);
/* Names the memory of the store's pages, before the first session: long messages go to huge pages
 * of it. It stays the caller's. */
void mn_serve_set_memory(struct mn_serve *serve, struct mn_memory *pages);
/* Sets the tenants, before the first session. They stay the caller's. */
void mn_serve_set_tenants(struct mn_serve *serve, const struct mn_tenants *tenants);
/* Runs requests from their processes' queues. Call it once per event-loop iteration of the
 * endpoint. */
void mn_serve_turn(struct mn_serve *serve);
/* Returns whether requests wait for the next mn_serve_turn(): do not sleep before it. */
bool mn_serve_waits(const struct mn_serve *serve);
/* Refuses all operations from now on: they do not run, and their reply is UNAVAILABLE. */
void mn_serve_refuse(struct mn_serve *serve);
/* Frees the server. Call it after lend_close(ep), when nothing is in flight. */
void mn_serve_close(struct mn_serve *serve);

#endif
