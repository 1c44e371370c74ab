#include "kill/sight.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "lend/stats.h"
#include "mn/serve.h"
#include "mn/store/store.h"

/* What mnd.c calls once endpoint and store are there. */
int __real_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);
int __wrap_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);

static struct {
	struct lend_ep *ep;
	struct lend_store *store;
	void *scratch;
	unsigned rings; /* that a fork inherits */
} self;

void sight_begin(void)
{
	self.rings = kill_ring_maps();
}

static void look(struct node_sight *sight, bool whole)
{
	struct lend_memstats now;
	struct lend_stats stats;
	const char *bad = NULL;

	if (whole)
		bad = lend_store_audit(self.store, self.scratch);
	lend_store_stats(self.store, &now);
	lend_stats(self.ep, &stats);
	*sight = (struct node_sight){
	    .pages = now.pages_used,
	    .pinned = now.pages_pinned,
	    .refs = now.refs,
	    .spaces = now.spaces,
	    .holds = now.holds,
	    .grants = now.grants,
	    .clients = now.clients,
	    .processes = now.incarnations,
	    .placements = self.store->placement.used,
	    .leases_expired = now.leases_expired,
	    .sessions = stats.sessions,
	    .fds = kill_open_fds(),
	    .rings = kill_ring_maps() - self.rings,
	};
	if (bad)
		(void)snprintf(sight->bad, sizeof(sight->bad), "%s", bad);
}

static void answer(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_buf *reply = lend_buf_take(self.ep, sizeof(struct node_sight));

	(void)arg;
	if (reply) {
		look(reply->data, bytes->len > 0);
		reply->len = sizeof(struct node_sight);
	}
	(void)lend_reply(self.ep, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
}

int __wrap_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out)
{
	int rc = __real_mn_serve_open(ep, store, out);

	self.ep = ep;
	self.store = store;
	self.scratch = malloc(lend_store_audit_size(store));
	return rc < 0 ? rc : lend_serve(ep, NODE_METHOD, answer, NULL, 0);
}
