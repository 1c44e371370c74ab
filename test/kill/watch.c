#include "kill/watch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "lend/stats.h"
#include "mn/node_server.h"
#include "mn/unwritten_reads.h"
#include "mn/store/store.h"

/* mn/lend_mn.c calls this once endpoint and store exist. */
int __real_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);
int __wrap_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out);

static struct self { /* a worker */
	struct lend_ep *ep;
	struct lend_store *store;
	void *scratch;
} self[64];
static unsigned selves;
static unsigned rings; /* inherited by a fork */
static _Atomic uint64_t *early_reads;

bool __real_mn_reads_add(struct mn_reads *reads, lend_request request, struct lend_buf *bytes,
			 const struct lend_store_out *out);
bool __wrap_mn_reads_add(struct mn_reads *reads, lend_request request, struct lend_buf *bytes,
			 const struct lend_store_out *out);

bool __wrap_mn_reads_add(struct mn_reads *reads, lend_request request, struct lend_buf *bytes,
			 const struct lend_store_out *out)
{
	bool waits = __real_mn_reads_add(reads, request, bytes, out);

	atomic_fetch_add_explicit(early_reads, waits, memory_order_relaxed);
	return waits;
}

void watch_begin(_Atomic uint64_t *early)
{
	rings = kill_ring_maps();
	early_reads = early;
}

static void look(const struct self *me, struct node_counts *counts, bool whole)
{
	struct lend_memstats now;
	struct lend_stats stats;
	const char *bad = NULL;

	if (whole)
		bad = lend_store_audit(me->store, me->scratch);
	lend_store_stats(me->store, &now);
	lend_stats_get(me->ep, &stats);
	*counts = (struct node_counts){
	    .pages = now.pages_used,
	    .pinned = now.pages_pinned,
	    .refs = now.refs,
	    .spaces = now.spaces,
	    .holds = now.holds,
	    .grants = now.grants,
	    .clients = now.clients,
	    .processes = now.incarnations,
	    .pinned_maps = now.pinned_maps,
	    .placements = me->store->placement.used,
	    .leases_expired = now.leases_expired,
	    .sessions = stats.sessions,
	    .fds = me == self ? kill_open_fds() : 0,
	    .rings = me == self ? kill_ring_maps() - rings : 0,
	};
	if (bad)
		(void)snprintf(counts->bad, sizeof(counts->bad), "%s", bad);
}

static void answer(lend_request request, const struct lend_buf *bytes, void *arg)
{
	const struct self *me = arg;
	struct lend_buf *reply = lend_buf_take(me->ep, sizeof(struct node_counts));

	if (reply) {
		look(me, reply->data, bytes->len > 0);
		reply->len = sizeof(struct node_counts);
	}
	(void)lend_reply(me->ep, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
}

int __wrap_mn_serve_open(struct lend_ep *ep, struct lend_store *store, struct mn_serve **out)
{
	int rc = __real_mn_serve_open(ep, store, out);
	struct self *me = &self[selves++];

	*me = (struct self){ep, store, malloc(lend_store_audit_size(store))};
	return rc < 0 ? rc : lend_serve(ep, NODE_METHOD, answer, me, 0);
}
