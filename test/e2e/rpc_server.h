/* rpc_server - a server that runs in a thread of its own or of its caller; and its client, which
 * waits. */
#ifndef LEND_TEST_E2E_RPC_SERVER_H
#define LEND_TEST_E2E_RPC_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "e2e/rpc_pair.h"

enum { MS = 1000000, NESTED = 20, STUCK = 21 };

struct server {
	pthread_t thread;
	struct lend_ep *ep;
	char address[128];
	const char *scheme;
	struct lend_config config; /* of the endpoint; its address and workers are set */
	char onward[128];          /* NESTED calls there */
	pthread_barrier_t ready;
	atomic_int in_slow, cancelled;
	atomic_bool let_go; /* lets the handler of STUCK return */
};

/* Serves in a thread until server_stop(). */
void server_start(struct server *s, const char *scheme);
void server_start_with(struct server *s, const char *scheme, const struct lend_config *config);
void server_stop(struct server *s);
/* ECHO; HOLD, which is never answered; and in workers SLOW_ECHO, NESTED (calls ECHO at onward and
 * answers with that), STUCK (until let_go, or cancelled). */
void server_serve(struct server *s);
/* A handler that does nothing. */
void server_never(lend_request request, const struct lend_buf *in, void *arg);

struct lend_ep *client_of(const char *address, lend_session *session);
/* One call of len bytes, which come back. */
void sync_echo(struct lend_ep *ep, lend_session session, uint32_t method, uint32_t len);
/* Makes rounds of up to 16 simultaneous ECHO calls of len bytes; all must end OK. Returns how long
 * the slowest round took. */
lend_ns slowest_echo(struct lend_ep *ep, lend_session session, uint32_t rounds, uint32_t calls,
		     uint32_t len);

#endif
