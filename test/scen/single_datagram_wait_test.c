/* Goal: a single-datagram call may have to wait while its session connects, for credit, for a full
 * carrier or for a report that is due. It is then sent in order, and reports correctly whether it
 * may have run; a call that ends before it was sent is never sent. Method: two cores moved turn by
 * turn; the trace is the expectation, and the times in a datagram are checked as it is sent.
 * Covers: src/core/client_call.c, src/core/output.c, src/core/output_result.c,
 * src/core/request_window.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"
#include "util/bits.h"

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)
enum { URGENT = 0, NORMAL = 3, BULK = 7, CANCELLED = 1, LATE = 4, NO = 0, MAYBE = 2 };

static void turn(struct core_pair *d, const char *text)
{
	lend_core_tick(d->side[0].core, d->now);
	pair_output(d, 0);
	pair_expect(d, text);
}

static void ended(struct core_pair *d, uint8_t status, uint8_t ran)
{
	const struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	cr_assert_eq(e->status, status, "status %d", e->status);
	cr_assert_eq(e->ran, ran, "ran %d", e->ran);
	cr_assert_eq(e->maybe_queued, ran != NO, "a carrier may read its request: %d",
		     e->maybe_queued);
}

/* The first of them proves the address, instead of a PING. */
Test(single_datagram_wait, connecting__calls_wait__sent_in_order)
{
	struct core_pair d;
	uint64_t gone;

	pair_open(&d, false);
	d.on_end = pair_give_at_end;
	d.on_request = pair_answer;
	d.side[0].session = pair_connect(&d);
	pair_request(&d, 70, BULK);
	gone = pair_request(&d, 33, NORMAL);
	pair_request(&d, 30, NORMAL);
	turn(&d, "0> CONNECT\n");
	pair_request(&d, 1, URGENT);
	pair_request(&d, 31, NORMAL);
	lend_core_cancel(d.side[0].core, gone, CANCELLED);
	turn(&d, "0 call_end status 1 ran 0 len 0\n");
	ended(&d, CANCELLED, NO);
	pair_deliver(&d, 0);
	pair_carry(&d, 1);
	pair_forget(&d);
	turn(&d, "0> REQUEST 0+1 of 1\n0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n"
		 "0> REQUEST 0+70 of 70\n");
	d.quiet = true;
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 4);
	pair_finish(&d);
}

/* Counts how often the carrier was polled. */
static bool count_full(struct core_pair *d, int from)
{
	*(uint32_t *)d->arg += from == 0;
	return from == 0;
}

/* A call started then is not even offered before the carrier is polled again. */
Test(single_datagram_wait, carrier__full__calls_offered_at_next_poll)
{
	struct core_pair d;
	uint32_t asked = 0;
	uint64_t first;

	pair_begin(&d, false, NULL);
	d.full = count_full;
	d.arg = &asked;
	first = pair_request(&d, 30, NORMAL);
	turn(&d, "");
	cr_assert_eq(asked, 1);
	pair_request(&d, 31, NORMAL);
	turn(&d, "");
	cr_assert_eq(asked, 1, "the full carrier was polled again");
	lend_core_cancel(d.side[0].core, first, CANCELLED);
	turn(&d, "0 call_end status 1 ran 0 len 0\n");
	ended(&d, CANCELLED, NO);
	d.full = NULL;
	turn(&d, "");
	d.now += 2 * US;
	turn(&d, "0> REQUEST 0+31 of 31\n");
	pair_request(&d, 32, NORMAL);
	turn(&d, "0> REQUEST 0+32 of 32\n");
	pair_settle(&d);
	pair_finish(&d);
}

static void little_credit(struct lend_core_config *c)
{
	c->unscheduled = 4096;
	c->path[0].mtu = 3000;
}

/* Two calls use all credit. An empty call needs none; the others wait, and are sent by class. */
Test(single_datagram_wait, credit__none_left__calls_wait_for_a_reply)
{
	struct core_pair d;

	pair_begin(&d, true, little_credit);
	pair_request(&d, 2000, NORMAL);
	pair_request(&d, 2001, NORMAL);
	pair_request(&d, 2002, NORMAL);
	turn(&d, "0> REQUEST 0+2000 of 2000\n0> REQUEST 0+2001 of 2001\n");
	pair_request(&d, 2003, BULK);
	turn(&d, "");
	pair_request(&d, 2004, URGENT);
	pair_request(&d, 0, NORMAL);
	turn(&d, "");
	pair_request(&d, 2005, NORMAL);
	turn(&d, "");
	pair_deliver(&d, 0);
	pair_carry(&d, 1);
	pair_forget(&d);
	turn(&d, "0> REQUEST 0+2004 of 2004\n0> REQUEST 0+2002 of 2002\n0> REQUEST\n");
	d.quiet = true;
	pair_settle(&d);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 7);
	pair_finish(&d);
}

