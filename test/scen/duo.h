/* duo - two cores, a network in between that the test moves by hand, and a trace of what happened.
 *
 * Side 0 calls, side 1 serves, but either may do both. Every datagram and event appends a line to
 * the trace; names of sessions and calls are small numbers in order of appearance, so the text
 * repeats. */
#ifndef TEST_SCEN_DUO_H
#define TEST_SCEN_DUO_H

#include "core/core.h"
#include "wire/pkt.h"

enum { DUO_BUFS = 256, DUO_WIRE = 4096, DUO_BIG = 4 << 20 };

struct duo_dgram {
	uint8_t data[9000];
	uint32_t len;
};

struct duo_side {
	struct lend_core *core;
	struct lend_core_config cfg;
	struct lend_seg seg[DUO_BUFS];
	bool taken[DUO_BUFS];
	struct lend_bufs bufs;
	struct duo_dgram *wire; /* on its way to the other side */
	uint32_t n;
	uint64_t session; /* as connected, or as accepted */
	uint64_t request; /* the newest EV_REQUEST, not yet answered */
	uint32_t request_buf, request_len;
	struct lend_event ev[16]; /* the newest of each kind, by kind */
	uint32_t count[16];
	uint32_t sent_bytes, received_bytes;
	bool refuse;  /* NEED is answered with 0 */
	uint8_t salt; /* of its key, see proof.h; 0: it has none */
	bool hold_need;
	bool no_supply;
};

struct duo {
	lend_ns now;
	struct duo_side side[2];
	char *text;
	size_t at, cap;
	bool quiet;
	/* True: lose this datagram. */
	bool (*lose)(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth);
	uint32_t nth; /* datagrams carried so far */
	/* True: the carrier does not take the next one. */
	bool (*full)(struct duo *d, int from);
	void *arg;
	uint32_t answer; /* length of what duo_answer() says */
	/* See every REQUEST of side 1; and every CALL_END, to give its buffers back. */
	void (*on_request)(struct duo *d, const struct lend_event *e);
	void (*on_end)(struct duo *d, const struct lend_event *e);
	bool lossless;
	const struct lend_core_self *self; /* how side 0 connects; NULL: without a key */
};

void duo_open(struct duo *d, bool lossless);
void duo_open_with(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *));
void duo_close(struct duo *d); /* every buffer must be back */
/* A buffer of cap bytes, the first len of them a pattern that depends on salt. */
static inline uint8_t duo_byte(uint32_t i, unsigned salt)
{
	return (uint8_t)(i * 7 + i / 251 + salt);
}
uint32_t duo_buf(struct duo *d, int side, uint32_t cap, uint32_t len, unsigned salt);
bool duo_same(struct duo *d, int side, uint32_t buf, uint32_t len, unsigned salt);
void duo_free(struct duo *d, int side, uint32_t buf);
uint64_t duo_connect(struct duo *d);
/* Side 0 connects; the trace starts empty. */
void duo_up(struct duo *d);
/* Opened, side 0 connected, and no trace. */
void duo_start(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *));
/* Opened; the ACCEPT of side 0's CONNECT is on side 1's wire; no trace. */
void duo_half_open(struct duo *d);
/* Side 1 closes its session, and so is this. */
void duo_hang_up(struct duo *d);
/* For duo.on_end. */
void duo_give_at_end(struct duo *d, const struct lend_event *e);
/* The buffers of the call that ended last on side 0 go back. */
void duo_done(struct duo *d);
/* For duo.lose: a dead network. */
bool duo_lose_all(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth);
/* For duo.full: the caller's carrier takes nothing. */
bool duo_full(struct duo *d, int from);
/* As lend_core_call(), in the session of this side. */
int duo_try(struct duo *d, int side, const struct lend_core_call *call, uint64_t *handle);
uint64_t duo_call(struct duo *d, uint32_t request, uint32_t reply, lend_ns timeout);
void duo_reply(struct duo *d, uint8_t status, uint32_t buf);
/* A call of len bytes, which name it in the trace. */
uint64_t duo_ask(struct duo *d, int side, uint32_t len, uint8_t class, lend_ns timeout);
/* duo_ask() of side 0, for however long. */
static inline uint64_t duo_request(struct duo *d, uint32_t len, uint8_t class)
{
	return duo_ask(d, 0, len, class, LEND_NEVER);
}
/* For duo.on_request: each is answered as it comes. */
void duo_answer(struct duo *d, const struct lend_event *e);
/* duo_start(), with a trace; side 1 answers at once, and what a call had goes back at its end. */
void duo_begin(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *));
/* Waits until no reply is needed any more, and closes both. */
void duo_finish(struct duo *d);
/* Takes up to most datagrams (32 at most) of what side has to say and puts them on its wire;
 * returns how many there were. */
uint32_t duo_turn(struct duo *d, int side, uint32_t most);
/* Takes all of it; polls its events. */
void duo_output(struct duo *d, int side);
/* Delivers everything on side's wire, in order. */
void duo_deliver(struct duo *d, int side);
/* Both of them until nothing moves and no time passes. */
void duo_settle(struct duo *d);
/* Lets time pass up to d->now + t, ticking at every deadline. */
void duo_pass(struct duo *d, lend_ns t);
/* The trace since the last look equals text. */
void duo_expect(struct duo *d, const char *text);
void duo_forget(struct duo *d);
/* Hands raw bytes to a side as if they came over the wire. */
void duo_inject(struct duo *d, int to, const void *data, uint32_t len);

#endif
