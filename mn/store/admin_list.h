/* admin_list - what a store holds, object by object and client by client, and ending one of them,
 * for its operator.
 *
 * All of these do a bounded part of the work per call, so that clients do not wait for an operator.
 * Layer: mn/store (pure). */
#ifndef MN_STORE_ADMIN_LIST_H
#define MN_STORE_ADMIN_LIST_H

#include "mn/store/exec.h"

enum { LEND_LIST_STEP = 4096 }; /* entries looked at per call */

struct lend_list_object {
	uint32_t slot;
	uint64_t serial, len;
	bool is_space;
	uint32_t holds, grants; /* snapshot */
	lend_ns expires;        /* snapshot without a hold: its last grant; else LEND_NEVER */
	uint8_t owner[16];      /* space: its process */
	uint32_t number;        /* and client */
};
/* Objects in slots from *slot on, n at most, into out; *slot is then where to go on, 0: that was
 * all. How many. */
uint32_t lend_store_list(const struct lend_store *store, uint32_t *slot,
			 struct lend_list_object *out, uint32_t n);

struct lend_list_client {
	uint8_t process[16];
	uint64_t life;
	uint32_t number, spaces;
	uint64_t bytes; /* of its spaces and the snapshots that it holds */
	uint64_t holds;
	lend_ns lease; /* what is left of it */
};
/* Clients by index: out has config.clients + 1 entries, zero at first. Adds what lies from *at on
 * to it; *at is then where to go on, 0: that was all. An entry with life 0 is no client. */
void lend_store_list_clients(const struct lend_store *store, lend_ns now, uint32_t *at,
			     struct lend_list_client *out);

/* Ends an object, whoever holds it: NOT_FOUND from then on. False: it was gone. */
bool lend_store_evict(struct lend_store *store, uint32_t slot, uint64_t serial);
/* Ends all lives of this process, as a hang-up does. False: it has none. */
bool lend_store_evict_process(struct lend_store *store, const uint8_t process[16]);

#endif
