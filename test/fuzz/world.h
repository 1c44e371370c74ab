/* world - two cores that exchange datagrams under interference; the obligations of each are
 * counted.
 * Side 0 and side 1 are both client and server. world_flush() takes the live datagrams, delivers or
 * drops each, and keeps it on the receiver's tape. Checked on the way: a call ends once, a reply
 * ends once, a session begins and ends once, a buffer comes back once, references to a peer are
 * balanced. world_heal() lets everything end and counts that nothing is left. Messages are short
 * (MTU 512, 4 KiB unscheduled) so that every code path of long ones is cheap. Layer: test. One
 * world per process; world_open() resets it. */
#ifndef TEST_FUZZ_WORLD_H
#define TEST_FUZZ_WORLD_H

#include "core/core.h"
#include "core/arena.h"
#include "fuzz/choice.h"

enum {
	WORLD_MTU = 496,
	WORLD_BUFS = 160,
	WORLD_BUF_MAX = 24 << 10,
	WORLD_TAPE = 32,
	WORLD_MANY = 16, /* handles remembered of each sort, stale ones included */
	WORLD_PEERS = 8, /* indices on a carrier; 1 is the other side */
	WORLD_CALLS = 4096,
	WORLD_STEPS = 16,
};
enum { WORLD_POOR = 1, WORLD_LOPSIDED = 2, WORLD_KINDS = 4 };

struct world_dgram {
	uint32_t len;
	uint8_t data[WORLD_MTU + 192];
};

/* Handles seen; the newest n % MANY overwrites the oldest. */
struct world_seen {
	uint64_t handle[WORLD_MANY];
	uint32_t n;
};

struct world_side {
	struct lend_core *core;
	struct lend_seg seg[WORLD_BUFS];
	bool taken[WORLD_BUFS];
	struct lend_bufs bufs;
	uint64_t session[WORLD_MANY]; /* alive */
	uint32_t session_n;
	uint64_t running[WORLD_MANY]; /* requests without an answer */
	uint32_t running_n;
	uint64_t need[WORLD_MANY]; /* deferred NEEDs */
	uint32_t need_n;
	struct world_seen sessions, calls, requests, needs;
	uint32_t open;                   /* calls that have not ended */
	uint32_t replying;               /* replies that have not ended */
	uint8_t call_state[WORLD_CALLS]; /* by tag: 0 never, 1 open, 2 ended */
	uint32_t call_n;
	int32_t kept[WORLD_PEERS];
	uint64_t bytes_in[WORLD_PEERS], bytes_out[WORLD_PEERS];
	struct world_dgram tape[WORLD_TAPE]; /* to this side */
	uint32_t tape_n;
	uint64_t number; /* largest that arrived from the other side */
};

struct world {
	struct world_side side[2];
	lend_ns now;
	uint32_t carrier; /* 0: a network; 1: lossless */
	bool put_off;     /* NEEDs are answered later */
	bool deaf;        /* events are left in the core */
	bool forged;      /* after interference with a session's id or late events: any bytes */
};

extern struct world world;

/* One step of a side, decided by c. */
typedef void world_step(struct choice *c, int side);

/* A complete input: the first byte chooses the world; after warm_up() each step takes a byte for
 * side and step, and what the step consumes; at the end everything is healed. Returns the target's
 * result. */
int world_history(const uint8_t *data, size_t len, void (*warm_up)(void),
		  world_step *const step[WORLD_STEPS]);
/* Two low bits 3: on a lossless carrier; above them, WORLD_POOR and WORLD_LOPSIDED, and two bits
 * that choose the path of short messages. */
void world_open(uint8_t kind);
/* The peer's index as core and carrier name it. */
uint32_t world_peer(uint32_t index);
/* A buffer of cap bytes and this length, in n segments; 0: all are taken. */
uint32_t world_buf(int side, uint32_t cap, uint32_t n);
/* The same, with a message in it. */
uint32_t world_message(int side, uint32_t len, uint32_t n);
void world_give(int side, uint32_t buf);
void world_input(int side, const uint8_t *data, uint32_t len, uint32_t index);
/* Takes the events, supplies memory for NEEDs. */
void world_poll(int side);
void world_tick(lend_ns later);
/* Moves up to cap datagrams: bit i of drop loses the i-th, bit i of full makes the carrier full.
 * Returns their number. */
uint32_t world_flush(int side, uint32_t cap, uint8_t drop, uint8_t full);
/* 0 or an error; the buffers are kept or given back. */
int world_call(int side, uint64_t session, const struct lend_core_call *call);
int world_connect(int side, uint32_t index);
int world_reply(int side, uint64_t request, uint8_t status, uint32_t buf);
/* Answers a NEED with memory of this length, or refuses. */
void world_attach(int side, uint64_t call, uint64_t len);
bool world_is_running(int side, uint64_t request);
/* Ends the interference: everything must end, and nothing may be left. */
void world_heal(void);

#endif
