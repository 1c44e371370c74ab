/* core_pair - two cores, a network between them that the test moves step by step, and a trace of
 * events. Side 0 calls, side 1 serves, but either may do both. Every datagram and event appends a
 * line to the trace; sessions and calls are named by small numbers in order of appearance, so that
 * the text repeats. */
#ifndef TEST_SCEN_CORE_PAIR_H
#define TEST_SCEN_CORE_PAIR_H

#include "core/core.h"
#include "rpc/shake.h"
#include "wire/pkt.h"

enum { PAIR_BUFS = 256, PAIR_WIRE = 4096, PAIR_BIG = 4 << 20 };

struct pair_dgram {
	uint8_t data[9000];
	uint32_t len;
};

struct pair_side {
	struct lend_core *core;
	struct lend_core_config cfg;
	struct lend_seg seg[PAIR_BUFS];
	bool taken[PAIR_BUFS];
	struct lend_bufs bufs;
	struct pair_dgram *wire; /* datagrams in flight to the other side */
	uint32_t n;
	uint64_t session; /* as connected, or as accepted */
	uint64_t request; /* the newest EV_REQUEST without an answer */
	uint32_t request_buf, request_len;
	struct lend_event ev[16]; /* newest event of each kind, by kind */
	uint32_t count[16];
	uint32_t sent_bytes, received_bytes;
	bool refuse;  /* NEED is answered with 0 */
	uint8_t salt; /* salt of its key, see proof.h; 0: no key */
	bool hold_need;
	bool no_supply;
	struct lend_shake *shake; /* seals its handshakes, see sealed_pair.h; NULL: none */
};

struct core_pair {
	lend_ns now;
	struct pair_side side[2];
	char *text;
	size_t at, cap;
	bool quiet;
	/* True: lose this datagram. */
	bool (*lose)(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth);
	uint32_t nth; /* datagrams carried so far */
	/* True: the carrier does not accept the next one. */
	bool (*full)(struct core_pair *d, int from);
	void *arg;
	uint32_t answer; /* length of the replies of pair_answer() */
	/* Called for every REQUEST of side 1, and for every CALL_END, to give its buffers back. */
	void (*on_request)(struct core_pair *d, const struct lend_event *e);
	void (*on_end)(struct core_pair *d, const struct lend_event *e);
	bool lossless;
	const struct lend_core_identity *self; /* how side 0 connects; NULL: without a key */
};

void pair_open(struct core_pair *d, bool lossless);
void pair_open_with(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *));
void pair_close(struct core_pair *d); /* every buffer must be back */
/* A buffer of cap bytes, the first len of them a pattern that depends on salt. */
static inline uint8_t pair_byte(uint32_t i, unsigned salt)
{
	return (uint8_t)(i * 7 + i / 251 + salt);
}
uint32_t pair_buf(struct core_pair *d, int side, uint32_t cap, uint32_t len, unsigned salt);
bool pair_same(struct core_pair *d, int side, uint32_t buf, uint32_t len, unsigned salt);
void pair_free(struct core_pair *d, int side, uint32_t buf);
uint64_t pair_connect(struct core_pair *d);
/* Side 0 connects; the trace starts empty. */
void pair_up(struct core_pair *d);
/* Opened, side 0 connected, and an empty trace. */
void pair_start(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *));
/* Opened; the ACCEPT for side 0's CONNECT is in flight from side 1; an empty trace. */
void pair_half_open(struct core_pair *d);
/* Side 1 closes its session; both ends are down afterwards. */
void pair_hang_up(struct core_pair *d);
/* For pair.on_end. */
void pair_give_at_end(struct core_pair *d, const struct lend_event *e);
/* Gives back the buffers of the call that ended last on side 0. */
void pair_done(struct core_pair *d);
/* For pair.lose: a dead network. */
bool pair_lose_all(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth);
/* For pair.full: the caller's, or the server's, carrier accepts nothing. */
bool pair_full(struct core_pair *d, int from);
bool pair_full_server(struct core_pair *d, int from);
/* Like lend_core_call(), in this side's session. */
int pair_try(struct core_pair *d, int side, const struct lend_core_call *call, uint64_t *handle);
uint64_t pair_call(struct core_pair *d, uint32_t request, uint32_t reply, lend_ns timeout);
void pair_reply(struct core_pair *d, uint8_t status, uint32_t buf);
/* Starts a call of len bytes, a length that identifies it in the trace. */
uint64_t pair_ask(struct core_pair *d, int side, uint32_t len, uint8_t class, lend_ns timeout);
/* pair_ask() of side 0, without a deadline. */
static inline uint64_t pair_request(struct core_pair *d, uint32_t len, uint8_t class)
{
	return pair_ask(d, 0, len, class, LEND_NEVER);
}
/* For pair.on_request: answers each request when it arrives. */
void pair_answer(struct core_pair *d, const struct lend_event *e);
/* pair_start(), with a trace; side 1 answers at once, and a call's buffers are given back at its
 * end. */
void pair_begin(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *));
/* Waits until all replies are acknowledged, and closes both sides. */
void pair_finish(struct core_pair *d);
/* Moves up to `most` datagrams (32 at most) from side's core to its wire; returns their number. */
uint32_t pair_turn(struct core_pair *d, int side, uint32_t most);
/* Moves all of them; polls the side's events. */
void pair_output(struct core_pair *d, int side);
/* Delivers everything on side's wire, in order. */
void pair_deliver(struct core_pair *d, int side);
/* Both: moves all of them to the wire and delivers it. */
void pair_carry(struct core_pair *d, int side);
/* Moves both sides until nothing is in flight; no time passes. */
void pair_settle(struct core_pair *d);
/* Lets time pass up to d->now + t, ticking at every deadline. */
void pair_pass(struct core_pair *d, lend_ns t);
/* The trace since the last check equals text. */
void pair_expect(struct core_pair *d, const char *text);
void pair_forget(struct core_pair *d);
/* Hands raw bytes to a side as if they came over the wire. */
void pair_inject(struct core_pair *d, int to, const void *data, uint32_t len);

#endif
