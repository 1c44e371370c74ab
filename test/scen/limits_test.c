/* Goal: two ends with different configurations lose no call: of each limit the smaller one applies.
 * Method: a table of pairs of configurations, all slots used at once in both directions of
 * inequality, before and after the session is up. Covers: src/core/handshake.c,
 * src/core/client_call.c */
#include <criterion/criterion.h>

#include "core/arena.h"
#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { AGAIN = -11, MSGSIZE = -90, EXHAUSTED = 8 };

/* Of side 0 and side 1. */
static struct pair {
	uint32_t calls[2], mtu[2], unscheduled[2], reassemblies[2];
	uint64_t message_max[2], budget[2], probe[2], dead[2];
	uint8_t congestion[2], order[2];
} pair;
static int opening;

static void set_limits(struct lend_core_config *c)
{
	int i = opening++ % 2;

	c->inflight = 64;
	c->calls = pair.calls[i] ? pair.calls[i] : 8;
	c->path[0].mtu = pair.mtu[i] ? pair.mtu[i] : 1456;
	c->unscheduled = pair.unscheduled[i] ? pair.unscheduled[i] : 65536;
	c->reassemblies = pair.reassemblies[i] ? pair.reassemblies[i] : 4;
	c->message_max = pair.message_max[i] ? pair.message_max[i] : 4 << 20;
	c->receive_budget = pair.budget[i] ? pair.budget[i] : 8 << 20;
	c->congestion = pair.congestion[i];
	c->order = pair.order[i];
	c->probe = pair.probe[i] ? pair.probe[i] : c->probe;
	c->dead = pair.dead[i] ? pair.dead[i] : c->dead;
}

static const struct pair pairs[] = {
    {.calls = {16, 8}},
    {.calls = {8, 16}},
    {.calls = {64, 1}},
    {.calls = {65, 64}},
    {.calls = {1024, 3}},
    {.mtu = {1456, 240}},
    {.mtu = {240, 1456}},
    {.unscheduled = {65536, 4096}},
    {.unscheduled = {4096, 65536}, .reassemblies = {1, 4}},
    {.reassemblies = {4, 1}, .calls = {16, 2}},
    {.budget = {8 << 20, 4096}},
    {.congestion = {0, 4}, .calls = {32, 4}},
    {.congestion = {4, 0}},
    {.order = {1, 2}, .calls = {9, 3}},
    {.order = {2, 0}},
    {.probe = {10 * MS, 5000 * MS}, .dead = {50 * MS, 60000 * MS}},
    {.probe = {5000 * MS, 10 * MS}, .dead = {60000 * MS, 50 * MS}},
};

/* Starts as many calls as there is room for, of lengths from a table; returns their number. */
static uint32_t start_calls(struct core_pair *d, int side, uint32_t most)
{
	static const uint32_t len[] = {0, 8, 100, 3000, 20000};
	uint32_t n = 0;

	for (; n < most; n++) {
		struct lend_core_call call = {
		    .method = 9, .class = (uint8_t)(n % 8), .deadline = d->now + 20000 * MS};
		uint64_t handle;
		int rc;

		if (len[n % 5])
			call.request = pair_buf(d, side, len[n % 5], len[n % 5], 1);
		rc = pair_try(d, side, &call, &handle);
		if (rc < 0) {
			cr_assert_eq(rc, AGAIN);
			pair_free(d, side, call.request);
			break;
		}
	}
	return n;
}

static void all_ended(struct core_pair *d, uint32_t n, size_t row, const char *when)
{
	pair_pass(d, 15000 * MS);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], n, "row %zu, %s: %u of %u ended", row,
		     when, d->side[0].count[LEND_EV_CALL_END], n);
	d->side[0].count[LEND_EV_CALL_END] = 0;
}

static void every_call_is_ok(struct core_pair *d, const struct lend_event *e)
{
	cr_assert_eq(e->status, 0, "status %u", e->status);
	pair_give_at_end(d, e);
}

Test(limits, the_smaller_one_holds_and_no_call_is_lost)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct core_pair d;
		uint32_t n;

		pair = pairs[i];
		opening = 0;
		pair_open_with(&d, false, set_limits);
		d.quiet = true;
		d.on_end = every_call_is_ok;
		d.on_request = pair_answer;
		d.side[0].session = pair_connect(&d);
		n = start_calls(&d, 0, 40); /* before it knows the other end's limits */
		cr_assert_geq(n, lend_min_u32(pair.calls[0] ? pair.calls[0] : 8, 40) * 7 / 8);
		all_ended(&d, n, i, "before the session is up");
		n = start_calls(&d, 0, 40);
		cr_assert_leq(n, lend_min_u32(d.side[0].cfg.calls, d.side[1].cfg.calls));
		all_ended(&d, n, i, "while the session is up");
		cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0, "row %zu", i);
		pair_close(&d);
	}
}

/* Calls that wait for a slot end like others: by deadline, by cancel, or with the session. */
Test(limits, a_call_that_waits_for_a_slot_ends_like_any_other)
{
	struct core_pair d;
	uint64_t handle[4];

	pair = (struct pair){.calls = {4, 1}};
	opening = 0;
	pair_open_with(&d, false, set_limits);
	d.quiet = true;
	d.on_end = pair_give_at_end;
	d.side[0].session = pair_connect(&d);
	for (int i = 0; i < 4; i++)
		handle[i] = pair_call(&d, 0, 0, i == 1 ? 10 * MS : LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	pair_pass(&d, 11 * MS);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 4);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	lend_core_cancel(d.side[0].core, handle[2], 1);
	pair_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 1);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2, "the last one took the slot");
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 4);
	cr_assert_eq(lend_core_calls_top(d.side[0].core), 4);
	pair_reply(&d, 0, 0);
	pair_pass(&d, 6000 * MS);
	pair_close(&d);
}

/* A request beyond the peer's limit is refused locally, once that limit is known. */
Test(limits, a_message_is_no_longer_than_both_allow)
{
	struct lend_core_call call = {.method = 9, .deadline = LEND_NEVER};
	uint64_t handle;
	struct core_pair d;

	pair = (struct pair){.message_max = {4 << 20, 1000}};
	opening = 0;
	pair_open_with(&d, false, set_limits);
	d.quiet = true;
	d.on_end = pair_give_at_end;
	d.on_request = pair_answer;
	d.side[0].session = pair_connect(&d);
	call.request = pair_buf(&d, 0, 1001, 1001, 1);
	cr_assert_eq(pair_try(&d, 0, &call, &handle), 0, "not known yet");
	pair_pass(&d, 100 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, EXHAUSTED);
	call.request = pair_buf(&d, 0, 1001, 1001, 1);
	cr_assert_eq(pair_try(&d, 0, &call, &handle), MSGSIZE);
	pair_free(&d, 0, call.request);
	call.request = pair_buf(&d, 0, 1000, 1000, 1);
	cr_assert_eq(pair_try(&d, 0, &call, &handle), 0);
	pair_pass(&d, 100 * MS);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
	pair_close(&d);
}
