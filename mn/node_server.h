/* node_server - operations from sessions into the store, and replies back, without a copy of page
 * bytes.
 *
 * Long puts and writes land in page frames; replies are chains of pages, pinned until no carrier
 * reads them any more. What a session may do follows the life that it opened or joined; when the
 * last session of one that was on shm hangs up, what it held is gone at once.
 * Layer: mn. Threads: the endpoint's. Owner: mnd; borrows endpoint and store. */
#ifndef MN_NODE_SERVER_H
#define MN_NODE_SERVER_H

#include "lend/rpc.h"
#include "mn/store/exec.h"
#include "mn/tenants.h"

struct mn_serve;

/* Registers everything at ep. 0 or -errno with lend_why(). */
int mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);
/* Before the first session. The tenants stay the caller's. */
void mn_serve_set_tenants(struct mn_serve *serve, const struct mn_tenants *tenants);
/* Runs requests that wait in their processes' queues. Once per turn of the endpoint. */
void mn_serve_turn(struct mn_serve *serve);
/* Requests wait for the next mn_serve_turn(): do not sleep before it. */
bool mn_serve_waits(const struct mn_serve *serve);
/* Operations are UNAVAILABLE and not run from now on. */
void mn_serve_refuse(struct mn_serve *serve);
/* After lend_close(ep): nothing is under way. */
void mn_serve_close(struct mn_serve *serve);

#endif
