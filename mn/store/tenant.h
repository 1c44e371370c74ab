/* tenant - who pays: what each tenant keeps of pages, references and clients, and how much it may.
 *
 * A space is paid by its owner's tenant, page by page as they come to be. A snapshot is paid by
 * stakes, its holds and grants: one tenant, the payer, pays its pages once for all stakes of its
 * own, any other once for each, so that no tenant's charge moves with what another one does, and
 * none has to be looked for when a stake goes. Pages that two objects share are paid twice: the
 * charge of an object is a bound of what it alone could keep, known without a walk.
 *
 * Layer: mn/store (pure), private to it.
 */
#ifndef MN_STORE_TENANT_H
#define MN_STORE_TENANT_H

#include "mn/store/store.h"

/* So much more is within the quotas; counts it when not. */
bool lend_tenant_room(struct lend_store *s, uint32_t tenant, uint64_t pages, uint32_t refs);
/* The most pages that a view of this tenant may be charged, when it is charged so many now. */
uint64_t lend_tenant_limit(const struct lend_store *s, uint32_t tenant, uint64_t charge);
/* Pages of a reply under way. One reply of a tenant always may. */
bool lend_tenant_pin_room(struct lend_store *s, uint32_t tenant, uint64_t pages);

/* What a view is charged that could have so many pages: no more than it spans. */
uint32_t lend_charge_of(const struct lend_store *s, const struct lend_view *view, uint64_t pages);

/* A hold or a grant more or less. cost: pages that one more would be charged. */
uint64_t lend_stake_cost(const struct lend_store *s, uint32_t object, uint32_t tenant);
void lend_stake_add(struct lend_store *s, uint32_t object, uint32_t tenant);
void lend_stake_drop(struct lend_store *s, uint32_t object, uint32_t tenant);

#endif
