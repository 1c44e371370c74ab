/* exchange - one HTTP/2 stream of a stock gRPC client, carried as a call.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_EXCHANGE_H
#define LEND_GATEWAY_EXCHANGE_H

#include "gateway/connection.h"
#include "gateway/headers.h"

struct exchange;

/* A connection of a stock client. */
struct h2_client {
	struct h2_connection connection; /* first: a pointer to it is one to the client */
	struct lend_gateway *gateway;
	struct exchange *first; /* open exchanges */
	struct h2_client *next, *prev;
	lend_ns since; /* when the connection began, or a header block that has not ended */
	bool waits;    /* since is valid */
};

struct lend_gateway {
	struct lend_ep *ep;
	lend_session to;
	char address[128]; /* where the server listens */
	struct lend_fd_watch listener;
	struct lend_alarm sweep; /* ends connections that take too long */
	struct h2_client *clients;
	unsigned n_clients, n_running;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct lend_gateway_counters counters;
	struct h2_headers headers; /* the next ones to submit */
};

/* Installs the callbacks that make exchanges. */
void exchange_callbacks(nghttp2_session_callbacks *callbacks);
/* The connection has ended: cancels the call. Frees the exchange now or when its call has ended. */
void exchange_drop(struct exchange *x);

#endif
