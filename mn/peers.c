#include "mn/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sys/why.h"

/* A process, with as many sessions as it has here. */
struct process {
	LIST_ENTRY(process) link;
	uint8_t incarnation[16];
	uint32_t sessions, tenant;
	struct mn_flow flow;
};

struct mn_peers {
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_crowd *crowd, *own; /* own: until join(); else NULL */
	const struct mn_tenants *tenants;
	uint32_t worker;
	struct mn_fair fair;
	void (*drop)(struct mn_wait *wait, void *arg); /* never NULL while something waits */
	void *drop_arg;
	LIST_HEAD(, process) processes;
	uint32_t open[MN_TENANTS_MAX]; /* sessions, by tenant */
};

static struct process *find(struct mn_peers *peers, const uint8_t incarnation[16])
{
	struct process *p;

	LIST_FOREACH(p, &peers->processes, link)
	if (!memcmp(p->incarnation, incarnation, sizeof(p->incarnation)))
		return p;
	return NULL;
}

/* Only shm tells who a peer is; the address of one that came to us is empty there. */
static bool on_shm(struct mn_peers *peers, lend_session session)
{
	struct lend_peer peer;

	return lend_session_peer(peers->ep, session, &peer) == 0 && peer.uid >= 0;
}

/* The low bit of what a session keeps says that it is on shm. */
static void came(struct mn_peers *peers, lend_session session, const uint8_t incarnation[16])
{
	struct process *p = find(peers, incarnation);
	uint64_t most;
	uint32_t tenant = mn_tenants_of(peers->tenants, peers->ep, peers->store, session, &most);
	bool shm;

	mn_peers_hear(peers);
	if (peers->open[tenant] >= most) {
		lend_disconnect(peers->ep, session); /* its room is for others */
		return;
	}
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return; /* its operations are refused */
		memcpy(p->incarnation, incarnation, sizeof(p->incarnation));
		p->tenant = tenant;
		mn_flow_open(&p->flow);
		LIST_INSERT_HEAD(&peers->processes, p, link);
	}
	if (p->tenant != tenant)
		return; /* nobody speaks for another tenant's process: refused */
	p->sessions++;
	peers->open[tenant]++;
	shm = on_shm(peers, session) && mn_crowd_join(peers->crowd, incarnation);
	lend_session_set(peers->ep, session, (char *)p + shm);
}

static void went(struct mn_peers *peers, lend_session session)
{
	char *kept = lend_session_get(peers->ep, session);
	bool shm = (uintptr_t)kept & 1;
	struct process *p = (struct process *)(void *)(kept - shm);

	if (!kept)
		return;
	lend_session_set(peers->ep, session, NULL);
	if (shm)
		mn_crowd_leave(peers->crowd, p->incarnation);
	mn_peers_hear(peers);
	peers->open[p->tenant]--;
	if (--p->sessions)
		return;
	mn_flow_close(&peers->fair, &p->flow, peers->drop, peers->drop_arg);
	LIST_REMOVE(p, link);
	free(p);
}

static void watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	if (up)
		came(arg, session, incarnation);
	else
		went(arg, session);
}

void mn_peers_hear(struct mn_peers *peers)
{
	uint8_t incarnation[16];

	while (mn_crowd_next(peers->crowd, peers->worker, incarnation))
		lend_store_hangup(peers->store, incarnation);
}

void mn_peers_join(struct mn_peers *peers, struct mn_crowd *crowd, const struct mn_tenants *tenants,
		   uint32_t worker)
{
	peers->tenants = tenants;
	mn_crowd_close(peers->own);
	peers->own = NULL;
	peers->crowd = crowd;
	peers->worker = worker;
}

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out)
{
	struct mn_peers *peers = calloc(1, sizeof(*peers));
	int rc;

	if (!peers)
		return lend_fail(ENOMEM, "no memory to keep who is connected");
	peers->ep = ep;
	peers->store = store;
	mn_fair_open(&peers->fair);
	peers->crowd = peers->own = mn_crowd_open(1);
	rc = peers->own ? lend_watch_sessions(ep, watch, peers)
			: lend_fail(ENOMEM, "no memory to keep who is connected");
	if (rc < 0)
		mn_peers_close(peers);
	else
		*out = peers;
	return rc;
}

void mn_peers_close(struct mn_peers *peers)
{
	struct process *p;

	while ((p = LIST_FIRST(&peers->processes))) {
		mn_flow_close(&peers->fair, &p->flow, peers->drop, peers->drop_arg);
		LIST_REMOVE(p, link);
		free(p);
	}
	mn_crowd_close(peers->own);
	free(peers);
}

const uint8_t *mn_peers_find(struct mn_peers *peers, lend_session session, uint32_t *tenant)
{
	char *kept = lend_session_get(peers->ep, session);
	struct process *p;

	if (!kept)
		return NULL;
	p = (struct process *)(void *)(kept - ((uintptr_t)kept & 1));
	*tenant = p->tenant;
	return p->incarnation;
}

struct mn_flow *mn_peers_flow(struct mn_peers *peers, lend_session session)
{
	char *kept = lend_session_get(peers->ep, session);

	return &((struct process *)(void *)(kept - ((uintptr_t)kept & 1)))->flow;
}

struct mn_fair *mn_peers_fair(struct mn_peers *peers, void (*drop)(struct mn_wait *wait, void *arg),
			      void *arg)
{
	peers->drop = drop;
	peers->drop_arg = arg;
	return &peers->fair;
}
