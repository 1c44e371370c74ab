/* Goal: short messages of one session and class that are ready together share a datagram, none
 * waits for others, and each is handled as if it had a datagram of its own: order, refusal by the
 * carrier, cancel, deadline, end of the session. Method: two cores and the text of what is sent;
 * datagrams are counted. Covers: src/core/coalesce.c, src/core/coalesce.h,
 * src/core/output_result.c, src/core/input.c, src/core/short_call.c, src/core/short_call.h,
 * src/core/short_burst.c, src/core/call_slot.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { URGENT = 1, NORMAL = 3, BULK = 5, ENOUGH = 8 };

static void set_always(struct lend_core_config *c)
{
	c->fast = LEND_FAST_ALWAYS;
}

static void set_fifo(struct lend_core_config *c)
{
	c->fast = LEND_FAST_ALWAYS;
	c->order = LEND_ORDER_FIFO;
}

/* Checks how many datagrams side 0 sends now, and their text. */
static void expect_sent(struct core_pair *d, uint32_t datagrams, const char *text)
{
	cr_assert_eq(pair_turn(d, 0, ENOUGH), datagrams);
	pair_expect(d, text);
}

Test(coalesce, calls__of_one_class__one_datagram_each_way)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		pair_begin(&d, lossless, set_always);
		for (uint32_t i = 0; i < 5; i++)
			pair_request(&d, i, NORMAL);
		expect_sent(&d, 1,
			    "0> REQUEST\n0> REQUEST 0+1 of 1\n0> REQUEST 0+2 of 2\n"
			    "0> REQUEST 0+3 of 3\n0> REQUEST 0+4 of 4\n");
		d.quiet = true;
		pair_deliver(&d, 0);
		cr_assert_eq(pair_turn(&d, 1, ENOUGH), 1);
		d.quiet = false;
		pair_deliver(&d, 1);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 5);
		pair_finish(&d);
	}
}

Test(coalesce, classes__most_urgent_first)
{
	struct core_pair d;

	pair_begin(&d, true, set_always);
	pair_request(&d, 50, BULK);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 51, BULK);
	pair_request(&d, 10, URGENT);
	expect_sent(&d, 4,
		    "0> REQUEST 0+10 of 10\n0> REQUEST 0+30 of 30\n"
		    "0> REQUEST 0+50 of 50\n0> REQUEST 0+51 of 51\n");
	pair_finish(&d);
	pair_begin(&d, true, set_fifo);
	pair_request(&d, 50, BULK);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 31, NORMAL);
	expect_sent(&d, 2, "0> REQUEST 0+50 of 50\n0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n");
	pair_finish(&d);
}

enum { MANY = 100 };

static void set_long(struct lend_core_config *c)
{
	c->fast = LEND_FAST_ALWAYS;
	c->calls = c->inflight = MANY;
	c->path[0].mtu = 8988;
}

/* For pair.on_request: answers the requests together, when as many as *arg have come. */
static void answer_all(struct core_pair *d, const struct lend_event *e)
{
	static uint64_t request[MANY];
	static uint32_t n;

	request[n++] = e->call;
	if (n < *(uint32_t *)d->arg)
		return;
	for (uint32_t i = 0; i < n; i++) {
		d->side[1].request = request[i];
		pair_reply(d, 0, pair_buf(d, 1, 8, 8, 0));
	}
	n = 0;
}

/* Makes this many calls, which are answered together. Checks the datagrams there and back. */
static void call_many(struct core_pair *d, uint32_t len, uint32_t calls, uint32_t there,
		      uint32_t back)
{
	uint32_t ended = d->side[0].count[LEND_EV_CALL_END];

	d->arg = &calls;
	d->on_request = answer_all;
	for (uint32_t n = 0; n < calls; n++)
		pair_request(d, len, NORMAL);
	cr_assert_eq(pair_turn(d, 0, ENOUGH), there, "%u of %u bytes", calls, len);
	pair_deliver(d, 0);
	cr_assert_eq(pair_turn(d, 1, ENOUGH), back, "%u of %u bytes", calls, len);
	pair_deliver(d, 1);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END] - ended, calls);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(lend_core_stats(d->side[i].core)->rx_length, 0);
}

