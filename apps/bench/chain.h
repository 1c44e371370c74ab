/* chain - the caller's side of a chain of services: what its lanes share.
 *
 * A request has one argument. By value its bytes go through every hop; by reference they are put
 * once, 64 bytes go through the hops, and the last one gets them. Layer: apps. Threads: one.
 */
#ifndef APPS_BENCH_CHAIN_H
#define APPS_BENCH_CHAIN_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

enum app_by { APP_BY_VALUE, APP_BY_REF, APP_BY_AUTO };
enum { APP_CHAIN_HOPS_MAX = 24, APP_HEADS = 16 }; /* bytes beside a request's own */

struct app_chain_lane;

struct app_chain {
	struct app_load_args load_args;
	unsigned hops;
	enum app_by by;
	const char *node_address; /* as given; NULL: a node of our own */
	bool sweep;

	struct app_net net;
	unsigned me, node, hop[APP_CHAIN_HOPS_MAX];
	struct app_child child[APP_CHAIN_HOPS_MAX], mn;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session session; /* to the first hop */
	uint64_t size;        /* of the requests now */
	bool with_node;
	struct app_chain_lane *lane;
	struct app_lane **order;
	struct app_load load;
};

/* Makes the lanes: load_args.window of them; app_die() without memory. */
void app_chain_lanes_make(struct app_chain *chain);
void app_chain_lanes_free(struct app_chain *chain);

#endif
