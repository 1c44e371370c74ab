/* shake - the handshake datagrams of sealed sessions, between core and carrier: the core judges
 * what is in clear, key_exchange encrypts and opens, and the owner gets the secrets of the session.
 *
 * A CONNECT is judged cheapest first: its length, mac1, then by the core (our own one, a copy, its
 * level, a cookie while they are demanded), then it is opened. Datagrams that fail are dropped
 * without an answer. Layer: rpc. Threads: the endpoint's. */
#ifndef LEND_RPC_SHAKE_H
#define LEND_RPC_SHAKE_H

#include "core/core.h"
#include "seal/key_exchange.h"
#include "sys/secret_memory.h"

enum {
	LEND_SHAKE_SHORT = 256,
	LEND_SHAKE_SHORTS = 64,
	LEND_SHAKE_LONG = 65536,
	LEND_SHAKE_LONGS = 4
};

struct lend_shake {
	struct lend_core *core;
	struct lend_kex *kex; /* in memory for secrets */
	struct lend_mapping memory;
	struct lend_core_policy policy[LEND_CARRIERS_MAX];
	/* Finds the keys of a handshake. client: of our own CONNECT. Returns false if there are
	 * none; then *keys has others, so that a forged CONNECT takes the same time. */
	bool (*find)(void *arg, const struct lend_pkt_connect *connect, bool client,
		     struct lend_kex_keys *keys);
	/* Takes the secrets of a session; they are wiped afterwards. */
	void (*done)(void *arg, const struct lend_kex_result *result);
	void *arg;
	/* Datagrams being sent: each stays until so many more of its size. */
	uint8_t (*shorts)[LEND_SHAKE_SHORT];
	uint8_t (*longs)[LEND_SHAKE_LONG];
	uint32_t short_at, long_at;
};

/* Allocates. The caller fills in core, policy and the functions. 0, or -ENOMEM. */
int lend_shake_open(struct lend_shake *s, const struct lend_seal_ops *ops,
		    const struct lend_core_config *config);
void lend_shake_close(struct lend_shake *s);
/* Begins a burst of received datagrams. */
void lend_shake_burst(struct lend_shake *s);
/* Handles a received CONNECT, ACCEPT or RETRY, without trailer, which it rewrites in clear. Returns
 * false: drop it. */
bool lend_shake_in(struct lend_shake *s, lend_ns now, struct lend_in *in);
/* Seals a CONNECT or ACCEPT that is about to be sent. Returns false: do not send it. */
bool lend_shake_out(struct lend_shake *s, lend_ns now, const struct lend_bufs *bufs,
		    struct lend_out *out);
/* Handles LEND_EV_PROVE of a sealed session. Returns false: it is of another one. */
bool lend_shake_made(struct lend_shake *s, const struct lend_event *ev);

#endif
