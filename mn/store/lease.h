/* lease - lives (processes with a lease), their clients, and the record of each client's operations
 * above its low-water mark.
 *
 * A session opens a life. Others join it by proving that they have its key. The key is a function
 * of the store's secret, the incarnation of the session that opened the life, and the life's
 * number, so it is not stored. An incarnation is no secret and identifies no life: a second process
 * that sends a known one gets another life.
 *
 * Any operation of a life renews its lease. When the lease ends, or the process hangs up,
 * everything that its clients had is released in one step, together with their records. Life
 * numbers are never reused, so later operations of such a process are ABORTED until it sends HELLO.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_LEASE_H
#define MN_STORE_LEASE_H

#include "mn/store/store.h"

/* Returns the entry of a life; 0: it has ended, or never existed. */
uint32_t lend_life_find(const struct lend_store *s, uint64_t life);
void lend_life_key(const struct lend_store *s, uint32_t incarnation, uint8_t key[LEND_MEMOP_KEY]);
/* Returns the entry of the life that a HELLO names, if the HELLO proves in this session that it has
 * the life's key; else 0. */
uint32_t lend_life_of_hello(const struct lend_store *s, const struct lend_store_peer *peer,
			    const struct lend_memop *hello);
/* Returns the client with this number in this life; 0: unknown. */
uint32_t lend_client_find(const struct lend_store *s, uint64_t life, uint32_t number);
/* Returns the client with this number in a life, and makes it if it is new. incarnation 0: opens a
 * new life for peer. Returns 0, with nothing changed, when the tables or the tenant's quota are
 * full. */
uint32_t lend_client_open(struct lend_store *s, lend_ns now, const struct lend_store_peer *peer,
			  uint32_t incarnation, uint32_t number);
/* Links an existing entry into the derived lists, and counts it. Recovery uses it, too. */
void lend_client_link(struct lend_store *s, uint32_t client);
/* Closes a client and releases all that it had. Closing a life's last client ends the life. */
void lend_client_close(struct lend_store *s, uint32_t client);
/* Drops the records below low. */
void lend_client_drop_records(struct lend_store *s, uint32_t client, uint64_t low);
/* Returns the slot of an id's record; the id must be in the window above the low-water mark. The
 * slot is empty or another operation's unless its id matches. */
struct lend_record *lend_record_at(const struct lend_store *s, uint32_t client, uint64_t id);
/* Call it before a record without an id is written: logs the id, and marks the record as used. */
void lend_record_use(struct lend_store *s, uint32_t client, const struct lend_record *r);

void lend_lease_renew(struct lend_store *s, lend_ns now, uint32_t incarnation);

#endif
