/* Goal: a caller that uses stale handles, repeats calls or passes invalid arguments gets a typed
 * error, and a call that fails leaves the core unchanged. Method: two cores; the bytes choose API
 * calls with live, stale, wrong or invented handles, buffers that are too short or in too many
 * pieces, output results reported late or as dead; datagrams and time in between. The expected
 * result of each call follows from the test's own steps. Covers: src/core/core.c,
 * src/core/client_call.c, src/core/server_call.c, src/core/output_result.c, src/core/sess.c */
#include "fuzz/finding.h"
#include "fuzz/world.h"

const char fuzz_name[] = "api";

enum { IMPOSSIBLE_LEN = WORLD_BUF_MAX + 5000 };

static _Alignas(64) uint8_t before[2][1 << 17];

static void remember_core(int who)
{
	const struct lend_core *core = world.side[who].core;

	FUZZ_CHECK(core->hashed <= sizeof(before[who]), "the arena grew: make room");
	memcpy(before[who], core, core->hashed);
}

static void expect_unchanged(int who)
{
	FUZZ_CHECK(memcmp(before[who], world.side[who].core, world.side[who].core->hashed) == 0,
		   "a call that failed changed the state");
}

/* A handle that was given out once, by either side, unchanged or with a flipped bit; or any
 * number. */
static uint64_t some_handle(struct choice *c, int who)
{
	const struct world_side *s = &world.side[choice_rare(c, 8) ? !who : who];
	const struct world_seen *seen[] = {&s->requests, &s->calls, &s->needs, &s->sessions};
	const struct world_seen *from = seen[choice_of(c, 4)];

	if (!from->n || choice_rare(c, 8))
		return choice_edge(c);
	return from->handle[choice_of(c, lend_min_u32(from->n, WORLD_MANY))] ^
	       (choice_rare(c, 8) ? UINT64_C(1) << choice_of(c, 64) : 0);
}

static bool is_session(int who, uint64_t id)
{
	for (uint32_t i = 0; i < world.side[who].session_n; i++)
		if (world.side[who].session[i] == id)
			return true;
	return false;
}

static uint64_t some_session(struct choice *c, int who)
{
	const struct world_side *s = &world.side[who];

	return s->session_n && !choice_rare(c, 4) ? s->session[choice_of(c, s->session_n)]
						  : some_handle(c, who);
}

static uint32_t some_len(struct choice *c)
{
	static const uint32_t len[] = {0, 1, 416, 417, 3000, 4096, 9000, WORLD_BUF_MAX};

	return choice_rare(c, 16) ? IMPOSSIBLE_LEN : len[choice_of(c, 8)];
}

static uint32_t some_message(struct choice *c, int who)
{
	uint32_t len = some_len(c);

	return len ? world_message(who, len, 1 + choice_of(c, choice_rare(c, 4) ? 8 : 2)) : 0;
}

static uint32_t some_memory(struct choice *c, int who)
{
	uint32_t len = some_len(c);

	return len ? world_buf(who, len, 1 + choice_of(c, 3)) : 0;
}

static void step_call(struct choice *c, int who)
{
	struct lend_core_call call = {.method = 1, .zero_rtt = 1, .class = choice_u8(c)};
	uint64_t session = some_session(c, who);
	bool lives = is_session(who, session);
	int err;

	call.deadline = world.now + choice_of(c, 200) * LEND_MS;
	call.request = some_message(c, who);
	call.reply = choice_rare(c, 2) ? some_memory(c, who) : 0;
	fuzz_hostile += !lives;
	remember_core(who);
	err = world_call(who, session, &call);
	FUZZ_CHECK(lives == (err != E_STALE), "stale without having ended");
	FUZZ_CHECK(!err || err == E_AGAIN || err == E_INVAL || err == E_MSGSIZE || err == E_STALE,
		   "an error that call() does not have");
	if (err)
		expect_unchanged(who);
}

static void step_reply(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	uint64_t request = s->running_n && !choice_rare(c, 3)
			       ? s->running[choice_of(c, s->running_n)]
			       : some_handle(c, who);
	int err;

	fuzz_hostile += !world_is_running(who, request);
	remember_core(who);
	err = world_reply(who, request, choice_u8(c), some_message(c, who));
	FUZZ_CHECK(!err || err == E_STALE || err == E_INVAL || err == E_MSGSIZE,
		   "an error that reply() does not have");
	if (err)
		expect_unchanged(who);
}

