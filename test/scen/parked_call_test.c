/* Goal: calls whose handlers run long cost few datagrams in all, a lost reply of such a call is
 * found, and it ends with its peer, its deadline or its cancel. Method: two cores; datagrams are
 * counted over an idle time, and lost at each step of the question. Covers: src/core/client_call.c,
 * src/core/server_call.c, src/core/sess_timer.c, src/core/control.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"
#include "scen/fast_mode.h"
#include "wire/head.h"

#define MS UINT64_C(1000000)
enum { CALLS = 1000, SETTLED = 2000, ASK = 400, ACKED = 25, UNAVAILABLE = 14, CANCELLED = 1 };

static void many_calls(struct lend_core_config *c)
{
	c->calls = 1024;
	c->inflight = 2048;
	c->congestion = 0;
}

/* Opens a session with n parked calls. */
static void park_calls(struct core_pair *d, bool lossless, uint32_t n)
{
	pair_start(d, lossless, many_calls);
	d->on_end = pair_give_at_end;
	d->quiet = true;
	for (uint32_t i = 0; i < n; i++) {
		pair_call(d, 0, 0, LEND_NEVER);
		pair_settle(d);
	}
	pair_pass(d, SETTLED * MS);
	cr_assert_eq(d->side[1].count[LEND_EV_REQUEST], n);
}

/* Side 1 closes its session. */
static void hang_up(struct core_pair *d, uint32_t ended)
{
	lend_core_disconnect(d->side[1].core, d->side[1].session);
	pair_settle(d);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], ended);
	pair_pass(d, 100 * MS);
	pair_close(d);
}

/* Loses nothing; core_pair counts datagrams for it. */
static bool lose_nothing(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)from, (void)v, (void)nth;
	return false;
}

static bool lose_answers(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)nth;
	return from == 1 && (v->head.kind == LEND_PKT_REPLY || v->head.kind == LEND_PKT_CALLS);
}

static bool lose_question(struct core_pair *d, int from, const struct lend_pkt_view *v,
			  uint32_t nth)
{
	(void)d, (void)from, (void)nth;
	return v->head.kind == LEND_PKT_PING || lose_answers(d, from, v, nth);
}

static bool lose_map(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	return v->head.kind == LEND_PKT_RUNNING || lose_answers(d, from, v, nth);
}

Test(parked_call, thousand__idle__one_ping_for_all)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		uint32_t before;

		park_calls(&d, lossless, CALLS);
		d.lose = lose_nothing;
		before = d.nth;
		pair_pass(&d, 10000 * MS);
		cr_assert_eq(d.nth - before, 2 * 10000 / ASK, "%u datagrams in 10 s",
			     d.nth - before);
		hang_up(&d, CALLS);
	}
}

/* Replies that the slot keeps, that a record holds, and of several datagrams. */
Test(parked_call, reply__lost__found_by_the_next_ping)
{
	static const uint32_t len[] = {0, 64, 80, 20000};
	bool (*const lose[])(struct core_pair *, int, const struct lend_pkt_view *,
			     uint32_t) = {lose_answers, lose_question, lose_map};

	for (int i = 0; i < 2 * 4 * 3; i++) {
		uint32_t n = len[i / 2 % 4];
		struct core_pair d;

		if (i & 1 && n < 1000 && (n == 80 || fast_mode() != LEND_FAST_ALWAYS))
			continue; /* a record's reply of one datagram is not sent again there */
		park_calls(&d, i & 1, 2);
		d.lose = lose[i / 8];
		pair_reply(&d, 0, n ? pair_buf(&d, 1, n, n, 1) : 0);
		pair_settle(&d);
		pair_pass(&d, 3 * ASK * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
		d.lose = NULL;
		pair_pass(&d, (ASK + 110) * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "run %d", i);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].len, n);
		pair_pass(&d, 100 * MS);
		hang_up(&d, 2);
	}
}

/* A reply that arrives needs no question, and the call that stays is asked for. */
Test(parked_call, reply__arrives__ends_the_call)
{
	struct core_pair d;

	park_calls(&d, false, 2);
	d.quiet = false;
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	pair_pass(&d, ACKED * MS);
	pair_forget(&d);
	pair_pass(&d, (ASK - ACKED) * MS);
	pair_expect(&d, "0> PING\n1> RUNNING\n");
	hang_up(&d, 2);
}

Test(parked_call, peer__silent__ends_within_the_bound)
{
	struct core_pair d;

	park_calls(&d, false, 3);
	d.lose = pair_lose_all;
	pair_pass(&d, d.side[0].cfg.dead + ASK * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, UNAVAILABLE);
	d.lose = NULL;
	pair_pass(&d, d.side[1].cfg.dead);
	cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 3);
	pair_close(&d);
}

Test(parked_call, cancel_and_deadline__end_it)
{
	uint64_t handle;
	struct core_pair d;

	park_calls(&d, false, 0);
	handle = pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	pair_call(&d, 0, 0, SETTLED * MS + 300 * MS);
	pair_settle(&d);
	pair_pass(&d, SETTLED * MS);
	lend_core_cancel(d.side[0].core, handle, CANCELLED);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 1);
	pair_pass(&d, 300 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 2);
	hang_up(&d, 2);
}

/* The server does not answer questions, so each call asks for itself. */
Test(parked_call, server_without_the_feature__call_not_parked)
{
	size_t at = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, features);
	struct core_pair d;

	pair_open_with(&d, true, many_calls);
	d.lose = lose_nothing;
	d.side[0].session = pair_connect(&d);
	pair_carry(&d, 0);
	pair_output(&d, 1);
	d.side[1].wire[0].data[at] &= (uint8_t)~LEND_FEATURE_RUNNING;
	pair_settle(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_pass(&d, SETTLED * MS);
	cr_assert_geq(d.nth, SETTLED / 125 * 2);
	hang_up(&d, 1);
}
