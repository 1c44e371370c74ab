/* hold - the references that keep a snapshot: holds, a set of (snapshot, client), and grants that
 * expire.
 *
 * A counter cannot distinguish a repeated adopt from a second holder; a set can. Grants are
 * separate entries; the record of the operation that made one has its index and serial. A snapshot
 * is freed only by lend_snapshot_end_unused(), which lend_grant_expire() calls; after the other
 * functions it is the caller's task.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_HOLD_H
#define MN_STORE_HOLD_H

#include "mn/store/store.h"

uint32_t lend_hold_find(const struct lend_store *s, uint32_t object, uint32_t client);
/* Adds a hold. The pair must not exist, and the table must have room. */
void lend_hold_add(struct lend_store *s, uint32_t object, uint32_t client);
void lend_hold_remove(struct lend_store *s, uint32_t hold);

/* Link an existing entry into the derived lists, and count it. Recovery uses these, too. */
void lend_hold_link(struct lend_store *s, uint32_t hold);
void lend_grant_link(struct lend_store *s, uint32_t grant);

/* Adds a grant. The table must have room. */
uint32_t lend_grant_add(struct lend_store *s, uint32_t object, uint8_t kind, uint32_t left,
			lend_ns expires, uint32_t tenant);
/* Returns the grant, if its serial still matches; else 0. */
uint32_t lend_grant_find(const struct lend_store *s, uint32_t grant, uint64_t serial);
void lend_grant_remove(struct lend_store *s, uint32_t grant);
/* Returns the grant of this snapshot that expires first, of those that can still be adopted; 0:
 * none. */
uint32_t lend_grant_next(const struct lend_store *s, uint32_t object);
/* Uses up one adopt; this removes a TRANSFER. */
void lend_grant_use(struct lend_store *s, uint32_t grant);
/* Undoes one adopt, and extends the grant to expires at least. */
void lend_grant_revive(struct lend_store *s, uint32_t grant, lend_ns expires);
/* Returns when the first grant expires; LEND_NEVER: there is none. */
lend_ns lend_grant_deadline(const struct lend_store *s);
/* Removes expired grants, and the snapshots that nothing else keeps. */
void lend_grant_expire(struct lend_store *s, lend_ns now);

#endif
