/* remotes - sessions to stock gRPC servers. See remotes.h. */
#include "rpc/remotes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"

static int explain_dial(const char *address, int rc)
{
	if (rc == -EINVAL)
		return lend_fail(EINVAL,
				 "%.80s: write http2:HOST:PORT; over TLS http2:HOST:PORT?tls or "
				 "?ca=FILE, and &name=NAME if its certificate has another one; "
				 "?keepalive=SECONDS&keepalive_timeout=SECONDS",
				 address);
	if (rc == -ENOKEY)
		return lend_fail(ENOENT, "%.80s: ca= names a PEM file of certificates", address);
	return lend_fail(-rc, "%.80s: %s", address, strerror(-rc));
}

/* Makes a route without a session. Returns 0 or -errno. */
static int make_route(struct lend_ep *ep, const char *address, struct lend_route **made)
{
	const struct lend_gateway_ops *ops = ep->gateways.ops;
	struct lend_route *route = calloc(1, sizeof(*route));
	int rc = route ? ops->dial(ep, address + strlen(LEND_HTTP2), &route->remote) : -ENOMEM;

	if (rc < 0) {
		free(route);
		return explain_dial(address, rc);
	}
	(void)snprintf(route->address, sizeof(route->address), "%.*s", (int)strcspn(address, "?"),
		       address);
	route->any = (struct lend_method){
	    .handler = ops->call, .arg = route->remote, .flags = LEND_ANY_ENCODING};
	route->stream =
	    (struct lend_stream_method){.ep = ep, .handler = ops->stream, .arg = route->remote};
	route->any_stream = (struct lend_method){.handler = lend_stream_opens,
						 .arg = &route->stream,
						 .flags = LEND_OPENS_STREAMS | LEND_ANY_ENCODING};
	*made = route;
	return 0;
}

static int connect_remote(struct lend_ep *ep, const char *address, lend_session *session)
{
	struct lend_route *route = NULL;
	const char *own = NULL;
	char name[32];
	int rc = lend_gateways_load(ep);

	if (rc == 0)
		rc = lend_ep_listen_own(ep, &own);
	if (rc == 0 && !lend_streams_of(ep))
		rc = lend_fail(ENOMEM, "no memory for streams");
	if (rc == 0)
		rc = make_route(ep, address, &route);
	if (rc < 0)
		return rc;
	(void)snprintf(name, sizeof(name), "http2 %u", ++ep->gateways.dialled);
	lend_handshake_name(ep->process_key, name, route->incarnation);
	rc = lend_connect_as(ep, own, name, session);
	if (rc < 0) {
		ep->gateways.ops->hang_up(route->remote, &ep->gateways.ended);
		free(route);
		return rc;
	}
	route->session = *session;
	route->next = ep->routes;
	ep->routes = route;
	lend_sessions_find(ep, *session)->route = route;
	return 0;
}

static struct lend_route *find_route(struct lend_ep *ep, const uint8_t incarnation[16])
{
	struct lend_route *route = ep->routes;

	while (route && memcmp(route->incarnation, incarnation, sizeof(route->incarnation)) != 0)
		route = route->next;
	return route;
}

static void end_route(struct lend_ep *ep, struct lend_route *route)
{
	struct lend_route **at = &ep->routes;

	while (*at != route)
		at = &(*at)->next;
	*at = route->next;
	for (uint32_t i = 0; i < ep->session_top; i++)
		if (ep->session[i].route == route)
			ep->session[i].route = NULL;
	ep->gateways.ops->hang_up(route->remote, &ep->gateways.ended);
	free(route);
}

void lend_remotes_allow(struct lend_ep *ep)
{
	ep->gateways.connect = connect_remote;
	ep->gateways.find = find_route;
	ep->gateways.end = end_route;
}
