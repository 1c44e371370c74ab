/* peers - who is at the other end of each session, and what it held once it has hung up.
 * Layer: mn. Threads: the endpoint's. */
#ifndef MN_PEERS_H
#define MN_PEERS_H

#include "lend/rpc.h"
#include "mn/crowd.h"
#include "mn/fair.h"
#include "mn/store/exec.h"
#include "mn/tenants.h"

struct mn_peers;

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out);
void mn_peers_close(struct mn_peers *peers);
/* Before the first session: as a worker of several, who share what they know of processes. The
 * crowd and the tenants stay the caller's. */
void mn_peers_join(struct mn_peers *peers, struct mn_crowd *crowd, const struct mn_tenants *tenants,
		   uint32_t worker);
/* What processes that hung up at any worker held here is gone. Once per turn. */
void mn_peers_hear(struct mn_peers *peers);
/* The incarnation behind a session, 16 bytes, valid while it lives, and whose it is; NULL: unknown.
 */
const uint8_t *mn_peers_find(struct mn_peers *peers, lend_session session, uint32_t *tenant);

/* The queue of the process behind a session, which must be known; all of them, and what becomes of
 * what waits when a process is gone. */
struct mn_flow *mn_peers_flow(struct mn_peers *peers, lend_session session);
struct mn_fair *mn_peers_fair(struct mn_peers *peers, void (*drop)(struct mn_wait *wait, void *arg),
			      void *arg);

#endif
