/* tenants - the tenant of each session, and its quota.
 *
 * A session that knows one of the secrets belongs to that secret's tenant, and one whose key has a
 * tenant in the file of keys to that one. Else a session on shm belongs to its user's, as reported
 * by the kernel; all other sessions belong to the network's. Without quotas only keys have tenants.
 * Layer: mn. Threads: any, once it is open. Owner: lend_mn.c. */
#ifndef MN_TENANTS_H
#define MN_TENANTS_H

#include "lend/rpc.h"
#include "mn/store/exec.h"

struct mn_tenants;

/* Parses the rules of --quota, separated by commas. A rule is a tenant, BYTES and optionally REFS
 * and CLIENTS, separated by colons. The tenant is uid=N, secret=FILE, tenant=NAME, net, or each:
 * every user and the network, unless another rule names them. An empty number or "-" is no limit.
 * NULL: no quotas. Bytes count in whole pages of page bytes. Returns 0; -EINVAL, -ENOMEM or the
 * error of reading a file, with lend_why(). */
int mn_tenants_open(const char *text, uint32_t page, uint32_t workers, struct mn_tenants **out);
void mn_tenants_close(struct mn_tenants *tenants);
/* Returns the number of the session's tenant in this store. Sets *sessions to the most sessions
 * that it may have at a worker: MN_TENANT_SESSIONS per client of its quota, because a session
 * without HELLO is no client and still takes room. tenants may be NULL. */
uint32_t mn_tenants_of(const struct mn_tenants *tenants, struct lend_ep *ep,
		       struct lend_store *store, lend_session session, uint64_t *sessions);
/* MN_TENANT_SESSIONS: a client has one, the threads for its pages and its leases have one each, and
 * one may be about to end. */
enum { MN_TENANTS_MAX = 256, MN_TENANT_SESSIONS = 4 };

#endif
