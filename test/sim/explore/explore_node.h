/* explore_node - one node: a real core, possibly a real store, and a small program that uses it.
 *
 * A node is a function: its state and one input give its next state, the datagrams that it sends
 * and the events of its program. States, datagrams and results are stored by number, so each
 * distinct step of the real code runs once, however many states of the whole system contain it.
 * Every step ends with an audit. Layer: test. Threads: none. */
#ifndef SIM_EXPLORE_EXPLORE_NODE_H
#define SIM_EXPLORE_EXPLORE_NODE_H

#include "core/core.h"
#include "mn/store/exec.h"
#include "sim/explore/explore_scope.h"
#include "sim/explore/explore_table.h"

/* Inputs: kind in the top 8 bits, argument below. */
enum ex_kind {
	EX_NONE,
	EX_DELIVER, /* a datagram, by number */
	EX_TICK,    /* time advances to the next deadline */
	EX_PASS,    /* time advances by this many ns */
	EX_CONNECT,
	EX_CALL,
	EX_CANCEL, /* call */
	EX_REPLY,  /* index of the request */
	EX_CLOSE,
	EX_OP,    /* the next operation on memory, or FORGET */
	EX_AGAIN, /* retries the operation with unknown outcome */
	/* events of the world, not of a node */
	EX_DROP,
	EX_DUP,
	EX_CRASH,
	EX_START,
	EX_KINDS,
};
#define EX_INPUT(kind, arg) ((uint64_t)(kind) << 56 | (arg))

enum { EX_REQS = 4, EX_IDS = 8, EX_MEM_BYTES = 192 };
enum { EX_PROCESSES = 2 * (EX_NODES - 1) /* each client starts twice */ };

struct ex_message {
	uint16_t len;
	uint8_t bytes[EX_MEM_BYTES];
};

/* State of a client's program on memory. */
struct ex_memapp {
	uint8_t at;             /* index in the scope's list */
	uint8_t forget;         /* the outcome of the operation at `at` is unknown */
	uint8_t asked;          /* FORGET is in flight */
	uint8_t has_ref, holds; /* as far as the client knows */
	uint8_t content;        /* content that ref must have */
	uint8_t dead;           /* its life, or the object, is gone */
	uint8_t lives, again;   /* number of HELLOs after the first; number of retries */
	uint64_t life;
	uint64_t id; /* id of the operation at `at` */
	uint8_t ref[64];
};

/* State of a node's program; zeros at start. */
struct ex_app {
	uint8_t inc;
	uint8_t connects, made, cancels, closes, up;
	uint8_t peers, replies; /* kept peers; replies that have not ended */
	uint64_t session;
	uint64_t call[EX_PER]; /* open ones; 0: none */
	lend_ns limit[EX_PER]; /* deadlines of the node's calls */
	uint64_t stale;        /* the call that ended last */
	uint8_t cancelled;     /* calls that the program cancelled, by bit */
	struct ex_req {
		uint64_t handle;
		uint8_t id, used, cancelled;
	} req[EX_REQS];
	uint64_t lent; /* buffers that the core has, by handle */
	struct ex_memapp mem;
	struct ex_message dyn[EX_REQS]; /* requests or replies of a memory node, while lent */
};

struct ex_dgram {
	uint8_t from, to;
	uint8_t app;                /* a reference that the program passes */
	uint8_t head_len, data_len; /* in bytes */
	uint8_t message;            /* otherwise a piece of this message */
	uint32_t offset, len;
	uint8_t bytes[256];
};

/* Events of a program, for oracles over all nodes. */
enum { EX_SAW_RUN = 0, EX_SAW_END = 0x80 };
#define EX_SAW_ENDED(id, ran, ok) ((uint8_t)(EX_SAW_END | (ran) << 4 | (ok) << 3 | (id)))

enum { EX_OUT_MAX = 12, EX_SAW_MAX = 8 };
struct ex_effect {
	uint32_t node; /* the next state */
	uint8_t n_out, n_saw;
	uint8_t saw[EX_SAW_MAX];
	uint32_t out[EX_OUT_MAX];
	const char *bad; /* an oracle that failed; NULL */
};

/* Attributes of a node's state that the world needs. */
struct ex_attr {
	uint64_t wait;              /* ns until its deadline; LEND_NEVER */
	uint32_t api;               /* a bit for each input below that may be tried */
	uint8_t idle;               /* no open call of its own, no request to answer */
	uint8_t quiet, clean, open; /* see ex_core_quiet(); open: it has a session */
	uint8_t settle; /* an outcome is unknown: 1: input EX_OP; 2: input EX_CONNECT first */
	uint8_t inc;
	/* By process. Memory node: of each one's life and holds. Client: its own, as far as it
	 * knows. */
	uint8_t holds[EX_PROCESSES], lives[EX_PROCESSES];
};
_Static_assert(sizeof(struct ex_attr) <= EX_ATTR, "fits");
/* Bits of api. */
enum {
	EX_API_CONNECT,
	EX_API_CALL,
	EX_API_CLOSE,
	EX_API_OP,
	EX_API_AGAIN,
	EX_API_CANCEL,
	EX_API_REPLY = EX_API_CANCEL + EX_PER,
};

void ex_nodes_open(const struct ex_scope *scope);
void ex_nodes_close(void);
/* Returns the state of a node that has just started. */
uint32_t ex_node_start(uint32_t node, uint32_t inc);
const struct ex_effect *ex_node_step(uint32_t node, uint32_t state, uint64_t input);
const struct ex_attr *ex_node_attr(uint32_t node, uint32_t state);
const struct ex_dgram *ex_dgram_at(uint32_t i, struct ex_dgram *space);
/* Returns a key for an order of datagrams that is the same in every run. */
uint64_t ex_dgram_rank(uint32_t i);
/* Returns the input of bit i of api. */
uint64_t ex_api_input(uint32_t i);

struct ex_node_stats {
	uint64_t states[EX_NODES], dgrams, steps, bytes;
};
struct ex_node_stats ex_nodes_stats(void);

#endif
