/* sim_node - one endpoint: a core, possibly a store, its buffers, its ring of received datagrams.
 *
 * It crashes and is restarted with a new incarnation, and pauses. Layer: test/sim. */
#ifndef TEST_SIM_SIM_NODE_H
#define TEST_SIM_SIM_NODE_H

#include "mn/store/exec.h"
#include "seal/record_keys.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include "wire/pkt.h"

/* Counters of sent datagrams of calls, per class, while that class had something to send. */
struct sim_order {
	uint64_t above[8];     /* units (fair_share.h) of higher classes */
	uint64_t early[8];     /* units of this class, while a higher one had something to send */
	uint64_t overtaken[8]; /* units of other classes since the last of this class */
};

/* The head of a class's budget queue, and how often another message got budget before it. */
struct sim_queue_head {
	uint32_t head, gen, granted, passed;
};

/* State of a call record at the last check. */
struct sim_was {
	uint32_t charged;   /* bytes charged to the budget */
	uint32_t gen, gave; /* number of evictions of its message ... */
	lend_ns at;         /* ... and time of the last one */
};

/* A cookie that a node gave, or a CONNECT with a cookie. */
enum { SIM_COOKIES = 1024 };
struct sim_cookie {
	struct lend_pkt_cookie cookie;
	uint64_t connect;
	uint32_t to;
	lend_ns at;
};

#define SIM_KEY UINT64_C(0x5a5a) /* id of the key that all nodes have */
/* True when this node connects under the key. */
static inline bool sim_is_keyed(const struct sim *sim, uint32_t node)
{
	return node < sim->plan.keyed;
}

/* Numbers below 64 of a session's datagrams that were not sealed, as bits. */
struct sim_bare {
	uint64_t session, numbers;
};

/* Datagrams of a session that were sealed in the present epoch. */
struct sim_epoch {
	uint64_t session;
	uint64_t n, first, top; /* no earlier epoch has reached first; the largest number */
	uint8_t epoch;          /* modulo 256 */
};

struct sim_node {
	uint32_t id;
	uint32_t life; /* number of starts; its incarnation is made of id and life */
	bool up;
	lend_ns paused;         /* no turn before this time */
	struct lend_core *core; /* NULL while down */
	uint64_t host_queued;   /* bytes in its own queue, as last reported */
	uint64_t credit_used, credit_window, credit_ahead; /* credit of the core, a turn ago */
	struct lend_core_config cfg;
	struct lend_store *store; /* NULL: serves no memory */
	uint8_t *pages;
	struct lend_bufs bufs;
	struct sim_buf *buf;         /* by handle, with its owner */
	uint32_t free_buf, bufs_out; /* buffers that are not in the free list */
	uint32_t *ring;              /* flights that wait for a turn */
	uint32_t ring_n;
	lend_ns turn;          /* when the next is due; LEND_NEVER: none */
	lend_ns late;          /* time of the event in the heap that checks whether one is due */
	bool turning;          /* inside a turn: calls to the core need not schedule another */
	struct sim_link *link; /* by node, then by attacker */
	struct sim_serving *serving; /* by record of the core */
	struct sim_order order;
	struct sim_queue_head line[8];
	uint32_t no_budget;                    /* calls that waited for budget a turn ago */
	struct sim_was *was;                   /* by record of the core */
	uint64_t evicted;                      /* evictions by the core's count, a turn ago */
	struct sim_cookie cookie[SIM_COOKIES]; /* the newest that it gave */
	struct sim_cookie proven[SIM_COOKIES]; /* the newest CONNECTs that prove their address */
	uint32_t cookies, provens;
	struct lend_records records;
	struct lend_record_keys **keys; /* of sessions */
	struct sim_epoch *epoch;        /* by session */
	struct sim_bare *bare;          /* by session */
	uint8_t *seal_room;             /* memory of a burst to send */
	lend_ns seal_now;
};

/* State of a node about another one. */
struct sim_link {
	uint64_t session;  /* handle of the session that this node opened; 0: none */
	uint64_t accepted; /* newest session that the other node opened; 0: none */
	uint32_t kept;     /* KEEPs minus DROPs */
	/* Bytes from there that may cause a reply, and bytes of such replies. */
	uint64_t connect_in, accept_out, other_in, reset_out;
	uint64_t lengthy;   /* session to it with calls of long requests that ended well ... */
	uint32_t lengthy_n; /* ... and their number */
};

