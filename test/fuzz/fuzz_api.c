/* Goal: a caller that uses stale handles, repeats calls or passes invalid arguments gets a typed
 * error, and a call that fails leaves the core unchanged. Method: two cores; the bytes choose API
 * calls with live, stale, wrong or invented handles, buffers that are too short or in too many
 * pieces, output results reported late or as dead; datagrams and time in between. The expected
 * result of each call follows from the test's own steps. Covers: src/core/core.c,
 * src/core/client_call.c, src/core/server_call.c, src/core/output_result.c, src/core/sess.c */
#include "core/short_burst.h"
#include "fuzz/finding.h"
#include "fuzz/world.h"

const char fuzz_name[] = "api";

enum { IMPOSSIBLE_LEN = WORLD_BUF_MAX + 5000 };

static _Alignas(64) uint8_t before[2][1 << 19];

/* A call may end a burst, also one that fails. So the burst of the copy is ended, and the core's
 * goes on. */
static void remember_core(int side)
{
	const struct lend_core *core = world.side[side].core;
	bool in_burst = core->in_burst;

	FUZZ_CHECK(core->size <= sizeof(before[side]), "the arena grew: make room");
	memcpy(before[side], core, in_burst ? core->size : core->hashed);
	if (in_burst)
		lend_burst_end((struct lend_core *)(void *)before[side]);
}

static void expect_unchanged(int side)
{
	struct lend_core *core = world.side[side].core;

	lend_burst_end(core);
	FUZZ_CHECK(memcmp(before[side], core, core->hashed) == 0,
		   "a call that failed changed the state");
}

/* A handle that was given out once, by either side, unchanged or with a flipped bit; or any
 * number. */
static uint64_t some_handle(struct choice *c, int side)
{
	const struct world_side *s = &world.side[choice_rare(c, 8) ? !side : side];
	const struct world_seen *seen[] = {&s->requests, &s->calls, &s->needs, &s->sessions};
	const struct world_seen *from = seen[choice_of(c, 4)];

	if (!from->n || choice_rare(c, 8))
		return choice_edge(c);
	return from->handle[choice_of(c, lend_min_u32(from->n, WORLD_MANY))] ^
	       (choice_rare(c, 8) ? UINT64_C(1) << choice_of(c, 64) : 0);
}

static bool is_session(int side, uint64_t id)
{
	for (uint32_t i = 0; i < world.side[side].session_n; i++)
		if (world.side[side].session[i] == id)
			return true;
	return false;
}

static uint64_t some_session(struct choice *c, int side)
{
	const struct world_side *s = &world.side[side];

	return s->session_n && !choice_rare(c, 4) ? s->session[choice_of(c, s->session_n)]
						  : some_handle(c, side);
}

static uint32_t some_len(struct choice *c)
{
	static const uint32_t len[] = {0, 1, 416, 417, 3000, 4096, 9000, WORLD_BUF_MAX};

	return choice_rare(c, 16) ? IMPOSSIBLE_LEN : len[choice_of(c, 8)];
}

static uint32_t some_message(struct choice *c, int side)
{
	uint32_t len = some_len(c);

	return len ? world_message(side, len, 1 + choice_of(c, choice_rare(c, 4) ? 8 : 2)) : 0;
}

static uint32_t some_memory(struct choice *c, int side)
{
	uint32_t len = some_len(c);

	return len ? world_buf(side, len, 1 + choice_of(c, 3)) : 0;
}

static void step_call(struct choice *c, int side)
{
	struct lend_core_call call = {.method = 1, .zero_rtt = 1, .class = choice_u8(c)};
	uint64_t session = some_session(c, side);
	bool lives = is_session(side, session);
	int err;

	call.deadline = world.now + choice_of(c, 200) * LEND_MS;
	call.request = some_message(c, side);
	call.reply = choice_rare(c, 2) ? some_memory(c, side) : 0;
	fuzz_hostile += !lives;
	remember_core(side);
	err = world_call(side, session, &call);
	FUZZ_CHECK(lives == (err != E_STALE), "stale without having ended");
	FUZZ_CHECK(!err || err == E_AGAIN || err == E_INVAL || err == E_MSGSIZE || err == E_STALE ||
		       (err == E_NOTSUP && call.class & LEND_CALL_HEAD),
		   "an error that call() does not have");
	if (err)
		expect_unchanged(side);
}

static void step_reply(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	uint64_t request = s->running_n && !choice_rare(c, 3)
			       ? s->running[choice_of(c, s->running_n)]
			       : some_handle(c, side);
	uint8_t status;
	int err;

	fuzz_hostile += !world_is_running(side, request);
	remember_core(side);
	status = choice_u8(c);
	err = world_reply(side, request, status, some_message(c, side));
	FUZZ_CHECK(!err || err == E_STALE || err == E_INVAL || err == E_MSGSIZE ||
		       (err == E_NOTSUP && status & LEND_REPLY_HEAD),
		   "an error that reply() does not have");
	if (err)
		expect_unchanged(side);
}

