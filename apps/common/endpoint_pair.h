/* endpoint_pair - both ends of a measurement: this thread's endpoint, and a server. The server is a
 * child process, an endpoint in this thread, or a process that the user started. Layer: apps.
 * Threads: one. By value in its owner. */
#ifndef APPS_COMMON_ENDPOINT_PAIR_H
#define APPS_COMMON_ENDPOINT_PAIR_H

#include "apps/common/options.h"
#include "apps/common/topology.h"
#include "apps/common/spawn.h"
#include "lend/rpc.h"

struct app_pair {
	struct app_net net;     /* both processes; its carrier reaches the server */
	unsigned me, server;    /* processes of the net */
	struct app_child child; /* the server; pid 0: no child was started */
	struct lend_ep *ep;     /* endpoint of this end, pinned to the first CPU */
	struct lend_ep *other;  /* endpoint of the server, if it is in this thread; else NULL */
};

/* Starts the server process, opens the server in this thread, or uses args->connect, depending on
 * args. Then opens this end and registers the pattern (closed_loop.h), so that carriers send it
 * without a copy. config applies to both ends; it may set calls, sessions, message_max,
 * receive_budget and schedule. app_die() when an end does not open, app_bad() for args that
 * contradict each other. */
void app_pair_open(struct app_pair *pair, const struct app_load_args *args,
		   const struct lend_config *config);
/* Returns the server's address for lend_connect(). Valid until the pair closes. */
const char *app_pair_address(const struct app_pair *pair);
/* Polls each end in this thread once; app_die() when a poll fails. */
void app_pair_poll(const struct app_pair *pair);
void app_pair_close(struct app_pair *pair);

#endif
