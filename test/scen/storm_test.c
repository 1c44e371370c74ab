/* Goal: under loss, duplication and reordering every call ends once, with its own bytes, its
 * handler having run at most once, and all buffers, credits and slots come back once the network
 * heals. Method: seeded faults over two cores, calls of boundary sizes into named memory and the
 * pool, with cancels and deadlines; then a fault-free phase, and an audit. LEND_SEED=n runs one
 * seed; the seed of a failure is printed. Covers: src/core/core.c, src/core/loss.c,
 * src/core/client_call.c, src/core/server_call.c, src/core/rx.c, src/core/tx.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scen/core_pair.h"
#include "util/rng.h"
#include "one_line_test.h"

enum { CALLS = 60, NET = 4096, MTU = 1456 };

struct flight {
	uint8_t data[MTU];
	uint32_t len;
	int to;
	lend_ns at;
};

struct ask {
	uint64_t handle;
	uint32_t len, reply_len;
	int ends, runs;
	bool cancelled;
};

struct storm {
	struct core_pair pair; /* must be the first member */
	struct flight net[NET];
	uint32_t n;
	struct ask ask[CALLS];
	uint32_t asked, ended;
	struct lend_rng work, weather;
	uint32_t loss, dup, jitter_us; /* per mille; microseconds */
	uint64_t waiting[64];          /* requests without an answer from the server */
	uint32_t waiting_ask[64], waiting_n;
};

/* The current storm; seed 0: none. */
static struct storm *storm;
static uint64_t seed;

static unsigned salt_of(uint32_t ask, bool reply)
{
	return ask * 31 + reply * 97;
}

/* The first four bytes name its owner. */
static uint32_t make_message(struct storm *s, int side, uint32_t len, uint32_t ask)
{
	uint32_t b = pair_buf(&s->pair, side, len, len, salt_of(ask, side == 1));

	memcpy(s->pair.side[side].seg[b].data, &ask, 4);
	return b;
}

static const uint8_t *bytes_of(const struct storm *s, int side, const struct lend_event *e,
			       uint32_t buf)
{
	return e->data ? e->data : s->pair.side[side].seg[buf].data;
}

static void check_message(const uint8_t *data, uint32_t len, uint32_t ask, bool reply)
{
	for (uint32_t i = 4; i < len; i++)
		if (data[i] != pair_byte(i, salt_of(ask, reply)))
			cr_assert_fail("call %u, byte %u of %u is wrong", ask, i, len);
}

static uint32_t pick_len(struct storm *s)
{
	static const uint32_t edge[] = {4,     5,     100,   1375,  1376,  1377,   2752,
					40000, 65535, 65536, 65537, 90000, 300000, 8};

	return edge[lend_rng_below(&s->work, sizeof(edge) / sizeof(edge[0]))];
}

static void start_call(struct storm *s)
{
	struct ask *a = &s->ask[s->asked];
	struct lend_core_call call = {.method = 1, .tag = s->asked, .deadline = LEND_NEVER};
	int rc;

	a->len = pick_len(s);
	a->reply_len = pick_len(s);
	call.request = make_message(s, 0, a->len, s->asked);
	if (lend_rng_below(&s->work, 2))
		call.reply = pair_buf(&s->pair, 0, a->reply_len, 0, 0);
	if (lend_rng_below(&s->work, 8) == 0)
		call.deadline = s->pair.now + lend_rng_below(&s->work, 20000000);
	rc = pair_try(&s->pair, 0, &call, &a->handle);
	if (rc < 0) {
		cr_assert_eq(rc, -11, "%d", rc);
		pair_free(&s->pair, 0, call.request);
		pair_free(&s->pair, 0, call.reply);
		return;
	}
	a->cancelled = call.deadline != LEND_NEVER;
	s->asked++;
}

static void cancel_one(struct storm *s)
{
	struct ask *a = &s->ask[lend_rng_below(&s->work, s->asked)];

	if (!a->ends)
		a->cancelled = true;
	lend_core_cancel(s->pair.side[0].core, a->handle, 1);
}

static void on_request(struct core_pair *d, const struct lend_event *e)
{
	struct storm *s = (struct storm *)(void *)d;
	const uint8_t *data = bytes_of(s, 1, e, e->buf);
	uint32_t ask;

	memcpy(&ask, data, 4);
	cr_assert_lt(ask, s->asked);
	cr_assert_eq(e->len, s->ask[ask].len);
	cr_assert_eq(s->ask[ask].runs++, 0, "call %u ran twice", ask);
	check_message(data, (uint32_t)e->len, ask, false);
	pair_free(d, 1, e->buf);
	s->waiting[s->waiting_n] = e->call;
	s->waiting_ask[s->waiting_n++] = ask;
}

static void on_call_end(struct core_pair *d, const struct lend_event *e)
{
	struct storm *s = (struct storm *)(void *)d;
	struct ask *a = &s->ask[e->tag];

	cr_assert_eq(a->ends++, 0, "call %u ended twice", (unsigned)e->tag);
	s->ended++;
	if (e->status == 0) {
		cr_assert_eq(e->len, a->reply_len);
		cr_assert_eq(a->runs, 1);
		check_message(bytes_of(s, 0, e, e->reply), a->reply_len, (uint32_t)e->tag, true);
	} else {
		cr_assert(a->cancelled, "status %d", e->status);
		cr_assert(e->ran != 0 || a->runs == 0, "ran, but reported ran no");
	}
	pair_give_at_end(d, e);
}