/* A datagram ends where its carrier's or the core's limit is, or after 64 frames. */
Test(coalesce, long_datagrams__as_many_messages_as_fit)
{
	static const struct {
		uint32_t len, calls, there, back;
	} row[] = {{1300, 6, 1, 1}, {1300, 7, 2, 1}, {1328, 6, 1, 1},
		   {10, 64, 1, 1},  {10, 65, 2, 2},  {10, MANY, 2, 2}};
	struct core_pair d;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		pair_begin(&d, true, set_long);
		d.quiet = true;
		call_many(&d, row[i].len, row[i].calls, row[i].there, row[i].back);
		pair_finish(&d);
	}
}

/* The first 64 of 65 frames are handled, and the last one counted. */
Test(coalesce, frames__too_many__the_rest_is_dropped)
{
	const uint32_t len = lend_pkt_frame_len(10);
	uint32_t calls = 64, slot = 70, call = lend_pkt_call(slot, 2);
	struct core_pair d;
	struct pair_dgram *g;

	pair_begin(&d, true, set_long);
	d.quiet = true;
	call_many(&d, 10, MANY, 2, 2); /* sets up the slots */
	d.arg = &calls;
	for (uint32_t n = 0; n < calls; n++)
		pair_request(&d, 10, NORMAL);
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	g = &d.side[0].wire[0];
	memcpy(g->data + g->len, g->data + g->len - len, len);
	memcpy(g->data + g->len, &call, sizeof(call));
	g->len += len;
	((struct lend_pkt *)(void *)g->data)->length += len;
	pair_deliver(&d, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], MANY + calls);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_length, 1);
	pair_finish(&d);
}

/* For pair.on_request: answers the requests together, when the sixth has come. */
static void answer_six(struct core_pair *d, const struct lend_event *e)
{
	static uint64_t request[6];
	uint32_t n = (d->side[1].count[LEND_EV_REQUEST] - 1) % 6;

	request[n] = e->call;
	for (uint32_t i = 0; n == 5 && i < 6; i++) {
		d->side[1].request = request[i];
		pair_reply(d, 0, pair_buf(d, 1, 8, 8, 0));
	}
}

/* A burst of calls and a burst of replies end where the class changes. */
Test(coalesce, burst__of_another_class__another_datagram)
{
	struct core_pair d;

	pair_begin(&d, true, set_always);
	d.on_request = answer_six;
	for (uint32_t i = 0; i < 3; i++)
		pair_request(&d, i, URGENT);
	for (uint32_t i = 3; i < 6; i++)
		pair_request(&d, i, NORMAL);
	expect_sent(&d, 2,
		    "0> REQUEST\n0> REQUEST 0+1 of 1\n0> REQUEST 0+2 of 2\n"
		    "0> REQUEST 0+3 of 3\n0> REQUEST 0+4 of 4\n0> REQUEST 0+5 of 5\n");
	d.quiet = true;
	pair_deliver(&d, 0);
	cr_assert_eq(pair_turn(&d, 1, ENOUGH), 2, "a class each");
	pair_deliver(&d, 1);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 6);
	pair_finish(&d);
}

/* What one output leaves behind is sent first with the next. */
Test(coalesce, left_behind__overtaken_by_none)
{
	struct core_pair d;

	pair_begin(&d, true, set_always);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 50, BULK);
	cr_assert_eq(pair_turn(&d, 0, 1), 1);
	pair_expect(&d, "0> REQUEST 0+30 of 30\n");
	pair_request(&d, 51, BULK); /* in a datagram of its own: that of the first is closed */
	pair_request(&d, 10, URGENT);
	expect_sent(&d, 3, "0> REQUEST 0+50 of 50\n0> REQUEST 0+10 of 10\n0> REQUEST 0+51 of 51\n");
	pair_finish(&d);
}

Test(coalesce, room__used_up__another_datagram)
{
	struct core_pair d;

	pair_begin(&d, true, set_always);
	for (int i = 0; i < 3; i++)
		pair_request(&d, 500, NORMAL);
	pair_request(&d, 1329, NORMAL); /* longer than a frame: from its record */
	d.quiet = true;
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 3);
	d.quiet = false;
	pair_finish(&d);
}

