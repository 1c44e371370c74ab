/* hold - who keeps a snapshot: holds, a set of (snapshot, client), and grants that run out.
 *
 * A counter cannot tell a repeated adopt from a second holder; a set can. Grants are entries of
 * their own, named by index and serial in the record of the operation that made them. None of these
 * frees a snapshot but by lend_snapshot_settle().
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_HOLD_H
#define MN_STORE_HOLD_H

#include "mn/store/store.h"

uint32_t lend_hold_find(const struct lend_store *s, uint32_t object, uint32_t client);
/* The pair must not be there, and there is room. */
void lend_hold_add(struct lend_store *s, uint32_t object, uint32_t client);
void lend_hold_remove(struct lend_store *s, uint32_t hold);

/* Into the lists that only repeat what an entry says. */
void lend_hold_link(struct lend_store *s, uint32_t hold);
void lend_grant_link(struct lend_store *s, uint32_t grant);

/* There is room. */
uint32_t lend_grant_add(struct lend_store *s, uint32_t object, uint8_t kind, uint32_t left,
			lend_ns expires, uint32_t tenant);
/* The grant, if serial says that it is still that one; else 0. */
uint32_t lend_grant_find(const struct lend_store *s, uint32_t grant, uint64_t serial);
void lend_grant_remove(struct lend_store *s, uint32_t grant);
/* The earliest to expire of this snapshot that can still be adopted; 0: none. */
uint32_t lend_grant_next(const struct lend_store *s, uint32_t object);
/* One adopt: a TRANSFER is gone by that. */
void lend_grant_use(struct lend_store *s, uint32_t grant);
/* Undoes one adopt, and lets it live until expires at least. */
void lend_grant_revive(struct lend_store *s, uint32_t grant, lend_ns expires);
/* When the first one expires; LEND_NEVER: there is none. */
lend_ns lend_grant_deadline(const struct lend_store *s);
/* Ends those whose time has come, and the snapshots that only they kept. */
void lend_grant_expire(struct lend_store *s, lend_ns now);

#endif
