/* tenants - who a session is of, and what that one may keep.
 *
 * On shm a user, by the kernel's word; elsewhere whoever knows one of the secrets; the rest of the
 * network is one tenant. Without quotas everybody is the same one.
 * Layer: mn. Threads: any, once it is open. Owner: mnd. */
#ifndef MN_TENANTS_H
#define MN_TENANTS_H

#include "lend/rpc.h"
#include "mn/store/exec.h"

struct mn_tenants;

/* text: "WHO:BYTES[:REFS[:CLIENTS]]", several with commas. WHO is uid=N, secret=FILE, net, or each:
 * every user and the network unless named. An empty number or "-" is no limit. NULL: no quotas.
 * Bytes count in whole pages of page bytes.
 * 0; -EINVAL, -ENOMEM or what reading a file gives, with lend_why(). */
int mn_tenants_open(const char *text, uint32_t page, uint32_t workers, struct mn_tenants **out);
void mn_tenants_close(struct mn_tenants *tenants);
/* The tenant's number in this store, and how many sessions it may have at a worker: some for each
 * of its clients, for one that never says HELLO is no client and takes room all the same. tenants
 * may be NULL. */
uint32_t mn_tenants_of(const struct mn_tenants *tenants, struct lend_ep *ep,
		       struct lend_store *store, lend_session session, uint64_t *sessions);
/* A client has one, its pages' and its leases' threads have one each, and one may be about to end.
 */
enum { MN_TENANTS_MAX = 256, MN_TENANT_SESSIONS = 4 };

#endif