/* Uses of a request's handle while its handler runs; afterwards it must be invalid. */
static void step_ask(struct choice *c, int side)
{
	struct lend_core *core = world.side[side].core;
	uint64_t h = some_handle(c, side);
	uint8_t incarnation[16];
	uint32_t peer;

	fuzz_hostile++;
	remember_core(side);
	(void)lend_core_request_cancelled(core, h);
	FUZZ_CHECK(!is_session(side, h) || lend_core_session_peer(core, h, &peer, incarnation) == 0,
		   "an unknown session");
	expect_unchanged(side);
}

static void step_cancel(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	uint64_t h = some_handle(c, side);
	uint32_t open = s->open;

	fuzz_hostile++;
	for (int twice = 0; twice < 2; twice++) {
		lend_core_cancel(s->core, h, 1);
		world_poll(side);
		FUZZ_CHECK(open - s->open <= 1, "one cancel ended two calls");
	}
}

static void step_attach(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	uint64_t h = some_handle(c, side);
	uint32_t buf = some_memory(c, side);
	int err;

	if (s->need_n && choice_rare(c, 2))
		h = s->need[--s->need_n];
	else
		fuzz_hostile++;
	remember_core(side);
	err = lend_core_attach(s->core, h, &s->bufs, buf);
	FUZZ_CHECK(!err || err == E_STALE || err == E_INVAL,
		   "an error that attach() does not have");
	if (err) {
		world_give(side, buf);
		expect_unchanged(side);
	}
	world_poll(side);
}

static void step_connect(struct choice *c, int side)
{
	static const uint32_t peer[] = {LEND_PEER(2, 1), LEND_PEER(3, 1), LEND_PEER(7, 1),
					UINT32_MAX};
	struct lend_core *core = world.side[side].core;
	uint64_t session;
	int err;

	remember_core(side);
	if (choice_rare(c, 3)) {
		fuzz_hostile++;
		FUZZ_CHECK(lend_core_connect(core, world.now, peer[choice_of(c, 4)], 1, NULL,
					     &session) == E_HOSTUNREACH,
			   "a path to an unknown peer");
		expect_unchanged(side);
		return;
	}
	err = world_connect(side, 1);
	FUZZ_CHECK(!err || err == E_NOSPC, "an error that connect() does not have");
	if (err)
		expect_unchanged(side);
}

static void step_disconnect(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	uint64_t session = some_session(c, side);
	uint32_t n = s->session_n;

	fuzz_hostile++;
	for (int twice = 0; twice < 2; twice++)
		lend_core_disconnect(s->core, session);
	world_poll(side);
	FUZZ_CHECK(n - s->session_n <= 1 && !is_session(side, session),
		   "another event than its end");
}

/* Output is taken, other steps follow, and only then its result is reported. */
static void sent_late(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	struct lend_out out[8];
	uint32_t n =
	    lend_core_output(s->core, world.now, &s->bufs, out, choice_of(c, 9)); /* 0, too */

	fuzz_hostile++;
	if (choice_rare(c, 2))
		step_disconnect(c, side);
	if (choice_rare(c, 2))
		step_cancel(c, side);
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)(choice_rare(c, 2) ? LEND_SENT : choice_of(c, 3));
	lend_core_sent(s->core, out, n);
	world_poll(side);
}

static void step_flush(struct choice *c, int side)
{
	uint8_t drop = choice_rare(c, 4) ? choice_u8(c) : 0;

	(void)world_flush(side, 16, drop, 0);
}

/* Passes a time that goes back, or stands still. */
static void step_earlier(struct choice *c, int side)
{
	struct world_side *s = &world.side[side];
	lend_ns then = world.now - lend_min_u64(world.now, choice_edge(c));

	fuzz_hostile++;
	lend_core_tick(s->core, then);
	world_poll(side);
}

static void step_later(struct choice *c, int side)
{
	(void)side;
	world_tick(UINT64_C(1) << choice_of(c, 33));
}

static void put_off(struct choice *c, int side)
{
	(void)c, (void)side;
	world.put_off = !world.put_off;
}

static void warm_up(void)
{
	(void)world_connect(0, 1);
	for (int turn = 0; turn < 4; turn++)
		(void)world_flush(turn & 1, 16, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static world_step *const step[WORLD_STEPS] = {
	    step_call,    step_call,       step_reply, step_ask,     step_cancel, step_attach,
	    step_connect, step_disconnect, sent_late,  step_earlier, step_later,  put_off,
	    step_flush,   step_flush,      step_flush, step_flush};

	return world_history(data, len, warm_up, step);
}
