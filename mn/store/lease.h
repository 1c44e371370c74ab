/* lease - lives (processes with a lease), their clients, and what became of each client's
 * operations above its low water.
 *
 * A life is opened by a session and joined by others, which prove that they have its key. The key
 * is a function of the store's secret, the incarnation of the session that opened the life, and its
 * number, so nothing is stored for it. An incarnation is no secret and identifies no life: a
 * second process that sends a known one gets another life.
 *
 * A life's lease is renewed by any of its operations. When it ends, or the process hangs up, all
 * that its clients had goes in one step and with it their records; the number is never given
 * again, so what such a process still sends is ABORTED until it sends HELLO.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_LEASE_H
#define MN_STORE_LEASE_H

#include "mn/store/store.h"

/* The entry of a life; 0: it has ended, or was never there. */
uint32_t lend_life_find(const struct lend_store *s, uint64_t life);
void lend_life_key(const struct lend_store *s, uint32_t incarnation, uint8_t key[LEND_MEMOP_KEY]);
/* The entry of the life that a HELLO names and proves to have the key of, in this session; 0. */
uint32_t lend_life_joined(const struct lend_store *s, const struct lend_store_peer *peer,
			  const struct lend_memop *hello);
/* The client of this number and life; 0: not known. */
uint32_t lend_client_find(const struct lend_store *s, uint64_t life, uint32_t number);
/* The client of this number in a life; 0: in a new one, opened for peer. Made when it is new. 0:
 * tables or the tenant's quota full, nothing changed. */
uint32_t lend_client_open(struct lend_store *s, lend_ns now, const struct lend_store_peer *peer,
			  uint32_t incarnation, uint32_t number);
/* Into the lists that only repeat what the entry says. */
void lend_client_link(struct lend_store *s, uint32_t client);
/* All that it had is let go; the last client takes its process's lease with it. */
void lend_client_close(struct lend_store *s, uint32_t client);
/* Drops the records below low. */
void lend_client_low(struct lend_store *s, uint32_t client, uint64_t low);
/* The place of an id's record, which low water allows; look at its id. */
struct lend_record *lend_record_at(const struct lend_store *s, uint32_t client, uint64_t id);

void lend_lease_renew(struct lend_store *s, lend_ns now, uint32_t incarnation);

#endif
