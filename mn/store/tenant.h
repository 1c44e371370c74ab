/* tenant - quotas: the pages, references and clients that each tenant keeps, and its limits.
 *
 * The owner's tenant pays for a space, page by page as they are written. The stakes of a snapshot,
 * its holds and grants, pay for the snapshot. One tenant, the payer, pays its pages once for all of
 * its own stakes; any other tenant pays once per stake. So a tenant's charge does not depend on
 * other tenants' actions, and removing a stake needs no search for a new payer. Pages that two
 * objects share are paid twice: the charge of an object is an upper bound of the pages that it
 * alone could keep, known without a walk.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_TENANT_H
#define MN_STORE_TENANT_H

#include "mn/store/store.h"

/* Returns whether this many more pages and references are within the tenant's quotas; counts a
 * refusal. */
bool lend_tenant_room(struct lend_store *s, uint32_t tenant, uint64_t pages, uint32_t refs);
/* Returns the most pages that a view of this tenant may be charged, given its present charge. */
uint64_t lend_tenant_limit(const struct lend_store *s, uint32_t tenant, uint64_t charge);
/* Returns whether a reply may pin this many pages. A tenant's only reply in flight always may. */
bool lend_tenant_pin_room(struct lend_store *s, uint32_t tenant, uint64_t pages);

/* Returns the charge of a view that could have up to this many pages: at most the pages that it
 * spans. */
uint64_t lend_charge_of(const struct lend_store *s, const struct lend_view *view, uint64_t pages);

/* Add or drop a stake: a hold or a grant. cost: the pages that one more stake would be charged. */
uint64_t lend_stake_cost(const struct lend_store *s, uint32_t object, uint32_t tenant);
void lend_stake_add(struct lend_store *s, uint32_t object, uint32_t tenant);
void lend_stake_drop(struct lend_store *s, uint32_t object, uint32_t tenant);

#endif