/* Every carrier is full now and then, and whenever the table of datagrams in flight would
 * overflow. */
static bool is_full(struct core_pair *d, int from)
{
	struct storm *s = (struct storm *)(void *)d;

	return lend_rng_below(&s->weather, 1000) < 20 || s->n + 2 * d->side[from].n > NET - 64;
}

static uint32_t draw_copies(struct storm *s)
{
	if (s->pair.lossless)
		return 1;
	if (lend_rng_below(&s->weather, 1000) < s->loss)
		return 0;
	return lend_rng_below(&s->weather, 1000) < s->dup ? 2 : 1;
}

static void run_output(struct storm *s, int from)
{
	struct pair_side *side = &s->pair.side[from];

	pair_output(&s->pair, from);
	for (uint32_t i = 0; i < side->n; i++)
		for (uint32_t c = draw_copies(s); c > 0; c--) {
			struct flight *f = &s->net[s->n++];

			cr_assert_leq(s->n, NET);
			memcpy(f->data, side->wire[i].data, f->len = side->wire[i].len);
			f->to = !from;
			f->at = s->pair.now + 10000;
			if (!s->pair.lossless)
				f->at += lend_rng_below(&s->weather, s->jitter_us + 1) * 1000;
		}
	side->n = 0;
}

static void land_due(struct storm *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		struct flight *f = &s->net[i];

		if (f->at <= s->pair.now)
			pair_inject(&s->pair, f->to, f->data, f->len);
		else if (kept++ != i)
			s->net[kept - 1] = *f;
	}
	s->n = kept;
}

static void answer_one(struct storm *s)
{
	uint32_t i, ask;

	if (s->waiting_n == 0 || lend_rng_below(&s->work, 3) == 0)
		return;
	i = (uint32_t)lend_rng_below(&s->work, s->waiting_n);
	ask = s->waiting_ask[i];
	s->pair.side[1].request = s->waiting[i];
	pair_reply(&s->pair, 0, make_message(s, 1, s->ask[ask].reply_len, ask));
	s->waiting[i] = s->waiting[--s->waiting_n];
	s->waiting_ask[i] = s->waiting_ask[s->waiting_n];
}

static void run_step(struct storm *s)
{
	lend_ns now = s->pair.now, next = now + 50000;

	for (uint32_t i = 0; i < s->n; i++)
		next = s->net[i].at > now && s->net[i].at < next ? s->net[i].at : next;
	for (int i = 0; i < 2; i++) {
		lend_ns at = lend_core_deadline(s->pair.side[i].core);

		next = at > now && at < next ? at : next;
	}
	s->pair.now = next;
	land_due(s);
	answer_one(s);
	for (int i = 0; i < 2; i++) {
		lend_core_tick(s->pair.side[i].core, next);
		run_output(s, i);
	}
}

static void pass_time(struct storm *s, lend_ns t)
{
	for (lend_ns end = s->pair.now + t; s->pair.now < end;)
		run_step(s);
}

static void set_limits(struct lend_core_config *c)
{
	c->sessions = 2;
	c->reassemblies = 1 + (uint32_t)lend_rng_below(&storm->work, 5);
	c->message_max = 1 << 20;
	c->receive_budget = 100000 + lend_rng_below(&storm->work, 2000000);
	memset(c->seed, (int)seed + c->incarnation[0], sizeof(c->seed));
	c->fast = seed % 3; /* enum lend_fast */
}

static void open_storm(struct storm *s, bool lossless)
{
	lend_rng_seed(&s->work, seed);
	lend_rng_seed(&s->weather, ~seed);
	s->loss = (uint32_t)lend_rng_below(&s->weather, 300);
	s->dup = (uint32_t)lend_rng_below(&s->weather, 300);
	s->jitter_us = (uint32_t)lend_rng_below(&s->weather, 400);
	pair_open_with(&s->pair, lossless, set_limits);
	s->pair.quiet = true;
	s->pair.full = is_full;
	s->pair.on_request = on_request;
	s->pair.on_end = on_call_end;
	s->pair.side[0].session = pair_connect(&s->pair);
}

static void run_storm(bool lossless)
{
	struct storm *s = storm = calloc(1, sizeof(*s));

	open_storm(s, lossless);
	for (uint32_t steps = 0; s->ended < CALLS; steps++) {
		cr_assert_lt(steps, 400000, "stuck, %u of %u ended", s->ended, s->asked);
		if (s->asked < CALLS && lend_rng_below(&s->work, 4) == 0)
			start_call(s);
		if (s->asked > 0 && lend_rng_below(&s->work, 200) == 0)
			cancel_one(s);
		run_step(s);
	}
	s->loss = s->dup = 0;
	pass_time(s, 2000000000);
	while (s->waiting_n)
		answer_one(s);
	pass_time(s, 1000000000);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(s->pair.side[i].count[LEND_EV_SESSION_DOWN], 0);
	pair_close(&s->pair);
	free(s);
}

static void run_seeds(bool lossless)
{
	const char *one = getenv("LEND_SEED");

	for (seed = one ? strtoull(one, NULL, 0) : 1; one || seed <= 60; seed++) {
		run_storm(lossless);
		if (one)
			break;
	}
	seed = 0;
}

static void print_seed(void)
{
	if (seed)
		fprintf(stderr, "LEND_SEED=%llu\n", (unsigned long long)seed);
}

TestSuite(storm, .fini = print_seed);

TestRuns(storm, lossy, run_seeds(false));
TestRuns(storm, lossless_and_often_full, run_seeds(true));
