/* http_client - HTTP/1.1 requests over kept connections, one at a time on each.
 * Layer: apps. Threads: one. Owner: load_http.c. */
#ifndef APPS_LOAD_HTTP_CLIENT_H
#define APPS_LOAD_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lend/rpc.h"

struct http_client;

/* Statuses below 100 are the client's own. */
enum { HTTP_LOST, HTTP_LATE, HTTP_MALFORMED, HTTP_OK = 200, HTTP_STATUS_MAX = 599, HTTP_PARTS = 3 };

struct http_reply {
	unsigned status;
	const char *body; /* lent until ended() returns; a zero byte follows it */
	size_t len;
	uint64_t bytes; /* sent and received */
};
typedef void http_ended_fn(void *arg, unsigned connection, const struct http_reply *reply);

/* Opens a client for http://HOST:PORT, and one connection to test it. ended runs once for each
 * request that was started, inside http_client_start() or http_client_poll(). Returns 0, or -errno
 * with a reason in why. */
int http_client_open(const char *url, unsigned connections, lend_ns timeout, http_ended_fn *ended,
		     void *arg, struct http_client **out, const char **why);
void http_client_close(struct http_client *client);
/* Returns HOST:PORT. */
const char *http_client_host(const struct http_client *client);
/* Sends a request on a connection that has none; the parts are lent until it ends. Returns 0 or
 * -errno. */
int http_client_start(struct http_client *client, unsigned connection, const struct iovec *part,
		      unsigned parts);
/* Sends and receives what is possible; waits at most so long until something is. Returns 0 or
 * -errno. */
int http_client_poll(struct http_client *client, lend_ns wait);

#endif
