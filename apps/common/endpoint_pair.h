/* endpoint_pair - both ends of what is measured: this thread's, and a server's, which is a process
 * of its own, in this thread, or somebody else's. Layer: apps. Threads: one. By value in its owner.
 */
#ifndef APPS_COMMON_ENDPOINT_PAIR_H
#define APPS_COMMON_ENDPOINT_PAIR_H

#include "apps/common/options.h"
#include "apps/common/topology.h"
#include "apps/common/spawn.h"
#include "lend/rpc.h"

struct app_pair {
	struct app_net net;     /* its carrier: what reaches the server */
	unsigned me, server;    /* processes of the net */
	struct app_child child; /* the server; pid 0: none of ours */
	struct lend_ep *ep;     /* this end, pinned to the first CPU */
	struct lend_ep *other;  /* the server's, where both are in this thread; else NULL */
};

/* Starts the server, opens it here or takes args->connect, as args say; then this end, which sends
 * the pattern (closed_loop.h) from where it lies. Of config, which both ends have, calls, sessions,
 * message_max, receive_budget and schedule may be set. app_die() when an end does not open,
 * app_bad() for args that contradict each other. */
void app_pair_open(struct app_pair *pair, const struct app_load_args *args,
		   const struct lend_config *config);
/* What to give to lend_connect(). Valid until the pair closes. */
const char *app_pair_address(const struct app_pair *pair);
/* Polls each end that is in this thread once; app_die() when one cannot go on. */
void app_pair_poll(const struct app_pair *pair);
void app_pair_close(struct app_pair *pair);

#endif
