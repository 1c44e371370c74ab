/* explore_scope - the scopes: number of nodes, the program of each, and budgets of faults. Layer:
 * test. Constants. */
#ifndef SIM_EXPLORE_EXPLORE_SCOPE_H
#define SIM_EXPLORE_EXPLORE_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

enum { EX_NODES = 3, EX_PER = 4 /* calls of one incarnation */ };

/* Operations of a client of the memory node, in order; after a cancelled one FORGET. */
enum ex_mem_op {
	EX_MEM_END,
	EX_MEM_HELLO,
	EX_MEM_PUT_OWNED,
	EX_MEM_PUT,   /* TRANSFER: the first client to adopt has it */
	EX_MEM_SHARE, /* one more may adopt */
	EX_MEM_GRANT, /* TRANSFER */
	EX_MEM_PASS,  /* passes the reference to the other client */
	EX_MEM_ADOPT, /* once a reference has arrived, as GET */
	EX_MEM_GET,
	EX_MEM_RELEASE,
};
enum { EX_MEM_OPS = 8 };

struct ex_scope {
	const char *name, *what;
	uint32_t nodes;               /* the last one serves; with mem it is a memory node */
	uint32_t slots;               /* calls in flight per session, and per endpoint */
	uint32_t inflight;            /* 0: as slots */
	uint32_t sessions;            /* 0: one per node */
	uint32_t mtu, request, reply; /* in bytes */
	uint32_t supply;              /* messages of several datagrams at once */
	uint8_t connects, calls, cancels, closes; /* per incarnation of a client */
	uint32_t deadline_us;                     /* deadline of calls; 0: none */
	uint8_t drops, dups, ticks, crashes;
	uint8_t crash;  /* bit per node that may crash and restart */
	uint8_t window; /* datagrams in flight that may overtake each other */
	bool lossless;  /* a lossless carrier, as far as the core knows: no drops, no dups, a window
			   of 1 */
	bool up;        /* sessions are opened before any fault */
	bool refuse;    /* no memory for long messages */
	uint8_t fast;   /* enum lend_fast; the round sets it */
	uint8_t holders;                       /* largest number of holders of the snapshot */
	uint8_t mem[EX_NODES - 1][EX_MEM_OPS]; /* enum ex_mem_op per client */
};

extern const struct ex_scope ex_scopes[];
extern const uint32_t ex_n_scopes;

#endif
