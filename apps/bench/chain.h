/* chain - the caller's side of a chain of services: the state that its slots share.
 *
 * A request has one argument. By value its bytes go through every hop. By reference a reference
 * goes through the hops, and the last hop gets the bytes: from the caller, or from the memory node,
 * where the caller put them. Layer: apps. Threads: one. */
#ifndef APPS_BENCH_CHAIN_H
#define APPS_BENCH_CHAIN_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/hosts.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

enum app_by { APP_BY_VALUE, APP_BY_REF, APP_BY_AUTO, APP_BY_NODE, APP_BYS };
extern const char *const app_by_names[]; /* and NULL */
enum {
	APP_CHAIN_HOPS_MAX = 24,
	APP_CHAIN_LENGTHS_MAX = 8,
	APP_HEADS = 16
}; /* bytes that a request needs in addition to its payload */

struct app_chain_slot;

struct app_chain {
	struct app_load_args load_args;
	unsigned hops;                                   /* services in the current run */
	unsigned lengths, length[APP_CHAIN_LENGTHS_MAX]; /* numbers of hops, increasing */
	enum app_by by;
	const char *node_address; /* address of the user's node; NULL: the command starts one */
	unsigned workers;         /* of the node that the command starts; 0: one */
	bool sweep;
	bool pool;  /* the node shares its pages with caller and last hop */
	bool fresh; /* each request's payload is written before it is sent */

	struct app_hosts hosts; /* path NULL: all processes are on this machine */
	bool far;               /* at least one process is not a child of this one */
	struct app_net net;
	unsigned me, node, services, hop[APP_CHAIN_HOPS_MAX];
	struct app_child child[APP_CHAIN_HOPS_MAX], mn;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session entry[APP_CHAIN_LENGTHS_MAX]; /* with the first hop, by number of hops */
	lend_session session;                      /* session of the current run */
	uint64_t size;                             /* bytes of a request in the current run */
	enum lend_arg_way way;                     /* way of the payload in the current run */
	bool with_node;
	struct app_chain_slot *slot;
	struct app_slot **order;
	struct app_load load;
};

static inline bool app_chain_has_node(const struct app_chain *chain)
{
	if (chain->hosts.path)
		return app_hosts_find(&chain->hosts, "node");
	return chain->by == APP_BY_NODE || chain->sweep || chain->pool || chain->node_address;
}

/* chain_processes.c: starts the services and, if the run needs one, the memory node; opens the
 * caller. app_die() when that fails. Shorter chains begin at a later hop of the longest one. With
 * a hosts file it starts those of this machine. Returns false: the caller is on another machine. */
bool app_chain_open(struct app_chain *chain);
void app_chain_close(struct app_chain *chain);
/* Returns the bytes that all processes have sent through their carriers so far; 0: not known, since
 * one is not a child of this process. */
uint64_t app_chain_moved(struct app_chain *chain);

/* chain.c: warms up, then measures; returns the bytes moved per call. */
double app_chain_measure(struct app_chain *chain, uint64_t size, enum app_by by, lend_ns time);
/* chain_sweep.c: measures all ways at sizes from 4 KiB to --size, for each number of hops. Prints a
 * table; returns the number of wrong bytes. */
uint64_t app_chain_sweep(struct app_chain *chain);

/* Makes load_args.window slots; app_die() without memory. */
void app_chain_slots_make(struct app_chain *chain);
void app_chain_slots_free(struct app_chain *chain);

#endif
