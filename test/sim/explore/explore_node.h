/* explore_node - one node: a real core, perhaps a real store, and the little program that uses it.
 *
 * A node is a function: its state and one input give its next state, the datagrams that it sends
 * and what its program saw. States, datagrams and the function's values are kept by number, so each
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
	EX_TICK,    /* time goes to the next deadline */
	EX_PASS,    /* so many ns pass */
	EX_CONNECT,
	EX_CALL,
	EX_CANCEL, /* call */
	EX_REPLY,  /* request, by its place */
	EX_CLOSE,
	EX_OP,    /* the next operation on memory, or FORGET */
	EX_AGAIN, /* the operation whose outcome is not known, once more */
	/* the world's */
	EX_DROP,
	EX_DUP,
	EX_CRASH,
	EX_START,
	EX_KINDS,
};
#define EX_INPUT(kind, arg) ((uint64_t)(kind) << 56 | (arg))

enum { EX_REQS = 4, EX_IDS = 8, EX_MEM_BYTES = 192 };
enum { EX_PROCESSES = 2 * (EX_NODES - 1) /* clients, twice started */ };

struct ex_message {
	uint16_t len;
	uint8_t bytes[EX_MEM_BYTES];
};

/* The program on memory. */
struct ex_memapp {
	uint8_t at;             /* place in the scope's list */
	uint8_t forget;         /* what became of the operation at `at` is not known */
	uint8_t asked;          /* what is under way is FORGET */
	uint8_t has_ref, holds; /* believed */
	uint8_t content;        /* what ref reads as */
	uint8_t dead;           /* its life, or what it wanted, is gone */
	uint8_t lives, again;   /* times that it said HELLO anew; that it repeated */
	uint64_t life;
	uint64_t id; /* of the operation at `at` */
	uint8_t ref[64];
};

/* The program of a node; zeros at start. */
struct ex_app {
	uint8_t inc;
	uint8_t connects, made, cancels, closes, up;
	uint8_t peers, replies; /* kept; not yet ended */
	uint64_t session;
	uint64_t call[EX_PER]; /* open ones; 0 */
	lend_ns limit[EX_PER]; /* their deadlines */
	uint64_t stale;        /* the newest that ended */
	uint8_t cancelled;     /* calls that the program ended, by bit */
	struct ex_req {
		uint64_t handle;
		uint8_t id, used, cancelled;
	} req[EX_REQS];
	uint64_t lent; /* buffers, by handle, that the core has */
	struct ex_memapp mem;
	struct ex_message dyn[EX_REQS]; /* requests or replies of a memory node, while lent */
};

struct ex_dgram {
	uint8_t from, to;
	uint8_t app;                /* a reference, handed over by the program */
	uint8_t head_len, data_len; /* of bytes */
	uint8_t message;            /* else a piece of this message */
	uint32_t offset, len;
	uint8_t bytes[256];
};

/* What a program saw, for the oracles that look at all nodes. */
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

/* What the world must know of a node's state. */
struct ex_attr {
	uint64_t wait;              /* ns until its deadline; LEND_NEVER */
	uint32_t api;               /* which of the inputs below may be tried: a bit each */
	uint8_t idle;               /* no call of its own is open, nothing to answer */
	uint8_t quiet, clean, open; /* see ex_core_quiet(); it has a session */
	uint8_t settle; /* an outcome is not known: 1, say EX_OP; 2, say EX_CONNECT first */
	uint8_t inc;
	/* By process: memory node, of each one's life and holds; client, its own, believed. */
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
/* The state of a node that has just started. */
uint32_t ex_node_start(uint32_t node, uint32_t inc);
const struct ex_effect *ex_node_step(uint32_t node, uint32_t state, uint64_t input);
const struct ex_attr *ex_node_attr(uint32_t node, uint32_t state);
const struct ex_dgram *ex_dgram_at(uint32_t i, struct ex_dgram *space);
/* An order of datagrams that is the same in every run. */
uint64_t ex_dgram_rank(uint32_t i);
/* The input that bit i of api stands for. */
uint64_t ex_api_input(uint32_t i);

struct ex_node_stats {
	uint64_t states[EX_NODES], dgrams, steps, bytes;
};
struct ex_node_stats ex_nodes_stats(void);

#endif
