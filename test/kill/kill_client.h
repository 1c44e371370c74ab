/* kill_client - the common part of the processes that may be killed: each is forked, opens what it
 * needs, ends operations and checks their statuses. Layer: test. */
#ifndef TEST_KILL_CLIENT_H
#define TEST_KILL_CLIENT_H

#include "kill/kill.h"

enum { LONG = 9 << 20, TTL_MS = 5, TAKE_METHOD = 0x74616b65, LEND_METHOD };

struct client {
	struct kill_page *page;
	struct lend_ep *ep;
	struct lend_mem *mem;
	uint8_t *bytes; /* LONG of them */
};

/* A request to the server: a reference to bytes of kill_fill(seed), and the terms it was given
 * with. */
struct take {
	struct lend_ref ref;
	uint64_t seed;
	uint32_t len, terms; /* enum lend_hold */
};

/* Like fork(); the child has no parent's descriptors, and its role's fuse burns. */
pid_t client_fork(struct kill_page *page, enum kill_role role);
void client_open(struct client *c);
/* Ends the process with a violation, unless a kill explains this status. */
void client_check(struct kill_page *page, const char *what, int rc, enum lend_status status);
/* Waits for an operation that was started with result rc. False: its status is not OK. */
bool client_end(struct client *c, const char *what, struct lend_op *op, int rc);
/* Puts kill_fill(take->seed) of take->len, with take->terms; sets take->ref. */
bool client_put(struct client *c, struct take *take);
/* Passes it to the server, and releases it unless it was given away. False: another session is
 * needed. */
bool client_pass(struct client *c, lend_session server, const struct take *take);
/* The same by arguments, which the call puts and releases: take itself, and take->len bytes. */
bool client_lend(struct client *c, lend_session server, struct take *take);

#endif
