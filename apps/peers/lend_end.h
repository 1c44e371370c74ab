/* lend_end - an endpoint of one of the programs that measure Lend.
 * Layer: apps/peers. Threads: one per process. */
#ifndef APPS_PEERS_LEND_END_H
#define APPS_PEERS_LEND_END_H

#include "apps/peers/peer.h"
#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens an endpoint for requests of the job; app_die() when it does not open. listen: NULL for a
 * client. */
struct lend_ep *peer_end_open(const struct peer_job *job, const char *listen);
/* Returns the address to listen at for a carrier; port 0 lets the carrier choose. */
const char *peer_end_listen(const char *carrier);
/* Runs a turn, which may sleep if the job's ends do. */
void peer_end_turn(const struct peer_job *job, struct lend_ep *ep);
/* Sends the endpoint's address to the client. */
void peer_end_announce(struct lend_ep *ep, struct peer_pipe *channel);
/* Opens a session to the address that the server announced. */
void peer_end_connect(struct lend_ep *ep, const char *address, lend_session *session);

#ifdef __cplusplus
}
#endif

#endif
