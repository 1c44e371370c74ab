/* sealed_sessions - which sessions of an endpoint are sealed, and with which keys: joins shake.h,
 * the process's keys and the records.
 *
 * A session on a carrier with a level is sealed or does not exist. An endpoint without a key of its
 * own uses the file of keys, which is made at the first such carrier. Layer: rpc. Threads: the
 * endpoint's. */
#ifndef LEND_RPC_SEALED_SESSIONS_H
#define LEND_RPC_SEALED_SESSIONS_H

#include "core/core.h"

struct lend_ep;
/* Prepares an endpoint for a carrier with this level. 0, or -errno with lend_why(). */
int lend_sealed_prepare(struct lend_ep *ep, uint32_t carrier, uint8_t level);
/* Joins it to core and records, when both exist. */
void lend_sealed_attach(struct lend_ep *ep);
void lend_sealed_close(struct lend_ep *ep);
/* Adds how a session to this address on this carrier is to be sealed. */
void lend_sealed_propose(struct lend_ep *ep, uint32_t carrier, const char *address,
			 struct lend_core_identity *self);
/* Handles LEND_EV_PROVE; false: the session is not sealed. */
bool lend_sealed_made(struct lend_ep *ep, const struct lend_event *ev);
/* Wipes what is kept of a session that has ended. */
void lend_sealed_ended(struct lend_ep *ep, uint64_t session);
/* Ends the sessions whose keys were removed by a reload, and chooses the key of later ones. */
void lend_sealed_reloaded(struct lend_ep *ep);

#endif
