/* Goal: no hostile datagram stops a core, makes it access memory out of bounds, leak, end a call
 * twice, or send a forged address more than came from there; a datagram that proves no session
 * changes nothing. Method: two cores with sessions, calls and transfers in progress; the bytes
 * choose the honest sides' steps, the datagrams that arrive, and those put in between: mutations of
 * live datagrams with a valid session, invented ones, raw bytes. At the end everything must be over
 * and free. Covers: src/core/input.c, src/core/handshake.c, src/core/cookie.c, src/core/rx.c,
 * src/core/loss.c, src/core/control.c */
#include "fuzz/hostile.h"
#include "fuzz/finding.h"

const char fuzz_name[] = "input";

static void step_call(struct choice *c, int side)
{
	static const uint32_t len[] = {0, 1, 415, 416, 417, 1000, 4096, 4097, 9000, WORLD_BUF_MAX};
	struct world_side *s = &world.side[side];
	uint32_t n = len[choice_of(c, 10)], reply = len[choice_of(c, 10)];
	struct lend_core_call call = {
	    .method = 1, .zero_rtt = 1, .class = (uint8_t)choice_of(c, 9)};

	if (!s->session_n) {
		(void)world_connect(side, 1);
		return;
	}
	call.deadline = world.now + (1 + choice_of(c, 200)) * LEND_MS;
	call.request = n ? world_message(side, n, 1) : 0;
	call.reply = choice_rare(c, 3) ? world_buf(side, reply + 1, 2) : 0;
	(void)world_call(side, s->session[choice_of(c, s->session_n)], &call);
}

static void step_reply(struct choice *c, int side)
{
	static const uint32_t len[] = {0, 10, 416, 417, 4096, 5000, 20000};
	struct world_side *s = &world.side[side];
	uint32_t n = len[choice_of(c, 7)];

	if (s->running_n)
		(void)world_reply(side, s->running[choice_of(c, s->running_n)], choice_u8(c),
				  n ? world_message(side, n, 1) : 0);
}

static void step_cancel(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];

	if (s->calls.n)
		lend_core_cancel(s->core, s->calls.handle[choice_of(c, WORLD_MANY)], 1);
	world_poll(side);
}

static void step_later(struct choice *c, int side)
{
	(void)side;
	world_tick(UINT64_C(1) << choice_of(c, 34));
}

static void step_flush(struct choice *c, int side)
{
	uint8_t drop = choice_u8(c);

	(void)world_flush(side, 16, drop, choice_rare(c, 8) ? choice_u8(c) : 0);
}

/* Delivers a live datagram again, or late. */
static void step_again(struct choice *c, int to)
{
	struct world_side *s = &world.side[to];
	struct world_dgram d;

	if (!s->tape_n)
		return;
	d = s->tape[choice_of(c, lend_min_u32(s->tape_n, WORLD_TAPE))];
	world_input(to, d.data, d.len, 1);
}

static void step_attack(struct choice *c, int to)
{
	struct world_dgram d;
	uint32_t kind = choice_of(c, 16);

	if (kind < 9)
		hostile_mutate(c, to, &d);
	else if (kind < 15)
		hostile_invent(c, to, &d);
	else
		hostile_raw(c, &d);
	hostile_feed(to, &d, choice_rare(c, 6) ? 2 + choice_of(c, 4) : 1);
}

static void step_burst(struct choice *c, int to)
{
	uint32_t n = 1 + choice_of(c, 24);

	choice_dice(c);
	for (; n > 0; n--)
		step_attack(c, to);
	choice_bytes(c);
}

static void step_gone(int side)
{
	struct world_side *s = &world.side[side];
	uint8_t incarnation[16];
	uint32_t peer;
	struct lend_in in = {.peer = world_peer(1), .gone = 1};

	lend_core_input(world.side[side].core, world.now, &world.side[side].bufs, &in, 1);
	world_poll(side);
	for (uint32_t i = 0; i < s->session_n; i++)
		FUZZ_CHECK(lend_core_session_peer(s->core, s->session[i], &peer, incarnation) ==
				   0 &&
			       peer != in.peer,
			   "a session with a peer that hung up");
}

static void step_rare(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];

	switch (choice_of(c, 8)) {
	case 0:
		world.put_off = !world.put_off;
		return;
	case 1:
		world.deaf = !world.deaf;
		world.forged = true;
		return;
	case 2:
		if (s->session_n)
			lend_core_disconnect(s->core, s->session[choice_of(c, s->session_n)]);
		world_poll(side);
		return;
	case 3:
		step_gone(side);
		return;
	default:
		(void)world_connect(side, choice_rare(c, 8) ? 2 : 1);
	}
}

/* Sessions in both directions, and a first call each, as state to attack. */
static void warm_up(void)
{
	struct lend_core_call call = {.method = 1, .deadline = world.now + 100 * LEND_MS};

	for (int i = 0; i < 2; i++)
		(void)world_connect(i, 1);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 2; i++)
			(void)world_flush(i, 16, 0, 0);
		world_tick(10 * LEND_US);
	}
	for (int i = 0; i < 2; i++) {
		call.request = world_message(i, 1000, 1);
		(void)world_call(i, world.side[i].session[0], &call);
		(void)world_flush(i, 16, 0, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static world_step *const step[WORLD_STEPS] = {
	    step_call,   step_call,   step_reply,  step_cancel, step_later, step_flush,
	    step_flush,  step_again,  step_rare,   step_burst,  step_burst, step_attack,
	    step_attack, step_attack, step_attack, step_attack};

	return world_history(data, len, warm_up, step);
}
