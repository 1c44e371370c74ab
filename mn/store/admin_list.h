/* admin_list - lists a store's objects and clients for its operator, and ends one of them.
 *
 * Each call does a bounded part of the work, so that clients do not wait for an operator.
 * Layer: mn/store (pure). */
#ifndef MN_STORE_ADMIN_LIST_H
#define MN_STORE_ADMIN_LIST_H

#include "mn/store/exec.h"

enum { LEND_LIST_STEP = 4096 }; /* entries examined per call */

struct lend_list_object {
	uint32_t slot;
	uint64_t serial, len;
	bool is_space;
	uint32_t holds, grants; /* snapshot: its holds and its grants */
	lend_ns expires;   /* snapshot without a hold: end of its last grant; else LEND_NEVER */
	uint8_t owner[16]; /* space: its process */
	uint32_t number;   /* space: its client */
};
/* Lists at most n objects, in slots from *slot on, into out. Returns how many. Sets *slot to where
 * to continue; 0: the list is complete. */
uint32_t lend_store_list(const struct lend_store *store, uint32_t *slot,
			 struct lend_list_object *out, uint32_t n);

struct lend_list_client {
	uint8_t process[16];
	uint64_t life;
	uint32_t number, spaces;
	uint64_t bytes; /* bytes of its spaces and the snapshots that it holds */
	uint64_t holds;
	lend_ns lease; /* time left of its lease */
};
/* Lists clients by index. out has config.clients + 1 entries, zero before the first call. Each call
 * adds the data from *at on and sets *at to where to continue; 0: the list is complete. An entry
 * with life 0 is not a client. */
void lend_store_list_clients(const struct lend_store *store, lend_ns now, uint32_t *at,
			     struct lend_list_client *out);

/* Ends an object, also one that clients hold: operations on it return NOT_FOUND from then on.
 * False: it did not exist any more. */
bool lend_store_evict(struct lend_store *store, uint32_t slot, uint64_t serial);
/* Ends all lives of this process, as a hang-up does. False: it has none. */
bool lend_store_evict_process(struct lend_store *store, const uint8_t process[16]);

#endif