static void note_bulk(struct core_pair *d, const struct lend_event *e)
{
	if (e->len == 2003)
		*(lend_ns *)d->arg = d->now;
	pair_answer(d, e);
}

/* A bulk call waits behind urgent ones that never end, for a second per class of the difference. */
Test(single_datagram_wait, credit__urgent_calls_never_end__bulk_sent_after_seconds)
{
	struct core_pair d;
	lend_ns sent = 0, begun;

	pair_begin(&d, true, little_credit);
	d.quiet = true;
	d.arg = &sent;
	d.on_request = note_bulk;
	for (int i = 0; i < 4; i++)
		pair_request(&d, 2000, NORMAL);
	pair_request(&d, 2003, BULK);
	begun = d.now;
	for (int step = 0; step < 60 && !sent; step++) {
		pair_carry(&d, 0);
		pair_carry(&d, 1);
		d.now += 100 * MS;
		for (int i = 0; i < 2; i++)
			pair_request(&d, 2000, NORMAL);
	}
	cr_expect_geq(sent, begun + 4000 * MS, "sent after %llu",
		      (unsigned long long)(sent - begun));
	cr_expect_leq(sent, begun + 4500 * MS, "sent after %llu",
		      (unsigned long long)(sent - begun));
	pair_settle(&d);
	pair_settle(&d);
	pair_finish(&d);
}

/* Calls that end while they wait for credit release none. */
Test(single_datagram_wait, credit__call_ends_waiting__unchanged)
{
	struct core_pair d;
	uint64_t waits;

	pair_begin(&d, true, little_credit);
	for (uint32_t round = 0; round < 20; round++) {
		pair_request(&d, 2000, NORMAL);
		pair_request(&d, 2001, NORMAL);
		pair_output(&d, 0);
		waits = pair_request(&d, 2002, round % 2 ? URGENT : NORMAL);
		pair_output(&d, 0);
		cr_assert_eq(d.side[0].n, 2);
		lend_core_cancel(d.side[0].core, waits, CANCELLED);
		pair_output(&d, 0);
		ended(&d, CANCELLED, NO);
		pair_settle(&d);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3 * (round + 1));
	}
	pair_finish(&d);
}

/* Ends the rest: a handler without a caller, then both sides. */
static void close_with(struct core_pair *d, uint64_t request)
{
	struct pair_side *s = &d->side[1];

	cr_assert_eq(lend_core_reply(s->core, d->now, request, &s->bufs, 0, 0), 0);
	pair_finish(d);
}

/* A reply to a call in the second slot arrived, and its report is due. The first slot is free, so
 * that the next call does not imply by its slot what the report acknowledges. */
static uint64_t owe_report(struct core_pair *d)
{
	uint64_t call = pair_request(d, 8, NORMAL), left, request;

	d->quiet = true;
	d->on_request = NULL;
	pair_settle(d);
	left = d->side[1].request;
	pair_request(d, 9, NORMAL);
	pair_settle(d);
	request = d->side[1].request;
	lend_core_cancel(d->side[0].core, call, CANCELLED);
	pair_settle(d);
	d->side[1].request = request;
	pair_reply(d, 0, pair_buf(d, 1, 80, 80, 1));
	pair_settle(d);
	d->on_request = pair_answer;
	d->quiet = false;
	return left;
}

/* The report goes with the next request, with one only, and with that again if the carrier did not
 * accept it. */
Test(single_datagram_wait, report__due__goes_with_the_next_request)
{
	struct core_pair d;
	uint32_t asked = 0;
	uint64_t left;

	for (int refused = 0; refused < 2; refused++) {
		pair_begin(&d, false, NULL);
		d.arg = &asked;
		d.answer = 80;
		left = owe_report(&d);
		pair_request(&d, 30, NORMAL);
		d.full = refused ? count_full : NULL;
		pair_turn(&d, 0, 32);
		d.full = NULL;
		pair_request(&d, 31, NORMAL);
		d.now += 20 * US;
		pair_settle(&d);
		pair_expect(&d, "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n"
				"1 reply_end\n1 request 30\n1 request 31\n1> REPLY 0+80 of 80\n"
				"1> REPLY 0+80 of 80\n0 call_end status 0 ran 1 len 80\n"
				"0 call_end status 0 ran 1 len 80\n");
		pair_pass(&d, 20 * MS - 1);
		pair_expect(&d, "");
		pair_pass(&d, 1);
		pair_expect(&d, "0> ACK\n1 reply_end\n1 reply_end\n");
		close_with(&d, left);
	}
}

