/* peers - the sessions of a memory node, the lives that they proved to be of, and hang-ups.
 *
 * Before HELLO a session has a queue of its own: its incarnation is no secret and proves nothing.
 * After HELLO all sessions of one life share one queue. When the last of them ends, and one of them
 * was on shm, what the life held is gone. Layer: mn. Threads: the endpoint's. */
#ifndef MN_PEERS_H
#define MN_PEERS_H

#include "lend/rpc.h"
#include "mn/fair_queue.h"
#include "mn/store/exec.h"
#include "mn/tenants.h"

struct mn_peers;

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out);
/* After lend_close(ep), which ends the sessions. */
void mn_peers_close(struct mn_peers *peers);
/* Before the first session. The tenants stay the caller's. */
void mn_peers_set_tenants(struct mn_peers *peers, const struct mn_tenants *tenants);
/* A session as the store knows it, valid while it lives; NULL: it has ended. */
struct lend_store_peer *mn_peers_find(struct mn_peers *peers, lend_session session);
/* Moves a session to the life that its last HELLO opened or joined. */
void mn_peers_update_life(struct mn_peers *peers, lend_session session);

/* The queue of the process behind a session, which must be there; all of them, and what becomes of
 * what waits when a process is gone. */
struct mn_flow *mn_peers_flow(struct mn_peers *peers, lend_session session);
struct mn_fair *mn_peers_fair(struct mn_peers *peers, void (*drop)(struct mn_wait *wait, void *arg),
			      void *arg);

#endif