/* Uses of a request's handle while its handler runs; afterwards it must be invalid. */
static void step_ask(struct choice *c, int who)
{
	struct lend_core *core = world.side[who].core;
	uint64_t h = some_handle(c, who);
	uint8_t incarnation[16];
	uint32_t peer;

	fuzz_hostile++;
	remember_core(who);
	if (world_is_running(who, h))
		FUZZ_CHECK(lend_core_request_deadline(core, h) > 0, "a handler without a deadline");
	else
		FUZZ_CHECK(lend_core_request_deadline(core, h) == 0 || core->used[1] > 0,
			   "a deadline without a timer");
	(void)lend_core_request_cancelled(core, h);
	FUZZ_CHECK(!is_session(who, h) || lend_core_session_peer(core, h, &peer, incarnation) == 0,
		   "an unknown session");
	expect_unchanged(who);
}

static void step_cancel(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	uint64_t h = some_handle(c, who);
	uint32_t open = s->open;

	fuzz_hostile++;
	for (int twice = 0; twice < 2; twice++) {
		lend_core_cancel(s->core, h, 1);
		world_poll(who);
		FUZZ_CHECK(open - s->open <= 1, "one cancel ended two calls");
	}
}

static void step_attach(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	uint64_t h = some_handle(c, who);
	uint32_t buf = some_memory(c, who);
	int err;

	if (s->need_n && choice_rare(c, 2))
		h = s->need[--s->need_n];
	else
		fuzz_hostile++;
	remember_core(who);
	err = lend_core_attach(s->core, h, &s->bufs, buf);
	FUZZ_CHECK(!err || err == E_STALE || err == E_INVAL,
		   "an error that attach() does not have");
	if (err) {
		world_give(who, buf);
		expect_unchanged(who);
	}
	world_poll(who);
}

static void step_connect(struct choice *c, int who)
{
	static const uint32_t peer[] = {LEND_PEER(2, 1), LEND_PEER(3, 1), LEND_PEER(7, 1),
					UINT32_MAX};
	struct lend_core *core = world.side[who].core;
	uint64_t session;
	int err;

	remember_core(who);
	if (choice_rare(c, 3)) {
		fuzz_hostile++;
		FUZZ_CHECK(lend_core_connect(core, world.now, peer[choice_of(c, 4)], 1, NULL,
					     &session) == E_HOSTUNREACH,
			   "a path to an unknown peer");
		expect_unchanged(who);
		return;
	}
	err = world_connect(who, 1);
	FUZZ_CHECK(!err || err == E_NOSPC, "an error that connect() does not have");
	if (err)
		expect_unchanged(who);
}

static void step_disconnect(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	uint64_t session = some_session(c, who);
	uint32_t n = s->session_n;

	fuzz_hostile++;
	for (int twice = 0; twice < 2; twice++)
		lend_core_disconnect(s->core, session);
	world_poll(who);
	FUZZ_CHECK(n - s->session_n <= 1 && !is_session(who, session),
		   "another event than its end");
}

/* Output is taken, other steps follow, and only then its result is reported. */
static void told_late(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	struct lend_out out[8];
	uint32_t n =
	    lend_core_output(s->core, world.now, &s->bufs, out, choice_of(c, 9)); /* 0, too */

	fuzz_hostile++;
	if (choice_rare(c, 2))
		step_disconnect(c, who);
	if (choice_rare(c, 2))
		step_cancel(c, who);
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)(choice_rare(c, 2) ? LEND_SENT : choice_of(c, 3));
	lend_core_sent(s->core, out, n);
	world_poll(who);
}

static void step_flush(struct choice *c, int who)
{
	uint8_t drop = choice_rare(c, 4) ? choice_u8(c) : 0;

	(void)world_flush(who, 16, drop, 0);
}

/* Passes a time that goes back, or stands still. */
static void step_earlier(struct choice *c, int who)
{
	struct world_side *s = &world.side[who];
	lend_ns then = world.now - lend_min_u64(world.now, choice_edge(c));

	fuzz_hostile++;
	lend_core_tick(s->core, then);
	world_poll(who);
}

static void step_later(struct choice *c, int who)
{
	(void)who;
	world_tick(UINT64_C(1) << choice_of(c, 33));
}

static void put_off(struct choice *c, int who)
{
	(void)c, (void)who;
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
	    step_connect, step_disconnect, told_late,  step_earlier, step_later,  put_off,
	    step_flush,   step_flush,      step_flush, step_flush};

	return world_history(data, len, warm_up, step);
}
