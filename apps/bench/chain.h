/* chain - the caller's side of a chain of services: the state that its lanes share.
 *
 * A request has one argument. By value its bytes go through every hop. By reference a reference
 * goes through the hops, and the last hop gets the bytes: from the caller, or from the memory node,
 * where the caller put them. Layer: apps. Threads: one. */
#ifndef APPS_BENCH_CHAIN_H
#define APPS_BENCH_CHAIN_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

enum app_by { APP_BY_VALUE, APP_BY_REF, APP_BY_AUTO, APP_BY_NODE };
enum {
	APP_CHAIN_HOPS_MAX = 24,
	APP_HEADS = 16
}; /* bytes that a request needs in addition to its payload */

struct app_chain_lane;

struct app_chain {
	struct app_load_args load_args;
	unsigned hops;
	enum app_by by;
	const char *node_address; /* the user's node; NULL: the command starts one */
	bool sweep;
	bool pool; /* the node shares its pages with caller and last hop */

	struct app_net net;
	unsigned me, node, hop[APP_CHAIN_HOPS_MAX];
	struct app_child child[APP_CHAIN_HOPS_MAX], mn;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session session; /* to the first hop */
	uint64_t size;        /* bytes of a request in the current run */
	bool with_node;
	struct app_chain_lane *lane;
	struct app_lane **order;
	struct app_load load;
};

/* Makes load_args.window lanes; app_die() without memory. */
void app_chain_lanes_make(struct app_chain *chain);
void app_chain_lanes_free(struct app_chain *chain);

#endif
