/* call_reflect - learns the methods and messages of a server from its reflection service.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_TOOLS_CALL_REFLECT_H
#define APPS_TOOLS_CALL_REFLECT_H

#include "apps/proto/proto.h"
#include "lend/rpc.h"

/* Asks grpc.reflection.v1, or v1alpha, for the files of a service, such as "shop.Cart"; "": of all
 * services. Returns NULL: proto has them; or why not, as part of a line. */
const char *call_reflect(struct lend_ep *ep, lend_session session, const struct app_proto *proto,
			 const char *service, lend_ns timeout);

#endif