enum sim_serve { SIM_SERVE_FREE, SIM_SERVE_RUNNING, SIM_SERVE_CANCELLED, SIM_SERVE_REPLIED };
/* A request that a handler of the node has, from REQUEST to REPLY_END. */
struct sim_serving {
	uint64_t handle;
	uint32_t call;  /* call of the ledger; SIM_NO_CALL: a memory operation (test/sim/memory) */
	uint32_t reply; /* buffer */
	uint8_t state;  /* enum sim_serve */
};
#define SIM_NO_CALL UINT32_MAX
enum { SIM_BUFS = 4096, SIM_WRAPPED = 255, SIM_BURST = 32, SIM_RING = 4096 };

enum sim_owner { SIM_BUF_FREE, SIM_BUF_OURS, SIM_BUF_CORE };
struct sim_buf {
	uint8_t owner; /* enum sim_owner */
	uint8_t class; /* size class of the memory; SIM_WRAPPED: not the node's own */
};

/* sim_node_seal.c: the records of a new life; those of the last one; the keys of a session that is
 * proven. A burst that arrives, of which the datagrams that are left are returned; and one to send,
 * with its results. */
enum {
	SIM_CLIENT_AT = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, session),
	SIM_SERVER_AT = 2 * sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect) +
			offsetof(struct lend_pkt_accept, session),
};
void sim_node_seal_open(struct sim *sim, struct sim_node *n);
void sim_node_seal_close(struct sim_node *n);
void sim_node_seal_proven(struct sim *sim, struct sim_node *n, uint64_t session,
			  const uint8_t transcript[LEND_TRANSCRIPT]);
uint32_t sim_node_open_burst(struct sim *sim, struct sim_node *n, struct lend_in *in, uint32_t k);
void sim_node_send_burst(struct sim *sim, struct sim_node *n, struct lend_out *out, uint32_t k);

void sim_node_open(struct sim *sim); /* creates and starts all nodes */
void sim_node_close(struct sim *sim);
void sim_node_crash(struct sim *sim, uint32_t node);
void sim_node_birth(struct sim *sim, uint32_t node);
/* Maximum number of datagrams that wait for a turn. A short ring is a fault, and ends with the
 * faults. */
static inline uint32_t sim_node_ring(const struct sim *sim)
{
	return sim->healing ? SIM_RING : (uint32_t)sim->plan.ring; /* plus hang-ups */
}
/* Adds a flight to the ring; a full ring drops and frees it. */
void sim_node_arrive(struct sim *sim, uint32_t node, uint32_t flight);
/* Handles the event that checks whether a turn is due. */
void sim_node_wake(struct sim *sim, uint32_t node, uint32_t life);
/* Schedules a turn now, after a call to the core outside of a turn. */
void sim_node_kick(struct sim *sim, uint32_t node);
/* Returns the session to another node, and opens one if there is none. False: no room at
 * present. */
bool sim_node_session(struct sim *sim, uint32_t node, uint32_t to, uint64_t *session);
/* Allocates a buffer of cap bytes, len of them valid, in one segment. */
uint32_t sim_node_buf(struct sim *sim, uint32_t node, uint32_t cap, uint32_t len);
/* Wraps memory that is not the node's own (pages of the store). */
uint32_t sim_node_wrap(struct sim *sim, uint32_t node, void *data, uint32_t len);
void sim_node_unbuf(struct sim *sim, uint32_t node, uint32_t buf); /* frees a whole chain */
/* Record that a chain goes to the core, and that it comes back with an event: once each. 0 is
 * none. */
void sim_node_lend(struct sim *sim, uint32_t node, uint32_t buf);
void sim_node_back(struct sim *sim, uint32_t node, uint32_t buf);
void sim_node_bufs_open(struct sim_node *n);
/* drop: frees all buffers of a dead node, including those lent. */
void sim_node_bufs_drop(struct sim_node *n);
void sim_node_bufs_close(struct sim_node *n);

#endif
