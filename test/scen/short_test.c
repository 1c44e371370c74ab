/* Goal: a call of one datagram that finds its session connecting, without credit, its carrier full
 * or a report due is sent once that is over, in order, and says honestly whether it may have run;
 * what is ended before it went out never goes. Method: two cores moved turn by turn; the trace is
 * the expectation, and what a datagram says of time is looked at as it goes out. */
#include <criterion/criterion.h>

#include "scen/duo.h"
#include "util/bits.h"

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)
enum { URGENT = 0, NORMAL = 3, BULK = 7, CANCELLED = 1, LATE = 4, NO = 0, MAYBE = 2 };

static void turn(struct duo *d, const char *text)
{
	lend_core_tick(d->side[0].core, d->now);
	duo_output(d, 0);
	duo_expect(d, text);
}

static void ended(struct duo *d, uint8_t status, uint8_t ran)
{
	const struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	cr_assert_eq(e->status, status, "status %d", e->status);
	cr_assert_eq(e->ran, ran, "ran %d", e->ran);
	cr_assert_eq(e->maybe_queued, ran != NO, "a carrier may read its request: %d",
		     e->maybe_queued);
}

/* The first of them proves the address, in place of a PING. */
Test(short, those_of_a_session_that_connects_wait_and_go_in_order)
{
	struct duo d;
	uint64_t gone;

	duo_open(&d, false);
	d.on_end = duo_give_at_end;
	d.on_request = duo_answer;
	d.side[0].session = duo_connect(&d);
	duo_request(&d, 70, BULK);
	gone = duo_request(&d, 33, NORMAL);
	duo_request(&d, 30, NORMAL);
	turn(&d, "0> CONNECT\n");
	duo_request(&d, 1, URGENT);
	duo_request(&d, 31, NORMAL);
	lend_core_cancel(d.side[0].core, gone, CANCELLED);
	turn(&d, "0 call_end status 1 ran 0 len 0\n");
	ended(&d, CANCELLED, NO);
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_deliver(&d, 1);
	duo_forget(&d);
	turn(&d, "0> REQUEST 0+1 of 1\n0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n"
		 "0> REQUEST 0+70 of 70\n");
	d.quiet = true;
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 4);
	duo_finish(&d);
}

/* How often the carrier was asked. */
static bool count_full(struct duo *d, int from)
{
	*(uint32_t *)d->arg += from == 0;
	return from == 0;
}

/* What is started then is not even offered before the carrier is asked again. */
Test(short, those_of_a_full_carrier_are_offered_when_it_is_asked_again)
{
	struct duo d;
	uint32_t asked = 0;
	uint64_t first;

	duo_begin(&d, false, NULL);
	d.full = count_full;
	d.arg = &asked;
	first = duo_request(&d, 30, NORMAL);
	turn(&d, "");
	cr_assert_eq(asked, 1);
	duo_request(&d, 31, NORMAL);
	turn(&d, "");
	cr_assert_eq(asked, 1, "it is full, and was asked again");
	lend_core_cancel(d.side[0].core, first, CANCELLED);
	turn(&d, "0 call_end status 1 ran 0 len 0\n");
	ended(&d, CANCELLED, NO);
	d.full = NULL;
	turn(&d, "");
	d.now += 2 * US;
	turn(&d, "0> REQUEST 0+31 of 31\n");
	duo_request(&d, 32, NORMAL);
	turn(&d, "0> REQUEST 0+32 of 32\n");
	duo_settle(&d);
	duo_finish(&d);
}

static void little_credit(struct lend_core_config *c)
{
	c->unscheduled = 4096;
	c->path[0].mtu = 3000;
}