/* A call that was sent and then cancelled returns its credit. */
Test(single_datagram_wait, credit__sent_then_cancelled__is_returned)
{
	struct core_pair d;
	uint64_t call[2];

	pair_begin(&d, true, little_credit);
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 2; i++)
			call[i] = pair_request(&d, 2000 + i, NORMAL);
		pair_output(&d, 0);
		cr_assert_eq(d.side[0].n, 2, "round %d", round);
		for (uint32_t i = 0; i < 2; i++)
			lend_core_cancel(d.side[0].core, call[i], CANCELLED);
		pair_settle(&d);
	}
	pair_finish(&d);
}

static void one_slot(struct lend_core_config *c)
{
	c->calls = 1;
}

Test(single_datagram_wait, cancel__before_sending__never_sent)
{
	struct core_pair d;
	uint64_t call;

	for (int lossless = 0; lossless < 2; lossless++) {
		pair_begin(&d, lossless, one_slot);
		for (uint32_t i = 0; i < 9; i++) {
			call = pair_request(&d, 30, (uint8_t)(i % 8));
			lend_core_cancel(d.side[0].core, call, CANCELLED);
		}
		pair_request(&d, 31, NORMAL);
		lend_core_cancel(d.side[0].core, call, CANCELLED);
		pair_turn(&d, 0, 32);
		pair_expect(&d, "0> REQUEST 0+31 of 31\n");
		pair_output(&d, 0);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 9);
		ended(&d, CANCELLED, NO);
		pair_settle(&d);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 10);
		pair_finish(&d);
	}
}

Test(single_datagram_wait, cancel__after_sending__drains)
{
	struct core_pair d;
	uint64_t call;

	pair_begin(&d, true, one_slot);
	d.answer = 80;
	call = pair_request(&d, 30, NORMAL);
	pair_turn(&d, 0, 32);
	lend_core_cancel(d.side[0].core, call, CANCELLED);
	turn(&d, "0> REQUEST 0+30 of 30\n0 call_end status 1 ran 2 len 0\n0> CANCEL\n");
	ended(&d, CANCELLED, MAYBE);
	pair_deliver(&d, 0);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1 reply_end\n1> GONE\n");
	pair_finish(&d);
}

Test(single_datagram_wait, deadline__before_sending__never_sent)
{
	struct core_pair d;

	pair_begin(&d, true, NULL);
	pair_ask(&d, 0, 30, NORMAL, 5 * US);
	pair_request(&d, 31, NORMAL);
	d.now += 5 * US;
	turn(&d, "0 call_end status 4 ran 0 len 0\n0> REQUEST 0+31 of 31\n");
	ended(&d, LATE, NO);
	pair_settle(&d);
	pair_finish(&d);
}

Test(single_datagram_wait, close__before_sending__never_sent)
{
	struct core_pair d;

	pair_begin(&d, true, NULL);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 1, URGENT);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	turn(&d, "0 call_end status 1 ran 0 len 0\n0 call_end status 1 ran 0 len 0\n"
		 "0 down 1\n0> BYE\n");
	ended(&d, CANCELLED, NO);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	pair_finish(&d);
}

struct times {
	uint32_t left_us, delay_ns;
	uint64_t number[2];
};

/* Numbers grow in the order in which datagrams are sent. */
static bool look(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	struct times *t = d->arg;

	(void)nth;
	cr_assert_gt(v->head.number, t->number[from]);
	t->number[from] = v->head.number;
	if (v->head.kind == LEND_PKT_REQUEST)
		t->left_us = v->request.left_us;
	if (v->head.kind == LEND_PKT_REPLY)
		t->delay_ns = v->reply.delay_ns;
	return false;
}

/* The time left in a datagram is as of its sending, not as of its creation. */
Test(single_datagram_wait, deadline__time_left__as_of_sending)
{
	struct core_pair d;
	struct times times = {0};

	pair_begin(&d, false, NULL);
	d.arg = &times;
	d.lose = look;
	for (uint32_t wait = 0; wait < 400; wait += 100) {
		pair_ask(&d, 0, 30, NORMAL, MS);
		d.now += wait * US;
		pair_output(&d, 0);
		cr_assert_eq(times.left_us, 1000 - wait);
		pair_deliver(&d, 0);
		d.now += wait;
		pair_output(&d, 1);
		cr_assert_eq(times.delay_ns, wait);
		pair_settle(&d);
	}
	pair_finish(&d);
}
