/* peers - the sessions of a memory node, the lives that they have joined, and hang-ups.
 *
 * Before HELLO a session has a queue of its own: its incarnation is no secret and proves nothing.
 * After HELLO all sessions of one life share one queue. When the last of them ends, and one of them
 * was on shm, everything that the life held is released.
 * Layer: mn. Threads: the endpoint's. */
#ifndef MN_PEERS_H
#define MN_PEERS_H

#include "lend/rpc.h"
#include "mn/fair_queue.h"
#include "mn/store/exec.h"
#include "mn/tenants.h"

struct mn_peers;

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out);
/* Frees the peers. Call it after lend_close(ep), which ends the sessions. */
void mn_peers_close(struct mn_peers *peers);
/* Sets the tenants, before the first session. They stay the caller's. */
void mn_peers_set_tenants(struct mn_peers *peers, const struct mn_tenants *tenants);
/* Returns the store's data of a session, valid while the session lives; NULL: it has ended. */
struct lend_store_peer *mn_peers_find(struct mn_peers *peers, lend_session session);
/* Moves a session to the life that its last HELLO opened or joined. */
void mn_peers_update_life(struct mn_peers *peers, lend_session session);

/* mn_peers_flow() returns the queue of the process behind a session, which must exist.
 * mn_peers_fair() returns the queue of all processes; drop() gets the operations that still wait
 * when a process ends. */
struct mn_flow *mn_peers_flow(struct mn_peers *peers, lend_session session);
struct mn_fair *mn_peers_fair(struct mn_peers *peers, void (*drop)(struct mn_wait *wait, void *arg),
			      void *arg);

#endif