/* Two have all of it. A call that brings nothing needs none; the others wait, and go by class. */
Test(short, those_without_credit_wait_for_a_reply)
{
	struct duo d;

	duo_begin(&d, true, little_credit);
	duo_request(&d, 2000, NORMAL);
	duo_request(&d, 2001, NORMAL);
	duo_request(&d, 2002, NORMAL);
	turn(&d, "0> REQUEST 0+2000 of 2000\n0> REQUEST 0+2001 of 2001\n");
	duo_request(&d, 2003, BULK);
	turn(&d, "");
	duo_request(&d, 2004, URGENT);
	duo_request(&d, 0, NORMAL);
	turn(&d, "0> REQUEST\n");
	duo_request(&d, 2005, NORMAL);
	turn(&d, "");
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_deliver(&d, 1);
	duo_forget(&d);
	turn(&d, "0> REQUEST 0+2004 of 2004\n0> REQUEST 0+2002 of 2002\n");
	d.quiet = true;
	duo_settle(&d);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 7);
	duo_finish(&d);
}

/* Ended while they waited for credit, they take none with them. */
Test(short, those_that_end_without_credit_leave_it_as_it_was)
{
	struct duo d;
	uint64_t waits;

	duo_begin(&d, true, little_credit);
	for (uint32_t round = 0; round < 20; round++) {
		duo_request(&d, 2000, NORMAL);
		duo_request(&d, 2001, NORMAL);
		duo_output(&d, 0);
		waits = duo_request(&d, 2002, round % 2 ? URGENT : NORMAL);
		duo_output(&d, 0);
		cr_assert_eq(d.side[0].n, 2);
		lend_core_cancel(d.side[0].core, waits, CANCELLED);
		duo_output(&d, 0);
		ended(&d, CANCELLED, NO);
		duo_settle(&d);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3 * (round + 1));
	}
	duo_finish(&d);
}

/* A handler whose caller is gone ends as well; and so does all else. */
static void close_with(struct duo *d, uint64_t request)
{
	struct duo_side *s = &d->side[1];

	cr_assert_eq(lend_core_reply(s->core, d->now, request, &s->bufs, 0, 0), 0);
	duo_finish(d);
}

/* A reply came to a call in the second slot, and its report is due; the first slot is free, so that
 * the next call does not say by its slot what the report says. */
static uint64_t owe_report(struct duo *d)
{
	uint64_t call = duo_request(d, 8, NORMAL), left, request;

	d->quiet = true;
	d->on_request = NULL;
	duo_settle(d);
	left = d->side[1].request;
	duo_request(d, 9, NORMAL);
	duo_settle(d);
	request = d->side[1].request;
	lend_core_cancel(d->side[0].core, call, CANCELLED);
	duo_settle(d);
	d->side[1].request = request;
	duo_reply(d, 0, 0);
	duo_settle(d);
	d->on_request = duo_answer;
	d->quiet = false;
	return left;
}

/* It rides on the next request, on one only, and on that again if the carrier did not take it. */
Test(short, the_next_one_bears_the_report_that_is_due)
{
	struct duo d;
	uint32_t asked = 0;
	uint64_t left;

	for (int refused = 0; refused < 2; refused++) {
		duo_begin(&d, false, NULL);
		d.arg = &asked;
		left = owe_report(&d);
		duo_request(&d, 30, NORMAL);
		d.full = refused ? count_full : NULL;
		duo_turn(&d, 0, 32);
		d.full = NULL;
		duo_request(&d, 31, NORMAL);
		d.now += MS / 2;
		duo_settle(&d);
		duo_expect(&d, "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n"
			       "1 reply_end\n1 request 30\n1 request 31\n1> REPLY\n1> REPLY\n"
			       "0 call_end status 0 ran 1 len 0\n"
			       "0 call_end status 0 ran 1 len 0\n");
		duo_pass(&d, 20 * MS - 1);
		duo_expect(&d, "");
		duo_pass(&d, 1);
		duo_expect(&d, "0> ACK\n1 reply_end\n1 reply_end\n");
		close_with(&d, left);
	}
}

