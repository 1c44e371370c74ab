/* reach - connects a command to an endpoint, and explains why one of its calls failed.
 * Layer: apps. Threads: the endpoint's. Nothing to release. */
#ifndef APPS_TOOLS_REACH_H
#define APPS_TOOLS_REACH_H

#include "lend/rpc.h"

/* Connects to address and waits until the session is up, at most timeout. Returns the nanoseconds
 * that it took; app_die() with the cause and the fix when the session does not come up. */
lend_ns app_reach(struct lend_ep *ep, const char *address, lend_ns timeout, lend_session *session);
/* Returns the likely cause of a call's status and the fix, without the status's name. */
const char *app_reach_why(enum lend_status status);

#endif
