#include "mn/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sys/last_error.h"

/* A life, with the sessions that have joined it. */
struct life {
	LIST_ENTRY(life) link;
	uint64_t number;
	uint32_t sessions;
	bool shm; /* one of its sessions is, or was, on shm */
	struct mn_flow flow;
};

/* A session. ALONE (life NULL) -> JOINED; a later HELLO can move it to another life. */
struct peer {
	struct lend_store_peer store; /* first */
	LIST_ENTRY(peer) link;
	struct life *life;
	struct mn_flow flow; /* queue of its operations before HELLO */
	uint32_t tenant;
	bool shm;
};

struct mn_peers {
	struct lend_ep *ep;
	struct lend_store *store;
	const struct mn_tenants *tenants;
	struct mn_fair fair;
	void (*drop)(struct mn_wait *wait, void *arg); /* gets the operations that wait when a
							  process ends; set before any waits */
	void *drop_arg;
	LIST_HEAD(, life) lives;
	LIST_HEAD(, peer) sessions;
	uint32_t open[MN_TENANTS_MAX]; /* sessions, by tenant */
};

static struct life *find_life(struct mn_peers *peers, uint64_t number)
{
	struct life *life;

	LIST_FOREACH(life, &peers->lives, link)
	if (life->number == number)
		return life;
	return NULL;
}

static void end_life(struct mn_peers *peers, struct life *life)
{
	mn_flow_close(&peers->fair, &life->flow, peers->drop, peers->drop_arg);
	LIST_REMOVE(life, link);
	free(life);
}

static void end_peer(struct mn_peers *peers, struct peer *p)
{
	mn_flow_close(&peers->fair, &p->flow, peers->drop, peers->drop_arg);
	LIST_REMOVE(p, link);
	free(p);
}

/* Removes a session from its life. On shm the system reports the end of a process: the end of its
 * last session ends the life. */
static void leave_life(struct mn_peers *peers, struct peer *p)
{
	struct life *life = p->life;

	p->life = NULL;
	if (!life)
		return;
	if (--life->sessions)
		return;
	if (life->shm)
		lend_store_hangup(peers->store, life->number);
	end_life(peers, life);
}

void mn_peers_update_life(struct mn_peers *peers, lend_session session)
{
	struct peer *p = lend_session_get(peers->ep, session);
	struct life *life;

	if (!p || !p->store.life || (p->life && p->life->number == p->store.life))
		return;
	leave_life(peers, p);
	life = find_life(peers, p->store.life);
	if (!life) {
		life = calloc(1, sizeof(*life));
		if (!life)
			return; /* the session keeps its own queue; the lease ends the life */
		life->number = p->store.life;
		mn_flow_open(&life->flow);
		LIST_INSERT_HEAD(&peers->lives, life, link);
	}
	life->sessions++;
	life->shm |= p->shm;
	p->life = life;
}

static void session_up(struct mn_peers *peers, lend_session session, const uint8_t incarnation[16])
{
	struct lend_peer peer;
	uint64_t most;
	uint32_t tenant = mn_tenants_of(peers->tenants, peers->ep, peers->store, session, &most);
	struct peer *p;

	if (peers->open[tenant] >= most) {
		lend_disconnect(peers->ep, session); /* the tenant has too many sessions */
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* its operations are refused */
	memcpy(p->store.incarnation, incarnation, sizeof(p->store.incarnation));
	p->store.tenant = tenant;
	p->tenant = tenant;
	/* Only shm has a uid; the address of an accepted session is empty there. */
	p->shm = lend_session_peer(peers->ep, session, &peer) == 0 && peer.uid >= 0;
	mn_flow_open(&p->flow);
	LIST_INSERT_HEAD(&peers->sessions, p, link);
	peers->open[tenant]++;
	lend_session_set(peers->ep, session, p);
}

static void session_down(struct mn_peers *peers, lend_session session)
{
	struct peer *p = lend_session_get(peers->ep, session);

	if (!p)
		return;
	lend_session_set(peers->ep, session, NULL);
	leave_life(peers, p);
	peers->open[p->tenant]--;
	end_peer(peers, p);
}

static void watch_session(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	if (up)
		session_up(arg, session, incarnation);
	else
		session_down(arg, session);
}

void mn_peers_set_tenants(struct mn_peers *peers, const struct mn_tenants *tenants)
{
	peers->tenants = tenants;
}

int mn_peers_open(struct lend_ep *ep, struct lend_store *store, struct mn_peers **out)
{
	struct mn_peers *peers = calloc(1, sizeof(*peers));
	int rc;

	if (!peers)
		return lend_fail(ENOMEM, "no memory for the sessions of a memory node");
	peers->ep = ep;
	peers->store = store;
	mn_fair_open(&peers->fair);
	rc = lend_watch_sessions(ep, watch_session, peers);
	if (rc < 0)
		mn_peers_close(peers);
	else
		*out = peers;
	return rc;
}

void mn_peers_close(struct mn_peers *peers)
{
	struct life *life;
	struct peer *p;

	/* With --keep the sessions have ended without a callback, so their entries are still here.
	 * The next start continues their lives. */
	while ((p = LIST_FIRST(&peers->sessions)))
		end_peer(peers, p);
	while ((life = LIST_FIRST(&peers->lives)))
		end_life(peers, life);
	free(peers);
}

struct lend_store_peer *mn_peers_find(struct mn_peers *peers, lend_session session)
{
	return lend_session_get(peers->ep, session);
}

struct mn_flow *mn_peers_flow(struct mn_peers *peers, lend_session session)
{
	struct peer *p = lend_session_get(peers->ep, session);

	return p->life ? &p->life->flow : &p->flow;
}

struct mn_fair *mn_peers_fair(struct mn_peers *peers, void (*drop)(struct mn_wait *wait, void *arg),
			      void *arg)
{
	peers->drop = drop;
	peers->drop_arg = arg;
	return &peers->fair;
}