/* Requests that fit a frame, with replies that do not: two datagrams, into memory of the core's.
 * The second round uses the records of the first. */
Test(coalesce, short_request__long_reply__whole)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		pair_begin(&d, lossless, set_always);
		d.quiet = true;
		d.answer = 2000;
		for (uint32_t i = 0; i < 8; i++) {
			pair_request(&d, i, NORMAL);
			if (i % 4 == 3)
				pair_settle(&d);
			cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
		}
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 8);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].len, 2000);
		pair_finish(&d);
	}
}

static bool refuse_all(struct core_pair *d, int from)
{
	(void)d;
	return from == 0;
}

static bool lose_first(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v;
	return from == 0 && nth < 2;
}

/* Each request of a refused datagram counts as not sent, and is sent later. */
Test(coalesce, carrier__full__all_are_sent_later)
{
	struct core_pair d;
	uint64_t second;

	pair_begin(&d, true, set_always);
	pair_request(&d, 1, NORMAL);
	second = pair_request(&d, 2, NORMAL);
	pair_request(&d, 3, NORMAL);
	d.full = refuse_all;
	expect_sent(&d, 1, "");
	d.full = NULL;
	lend_core_cancel(d.side[0].core, second, 1);
	pair_output(&d, 0);
	pair_expect(&d, "0 call_end status 1 ran 0 len 0\n");
	d.now += 5 * MS;
	lend_core_tick(d.side[0].core, d.now);
	expect_sent(&d, 2, "0> REQUEST 0+1 of 1\n0> REQUEST 0+3 of 3\n");
	pair_finish(&d);
}

/* Requests that waited for the window share a datagram, like those that did not. */
Test(coalesce, waited__one_datagram)
{
	struct core_pair d;

	pair_begin(&d, false, set_long);
	d.quiet = true;
	for (uint32_t i = 0; i < 40; i++)
		pair_request(&d, i, NORMAL);
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	pair_deliver(&d, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 32); /* LEND_WINDOW_FIRST */
	pair_carry(&d, 1);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 32);
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	pair_deliver(&d, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 40);
	pair_finish(&d);
}

/* Datagrams leave in the order of their numbers, also if the next request needs one of its own. */
Test(coalesce, waited__datagram_of_its_own_follows)
{
	struct core_pair d;

	pair_begin(&d, false, set_long);
	d.quiet = true;
	for (uint32_t i = 0; i < 32; i++)
		pair_request(&d, i, NORMAL);
	pair_request(&d, 40, NORMAL);
	pair_request(&d, 4000, NORMAL);
	for (int i = 0; i < 2; i++)
		pair_carry(&d, i);
	d.quiet = false;
	expect_sent(&d, 2, "0> REQUEST 0+40 of 40\n0> REQUEST 0+4000 of 4000\n");
	pair_finish(&d);
}

/* An urgent one overtakes it. */
Test(coalesce, less_urgent_open__datagram_of_its_own_overtakes)
{
	struct core_pair d;

	pair_begin(&d, false, set_long);
	pair_request(&d, 50, BULK);
	pair_request(&d, 4000, URGENT);
	expect_sent(&d, 2, "0> REQUEST 0+4000 of 4000\n0> REQUEST 0+50 of 50\n");
	pair_finish(&d);
}

static void set_many(struct lend_core_config *c)
{
	c->fast = LEND_FAST_ALWAYS;
	c->calls = c->inflight = MANY;
}

/* Urgent requests that fill a datagram each are always ready. The bulk requests get their share,
 * as if each had a datagram of its own, and a turn of eight datagrams at a time. */