/* What was sent and then cancelled gives back what it took. */
Test(short, those_that_end_with_credit_give_it_back)
{
	struct duo d;
	uint64_t call[2];

	duo_begin(&d, true, little_credit);
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 2; i++)
			call[i] = duo_request(&d, 2000 + i, NORMAL);
		duo_output(&d, 0);
		cr_assert_eq(d.side[0].n, 2, "round %d", round);
		for (uint32_t i = 0; i < 2; i++)
			lend_core_cancel(d.side[0].core, call[i], CANCELLED);
		duo_settle(&d);
	}
	duo_finish(&d);
}

static void one_slot(struct lend_core_config *c)
{
	c->calls = 1;
}

Test(short, one_that_is_cancelled_before_its_turn_never_goes)
{
	struct duo d;
	uint64_t call;

	for (int lossless = 0; lossless < 2; lossless++) {
		duo_begin(&d, lossless, one_slot);
		for (uint32_t i = 0; i < 9; i++) {
			call = duo_request(&d, 30, (uint8_t)(i % 8));
			lend_core_cancel(d.side[0].core, call, CANCELLED);
		}
		duo_request(&d, 31, NORMAL);
		lend_core_cancel(d.side[0].core, call, CANCELLED);
		duo_turn(&d, 0, 32);
		duo_expect(&d, "0> REQUEST 0+31 of 31\n");
		duo_output(&d, 0);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 9);
		ended(&d, CANCELLED, NO);
		duo_settle(&d);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 10);
		duo_finish(&d);
	}
}

Test(short, one_that_is_cancelled_after_its_turn_drains)
{
	struct duo d;
	uint64_t call;

	duo_begin(&d, true, one_slot);
	call = duo_request(&d, 30, NORMAL);
	duo_turn(&d, 0, 32);
	lend_core_cancel(d.side[0].core, call, CANCELLED);
	turn(&d, "0> REQUEST 0+30 of 30\n0 call_end status 1 ran 2 len 0\n0> CANCEL\n");
	ended(&d, CANCELLED, MAYBE);
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n1 reply_end\n1> GONE\n");
	duo_finish(&d);
}

Test(short, one_that_is_due_before_its_turn_never_goes)
{
	struct duo d;

	duo_begin(&d, true, NULL);
	duo_ask(&d, 0, 30, NORMAL, 5 * US);
	duo_request(&d, 31, NORMAL);
	d.now += 5 * US;
	turn(&d, "0 call_end status 4 ran 0 len 0\n0> REQUEST 0+31 of 31\n");
	ended(&d, LATE, NO);
	duo_settle(&d);
	duo_finish(&d);
}

Test(short, its_session_may_close_before_its_turn)
{
	struct duo d;

	duo_begin(&d, true, NULL);
	duo_request(&d, 30, NORMAL);
	duo_request(&d, 1, URGENT);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	turn(&d, "0 call_end status 1 ran 0 len 0\n0 call_end status 1 ran 0 len 0\n"
		 "0 down 1\n0> BYE\n");
	ended(&d, CANCELLED, NO);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	duo_finish(&d);
}

struct times {
	uint32_t left_us, delay_ns;
	uint64_t number[2];
};

/* Numbers grow in the order in which datagrams go out. */
static bool look(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
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

/* What a datagram says of time is as of when it went out, not of when it was made up. */
Test(short, it_says_how_much_time_is_left_as_it_goes)
{
	struct duo d;
	struct times times = {0};

	duo_begin(&d, false, NULL);
	d.arg = &times;
	d.lose = look;
	for (uint32_t wait = 0; wait < 400; wait += 100) {
		duo_ask(&d, 0, 30, NORMAL, MS);
		d.now += wait * US;
		duo_output(&d, 0);
		cr_assert_eq(times.left_us, 1000 - wait);
		duo_deliver(&d, 0);
		d.now += wait;
		duo_output(&d, 1);
		cr_assert_eq(times.delay_ns, wait);
		duo_settle(&d);
	}
	duo_finish(&d);
}
