/* gateways - the http2: addresses of an endpoint. See gateways.h. */
#include "rpc/gateways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/module/module.h"
#include "rpc/endpoint.h"
#include "sys/last_error.h"

static const struct lend_gateway_host host = {
    .alarm_set = lend_alarm_set,
    .buf_give = lend_buf_give,
    .buf_take = lend_buf_take,
    .call_cancel = lend_call_cancel,
    .call_metadata = lend_call_metadata,
    .call_start = lend_call_start,
    .call_text = lend_call_text,
    .call_why = lend_call_why,
    .connect = lend_connect,
    .disconnect = lend_disconnect,
    .metadata_add = lend_metadata_add,
    .metadata_free = lend_metadata_free,
    .metadata_new = lend_metadata_new,
    .now = lend_now,
    .session_message_max = lend_session_message_max,
    .watch_fd = lend_watch_fd,
    .why = lend_why,
};

static int open_gateway(struct lend_ep *ep, const char *address, const char *own)
{
	struct lend_gateways *all = &ep->gateways;
	const char *listen = address + strlen(LEND_HTTP2);
	int rc;

	if (all->n == LEND_GATEWAYS_MAX)
		return lend_fail(ENOSPC,
				 "%.60s: an endpoint listens on %d http2: addresses at most",
				 address, LEND_GATEWAYS_MAX);
	rc = all->ops->open(ep, listen, own, &all->gateway[all->n]);
	if (rc == -EINVAL)
		return lend_fail(EINVAL, "%.60s: write http2:HOST:PORT, port 0 for any", address);
	if (rc < 0)
		return lend_fail(-rc, "%.60s: %s", address, strerror(-rc));
	strcpy(all->address[all->n], LEND_HTTP2);
	rc = all->ops->address(all->gateway[all->n], all->address[all->n] + strlen(LEND_HTTP2),
			       sizeof(all->address[0]) - strlen(LEND_HTTP2));
	all->n++;
	return rc < 0 ? lend_fail(-rc, "%.60s: its port cannot be read", address) : 0;
}

static void close_gateways(struct lend_ep *ep)
{
	while (ep->gateways.n)
		ep->gateways.ops->close(ep->gateways.gateway[--ep->gateways.n]);
}

int lend_gateways_open(struct lend_ep *ep, const char *listen)
{
	char *list = strdup(listen ? listen : ""), *save = NULL;
	const char *own = lend_ep_own_address(ep);
	void *ops = NULL;
	int rc = list ? 0 : lend_fail(ENOMEM, "no memory for the listen addresses");

	for (char *at = list ? strtok_r(list, ", ", &save) : NULL; at && rc == 0;
	     at = strtok_r(NULL, ", ", &save)) {
		if (strncmp(at, LEND_HTTP2, strlen(LEND_HTTP2)) != 0)
			continue;
		rc =
		    lend_module_find("lend_gateway.so", "libnghttp2-dev", "lend_gateway_ops", &ops);
		if (rc < 0)
			break;
		ep->gateways.ops = ops;
		if (ep->gateways.ops->sizes != LEND_GATEWAY_SIZES) {
			rc = lend_fail(ENODEV, "lend_gateway.so is of another release; rebuild it "
					       "with this one");
			break;
		}
		ep->gateways.ops->start(&host);
		ep->gateways.close = close_gateways;
		rc = open_gateway(ep, at, own);
	}
	free(list);
	return rc;
}
