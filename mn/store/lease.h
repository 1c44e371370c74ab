/* lease - who the node knows: processes with a lease, their clients, and what became of each
 * client's operations above its low water.
 *
 * A process's lease is renewed by any of its operations. When it ends, or the process hangs up, all
 * that its clients had goes in one step and with it their records; the life number is not given
 * again, so what such a process still sends is ABORTED until it says HELLO.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_LEASE_H
#define MN_STORE_LEASE_H

#include "mn/store/store.h"

/* The client of this process, number and life; 0: not known. */
uint32_t lend_client_find(const struct lend_store *s, const uint8_t incarnation[16],
			  uint32_t number, uint32_t life);
/* The client whatever its life; made when it is new. 0: tables or the tenant's quota full, nothing
 * changed. A process that is there must be this tenant's. */
uint32_t lend_client_open(struct lend_store *s, lend_ns now, const uint8_t incarnation[16],
			  uint32_t number, uint32_t tenant);
/* Into the lists that only repeat what the entry says. */
void lend_client_link(struct lend_store *s, uint32_t client);
/* No process of another tenant says that it is this one. */
bool lend_tenant_owns(const struct lend_store *s, uint32_t tenant, const uint8_t incarnation[16]);
/* All that it had is let go; the last client takes its process's lease with it. */
void lend_client_close(struct lend_store *s, uint32_t client);
/* Drops the records below low. */
void lend_client_low(struct lend_store *s, uint32_t client, uint64_t low);
/* The place of an id's record, which low water allows; look at its id. */
struct lend_record *lend_record_at(const struct lend_store *s, uint32_t client, uint64_t id);

void lend_lease_renew(struct lend_store *s, lend_ns now, uint32_t incarnation);

#endif
