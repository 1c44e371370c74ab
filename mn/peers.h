/* peers - who is at the other end of each session, and when a process's last one on shm is gone.
 * Layer: mn. Threads: the endpoint's. */
#ifndef MN_PEERS_H
#define MN_PEERS_H

#include "lend/rpc.h"
#include "mn/store/exec.h"

struct mn_peers;

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out);
void mn_peers_close(struct mn_peers *peers);
/* The incarnation behind a session: 16 bytes, valid while it lives; NULL: unknown. */
const uint8_t *mn_peers_find(struct mn_peers *peers, lend_session session);

#endif