Test(coalesce, shares__counted_by_length)
{
	uint32_t urgent = 0, bulk = 0, here;
	struct core_pair d;

	pair_begin(&d, true, set_many);
	d.quiet = true;
	for (uint32_t i = 0; i < 30; i++)
		pair_request(&d, i ? 1310 : 60000, BULK);
	for (uint32_t i = 0; i < 40; i++)
		pair_request(&d, 1320, URGENT);
	for (; bulk == 0 && urgent < 1000; d.now += 1000) {
		uint32_t ended = d.side[0].count[LEND_EV_CALL_END];

		here = 0;
		pair_turn(&d, 0, 16);
		for (uint32_t i = 0; i < d.side[0].n; i++) {
			struct lend_pkt head;

			memcpy(&head, d.side[0].wire[i].data, sizeof(head));
			here += (head.flags & LEND_PKT_CLASS) == BULK;
			urgent += (head.flags & LEND_PKT_CLASS) == URGENT;
		}
		bulk += here;
		pair_deliver(&d, 0);
		pair_carry(&d, 1);
		for (; ended < d.side[0].count[LEND_EV_CALL_END]; ended++)
			pair_request(&d, 1320, URGENT);
	}
	cr_assert_leq(urgent, 512, "%u urgent ones first", urgent);
	cr_assert_leq(bulk, 8, "%u datagrams at once", bulk);
	pair_finish(&d);
}

/* A request that was sent, and lost, may have run, also if the carrier refuses it the next time. */
Test(coalesce, carrier__full_for_a_repeat__may_have_run)
{
	struct core_pair d;
	uint64_t call;

	pair_begin(&d, false, set_always);
	d.nth = 0;
	d.lose = lose_first;
	call = pair_request(&d, 1, NORMAL);
	expect_sent(&d, 1, "0> REQUEST lost\n");
	d.now += 200 * MS;
	lend_core_tick(d.side[0].core, d.now);
	d.full = refuse_all;
	expect_sent(&d, 1, "");
	lend_core_cancel(d.side[0].core, call, 1);
	d.full = NULL;
	pair_output(&d, 0);
	pair_expect(&d, "0 call_end status 1 ran 2 len 0\n");
	pair_finish(&d);
}

/* A call that ends before the output is not in the datagram; the others are. */
Test(coalesce, cancel__before_it_is_sent__never_sent)
{
	struct core_pair d;
	uint64_t handle[3];

	pair_begin(&d, true, set_always);
	for (uint32_t i = 0; i < 3; i++)
		handle[i] = pair_request(&d, 10 + i, NORMAL);
	lend_core_cancel(d.side[0].core, handle[1], 1);
	expect_sent(&d, 1, "0> REQUEST 0+10 of 10\n0> REQUEST 0+12 of 12\n");
	pair_output(&d, 0);
	pair_expect(&d, "0 call_end status 1 ran 0 len 0\n");
	lend_core_cancel(d.side[0].core, handle[0], 1);
	pair_output(&d, 0);
	pair_expect(&d, "0 call_end status 1 ran 2 len 0\n0> CANCEL\n");
	handle[0] = pair_request(&d, 20, NORMAL);
	lend_core_cancel(d.side[0].core, handle[0], 1);
	expect_sent(&d, 0, "");
	pair_finish(&d);
}

/* The handle of a short call names its slot, also after the call got a record. */
Test(coalesce, handle__slot_used_again__stale)
{
	struct core_pair d;
	uint64_t first, second;

	pair_begin(&d, false, set_always);
	d.quiet = true;
	pair_request(&d, 0, NORMAL); /* takes a record: the slot was never used */
	pair_settle(&d);
	first = pair_request(&d, 1, NORMAL);
	pair_settle(&d);
	second = pair_request(&d, 2, NORMAL);
	cr_assert_eq((uint32_t)first, (uint32_t)second);
	cr_assert_neq(first, second);
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	for (int i = 0; i < 2; i++) {
		lend_core_cancel(d.side[0].core, first, 1);
		pair_output(&d, 0);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
		d.now += 200 * MS; /* a timeout promotes the second one */
		lend_core_tick(d.side[0].core, d.now);
	}
	lend_core_cancel(d.side[0].core, second, 1);
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].call, second);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 1);
	pair_finish(&d);
}

