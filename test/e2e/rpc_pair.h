/* rpc_pair - two endpoints that tests run by hand, in one thread or two, over shm or udp. */
#ifndef LEND_TEST_E2E_RPC_PAIR_H
#define LEND_TEST_E2E_RPC_PAIR_H

#include "lend/rpc.h"
#include "lend/stats.h"

enum { ECHO = 1, HOLD = 2, SINK = 3, FORWARD = 4, SLOW_ECHO = 5 };

/* The carriers of most of these tests. */
enum { SCHEMES = 2 };
extern const char *const pair_schemes[SCHEMES]; /* "shm", "udp" */

struct pair {
	struct lend_ep *server, *client;
	lend_session session; /* the client's */
	char address[128];
	lend_request held[64]; /* requests of HOLD without an answer */
	uint32_t n_held;
};

/* Serves ECHO (bytes back), HOLD (kept in held) and SINK (empty reply). */
void pair_open(struct pair *pair, const char *scheme);
void pair_open_with(struct pair *pair, const char *scheme, const struct lend_config *server,
		    const struct lend_config *client);
void pair_close(struct pair *pair);
/* A unique address to listen at. */
void pair_address(char *text, size_t cap, const char *scheme);
/* Runs turns of both ends until *done, at most 10 s; false: timeout. */
bool pair_until(struct pair *pair, const bool *done);
void pair_until_held(struct pair *pair, uint32_t n);
/* Runs n turns of both ends. */
void pair_turns(struct pair *pair, int n);

/* A call with a flag that its done function sets. */
struct ask {
	struct lend_call call; /* must be the first member */
	bool done;
	int times; /* number of times that done ran */
};
void ask_done(struct lend_call *call);
/* A buffer of len bytes that depend on seed, and the check of a chain. */
struct lend_buf *ask_bytes(struct lend_ep *ep, uint32_t len, uint32_t seed);
bool ask_same(const struct lend_buf *chain, uint64_t len, uint32_t seed);
/* Starts a call of 100 bytes. */
void ask_start(struct pair *pair, struct ask *ask, uint32_t method, lend_ns timeout);
/* Starts and turns until done; the caller checks the status. Request and reply stay in the call. */
void ask_run(struct pair *pair, struct ask *ask, uint32_t method, struct lend_buf *request);
void ask_give(struct lend_ep *ep, struct ask *ask);

#endif
