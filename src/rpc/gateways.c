/* gateways - the http2: addresses of an endpoint. See gateways.h. */
#include "rpc/gateways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/module/module.h"
#include "rpc/heads.h"
#include "rpc/stream_table.h"
#include "sys/last_error.h"

/* Names without a handler of their own are streams, which carry all kinds, if both kinds have a
 * handler for them. */
static unsigned name_serves(struct lend_ep *ep, const char *name, uint32_t *method)
{
	uint32_t number = lend_method_number(name);
	const struct lend_method *entry = lend_methods_find(&ep->methods, number);

	*method = number;
	if (entry && entry->handler && entry->name && strcmp(entry->name, name) == 0)
		return entry->flags & LEND_OPENS_STREAMS ? LEND_GATEWAY_STREAM : LEND_GATEWAY_CALL;
	return ep->any_stream.handler ? LEND_GATEWAY_STREAM
	       : ep->any.handler      ? LEND_GATEWAY_CALL
				      : 0;
}

static void read_limits(const struct lend_ep *ep, uint64_t *memory_max, uint32_t *sessions)
{
	*memory_max = ep->config.memory_max;
	*sessions = ep->config.sessions;
}

/* Connects under the name of gateways, by which lend_session_gateway() finds their sessions. */
static int connect_gateway(struct lend_ep *ep, const char *address, lend_session *session)
{
	return lend_connect_as(ep, address, LEND_HTTP2, session);
}

static const struct lend_gateway_host host = {
    .alarm_set = lend_alarm_set,
    .buf_give = lend_buf_give,
    .buf_take = lend_buf_take,
    .call_cancel = lend_call_cancel,
    .call_metadata = lend_call_metadata,
    .call_start = lend_call_start,
    .call_text = lend_call_text,
    .call_why = lend_call_why,
    .connect = connect_gateway,
    .disconnect = lend_disconnect,
    .free = lend_free,
    .malloc = lend_malloc,
    .metadata_add = lend_metadata_add,
    .metadata_free = lend_metadata_free,
    .metadata_new = lend_metadata_new,
    .now = lend_now,
    .reply_with = lend_reply_with,
    .reply_without = lend_reply_unrun,
    .request_left = lend_request_left,
    .request_metadata = lend_request_metadata,
    .request_session = lend_request_session,
    .request_take = lend_request_take,
    .request_text = lend_request_text,
    .session_message_max = lend_session_message_max,
    .stream_accept = lend_stream_accept,
    .stream_begin = lend_stream_begin,
    .stream_cancel = lend_stream_cancel,
    .stream_end_with = lend_stream_end_with,
    .stream_finish = lend_stream_finish,
    .stream_metadata = lend_stream_metadata,
    .stream_open = lend_stream_open,
    .stream_read = lend_stream_read,
    .stream_unrun = lend_stream_unrun,
    .stream_write = lend_stream_write,
    .usable = lend_usable,
    .watch_fd = lend_watch_fd,
    .why = lend_why,
    .forward = lend_req_forward,
    .serves = name_serves,
    .limits = read_limits,
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
		return lend_fail(EINVAL,
				 "%.60s: write http2:HOST:PORT or "
				 "http2:HOST:PORT?cert=FILE&key=FILE; port 0: any; slow=MS: time "
				 "of a client for its headers; keepalive=, keepalive_timeout=, "
				 "ping_min=SECONDS",
				 address);
	if (rc == -ENOENT)
		return lend_fail(
		    ENOENT,
		    "%.60s: cert= and key= name PEM files: a chain, and the key of its "
		    "first certificate",
		    address);
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

int lend_gateways_load(struct lend_ep *ep)
{
	void *found = NULL;
	const struct lend_gateway_ops *ops;
	int rc;

	if (ep->gateways.ops)
		return 0;
	rc = lend_module_find("lend_gateway.so", "libnghttp2-dev", "lend_gateway_ops", &found);
	if (rc < 0)
		return rc;
	ops = found;
	if (ops->sizes != LEND_GATEWAY_SIZES)
		return lend_fail(ENODEV, "lend_gateway.so is of another release; rebuild it "
					 "with this one");
	ops->start(&host);
	ep->gateways.ops = ops;
	ep->gateways.close = close_gateways;
	return 0;
}

int lend_gateways_open(struct lend_ep *ep, const char *listen)
{
	char *list = strdup(listen ? listen : ""), *save = NULL;
	const char *own = lend_ep_own_address(ep);
	int rc = list ? 0 : lend_fail(ENOMEM, "no memory for the listen addresses");

	for (char *at = list ? strtok_r(list, ", ", &save) : NULL; at && rc == 0;
	     at = strtok_r(NULL, ", ", &save)) {
		if (strncmp(at, LEND_HTTP2, strlen(LEND_HTTP2)) != 0)
			continue;
		rc = lend_gateways_load(ep);
		if (rc == 0)
			rc = open_gateway(ep, at, own);
	}
	free(list);
	return rc;
}