/* Loses two calls' datagram: both are retransmitted, and each ends once. */
Test(coalesce, lost__each_is_retransmitted)
{
	struct core_pair d;

	pair_begin(&d, false, set_always);
	d.nth = 0;
	d.lose = lose_first;
	pair_request(&d, 1, NORMAL);
	pair_request(&d, 2, NORMAL);
	expect_sent(&d, 1, "0> REQUEST lost\n0> REQUEST lost\n");
	d.quiet = true;
	pair_pass(&d, 100 * MS);
	d.quiet = false;
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
	pair_finish(&d);
}

/* The time left in each request is that of the output, not that of the call. */
Test(coalesce, deadline__as_of_sending)
{
	struct lend_pkt_view v, f;
	const struct pair_dgram *g;
	struct core_pair d;
	uint32_t at = 0;

	pair_begin(&d, true, set_always);
	pair_ask(&d, 0, 1, NORMAL, 10 * MS);
	d.now += 2 * MS;
	pair_ask(&d, 0, 2, NORMAL, 10 * MS);
	pair_ask(&d, 0, 3, NORMAL, LEND_NEVER);
	d.now += 3 * MS;
	d.quiet = true;
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	g = &d.side[0].wire[d.side[0].n - 1];
	cr_assert_eq(lend_pkt_decode(&v, g->data, g->len), LEND_PKT_OK);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t left_us[] = {5000, 7000, UINT32_MAX};

		cr_assert(lend_pkt_decode_frame(&f, v.payload, v.payload_len, &at));
		cr_assert_eq(f.request.left_us, left_us[i], "frame %u: %u", i, f.request.left_us);
	}
	d.quiet = false;
	pair_finish(&d);
}

/* The core's time is that of its last input: a deadline after it may still have passed. */
Test(coalesce, deadline__passed_since_the_last_input__no_time_left)
{
	struct lend_core_call call = {.class = NORMAL};
	const struct pair_dgram *g;
	struct lend_pkt_view v, f;
	struct core_pair d;
	uint64_t handle;
	uint32_t at = 0;

	pair_begin(&d, true, set_always);
	d.quiet = true;
	pair_request(&d, 1, NORMAL);
	pair_settle(&d);
	d.now += 2 * MS;
	call.deadline = d.now - MS;
	cr_assert_eq(pair_try(&d, 0, &call, &handle), 0);
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	g = &d.side[0].wire[d.side[0].n - 1];
	cr_assert_eq(lend_pkt_decode(&v, g->data, g->len), LEND_PKT_OK);
	cr_assert(lend_pkt_decode_frame(&f, v.payload, v.payload_len, &at));
	cr_assert_eq(f.request.left_us, 0);
	d.quiet = false;
	pair_finish(&d);
}

/* A session that ends takes its messages with it. */
Test(coalesce, close__before_it_is_sent__nothing_but_bye)
{
	struct core_pair d;

	pair_begin(&d, true, set_always);
	pair_request(&d, 1, NORMAL);
	pair_request(&d, 2, NORMAL);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_output(&d, 0);
	pair_expect(&d, "0 call_end status 1 ran 0 len 0\n0 call_end status 1 ran 0 len 0\n"
			"0 down 1\n0> BYE\n");
	d.quiet = true;
	pair_settle(&d);
	pair_close(&d);
}

/* Handles frames up to the first faulty one, and counts it. */
Test(coalesce, frame__faulty__the_rest_is_dropped)
{
	struct core_pair d;
	struct pair_dgram g;
	struct lend_pkt_frame f;

	pair_begin(&d, true, set_always);
	for (uint32_t i = 0; i < 3; i++)
		pair_request(&d, 8, NORMAL);
	d.quiet = true;
	cr_assert_eq(pair_turn(&d, 0, ENOUGH), 1);
	g = d.side[0].wire[--d.side[0].n];
	memcpy(&f, g.data + sizeof(struct lend_pkt) + lend_pkt_frame_len(8), sizeof(f));
	f.zero = 1;
	memcpy(g.data + sizeof(struct lend_pkt) + lend_pkt_frame_len(8), &f, sizeof(f));
	pair_inject(&d, 1, g.data, g.len);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_length, 1);
	d.on_end = pair_give_at_end;
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	pair_close(&d);
}
