/* node - one endpoint: a core, perhaps a store, its buffers, its ring of arrived datagrams. It
 * crashes and is born again with a new incarnation, and pauses. Layer: test/sim. */
#ifndef TEST_SIM_NODE_H
#define TEST_SIM_NODE_H

#include "mn/store/exec.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include "wire/pkt.h"

/* Datagrams of calls, by what a class saw of them while it had something to send. */
struct sim_order {
	uint64_t above[8];  /* of classes before it */
	uint64_t early[8];  /* of this class, though one before it had something to send */
	uint64_t hungry[8]; /* since the last of this class */
};

/* The first of those of a class who wait for budget, and how often others got some past it. */
struct sim_line {
	uint32_t head, gen, granted, passed;
};

/* What a record of the core was when it was looked at last. */
struct sim_was {
	uint32_t charged;   /* of the budget */
	uint32_t gen, gave; /* its message gave way to others so often ... */
	lend_ns at;         /* ... and then the last time */
};

/* A cookie that a node gave, or a CONNECT that bears one. */
enum { SIM_COOKIES = 1024 };
struct sim_cookie {
	struct lend_pkt_cookie cookie;
	uint64_t connect;
	uint32_t to;
	lend_ns at;
};

#define SIM_KEY UINT64_C(0x5a5a) /* id of the key that all nodes have */
/* Whether this node connects under it. */
static inline bool sim_is_keyed(const struct sim *sim, uint32_t node)
{
	return node < sim->plan.keyed;
}

struct sim_node {
	uint32_t id;
	uint32_t life; /* times it was born; its incarnation is made of id and life */
	bool up;
	lend_ns paused;                                    /* until then no turn */
	struct lend_core *core;                            /* NULL while down */
	uint64_t credit_used, credit_window, credit_ahead; /* of it, a turn ago */
	struct lend_core_config cfg;
	struct lend_store *store; /* NULL: serves no memory */
	uint8_t *pages;
	struct lend_bufs bufs;
	struct sim_buf *buf;         /* by handle: whose it is */
	uint32_t free_buf, bufs_out; /* buffers that are not in the free list */
	uint32_t *ring;              /* flights that wait for a turn */
	uint32_t ring_n;
	lend_ns turn;          /* when the next is due; LEND_NEVER: none */
	lend_ns late;          /* an event in the heap that looks then whether one is */
	bool turning;          /* inside one: whoever calls the core need not ask for another */
	struct sim_link *link; /* by node; strangers behind them */
	struct sim_serving *serving; /* by record of the core */
	struct sim_order order;
	struct sim_line line[8];
	uint32_t starved;                      /* calls that waited for budget a turn ago */
	struct sim_was *was;                   /* by record of the core */
	uint64_t evicted;                      /* by the core's count, a turn ago */
	struct sim_cookie cookie[SIM_COOKIES]; /* the newest that it gave */
	struct sim_cookie proven[SIM_COOKIES]; /* the newest CONNECTs that prove their address */
	uint32_t cookies, provens;
};

/* What a node knows of another. */
struct sim_link {
	uint64_t session;  /* handle of the one we made; 0: none */
	uint64_t accepted; /* of the newest that the other made; 0: none */
	uint32_t kept;     /* KEEPs less DROPs */
	/* What came from there and could ask for an answer, and what such answers were. */
	uint64_t connect_in, accept_out, other_in, reset_out;
	uint64_t lengthy;   /* a session to it of which calls with long requests ended well ... */
	uint32_t lengthy_n; /* ... so many */
};

enum sim_serve { SIM_SERVE_FREE, SIM_SERVE_RUNNING, SIM_SERVE_CANCELLED, SIM_SERVE_REPLIED };
/* A request that a handler of the node has, from REQUEST to REPLY_END. */
struct sim_serving {
	uint64_t handle;
	uint32_t call;  /* of the ledger; SIM_NO_CALL: one of sim/memory/mem's */
	uint32_t reply; /* buffer */
	uint8_t state;  /* enum sim_serve */
};
#define SIM_NO_CALL UINT32_MAX
enum { SIM_BUFS = 4096, SIM_WRAPPED = 255, SIM_BURST = 32, SIM_RING = 4096 };

enum sim_owner { SIM_BUF_FREE, SIM_BUF_OURS, SIM_BUF_CORE };
struct sim_buf {
	uint8_t owner; /* enum sim_owner */
	uint8_t class; /* of memory; SIM_WRAPPED: not the node's own */
};

void sim_node_open(struct sim *sim); /* all of them, born */
void sim_node_close(struct sim *sim);
void sim_node_crash(struct sim *sim, uint32_t node);
void sim_node_birth(struct sim *sim, uint32_t node);
/* Datagrams that may wait for a turn: a short ring is a fault, and those stop. */
static inline uint32_t sim_node_ring(const struct sim *sim)
{
	return sim->healing ? SIM_RING : (uint32_t)sim->plan.ring; /* hang-ups beside */
}
/* A flight has come; a full ring drops it (and frees it). */
void sim_node_arrive(struct sim *sim, uint32_t node, uint32_t flight);
/* An event asks whether a turn is due. */
void sim_node_wake(struct sim *sim, uint32_t node, uint32_t life);
/* A turn is due now: somebody called the core outside of one. */
void sim_node_kick(struct sim *sim, uint32_t node);
/* The session to another node; makes one if there is none. False: no room just now. */
bool sim_node_session(struct sim *sim, uint32_t node, uint32_t to, uint64_t *session);
/* A buffer of cap bytes, len of them valid, in one segment. */
uint32_t sim_node_buf(struct sim *sim, uint32_t node, uint32_t cap, uint32_t len);
/* Wraps memory that is not the node's own (pages of the store). */
uint32_t sim_node_wrap(struct sim *sim, uint32_t node, void *data, uint32_t len);
void sim_node_unbuf(struct sim *sim, uint32_t node, uint32_t buf); /* a whole chain */
/* A chain goes to the core, comes back with an event: once each. 0 is none. */
void sim_node_lend(struct sim *sim, uint32_t node, uint32_t buf);
void sim_node_back(struct sim *sim, uint32_t node, uint32_t buf);
void sim_node_bufs_open(struct sim_node *n);
/* All of them are free, whoever has them: the node is dead. */
void sim_node_bufs_drop(struct sim_node *n);
void sim_node_bufs_close(struct sim_node *n);

#endif
