/* call_reply - prints how a call of lend call ended: its reply, metadata and status.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_TOOLS_CALL_REPLY_H
#define APPS_TOOLS_CALL_REPLY_H

#include <stdbool.h>

#include "apps/proto/proto.h"
#include "lend/rpc.h"

struct call_reply {
	const char *address, *method;
	const struct app_proto *proto; /* prints the reply as JSON; NULL: as bytes */
	bool hex, json;
};

/* Prints a call that has ended, with its time. Returns the exit code. */
int call_reply_show(const struct call_reply *reply, struct lend_ep *ep,
		    const struct lend_call *call, lend_ns took);

#endif
