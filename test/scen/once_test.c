/* Goal: a request that is answered in the turn in which it came runs once and its reply comes once,
 * whatever copies and repeats of it come, and whenever; its reply stays until its caller says that
 * it is known, and goes back once. Method: two cores; copies of datagrams are kept and handed in at
 * each moment of a call's life. */
#include <criterion/criterion.h>

#include "scen/duo.h"

#define MS UINT64_C(1000000)
enum { NORMAL = 3, PATIENCE = 20 * MS, REQUEST = 30, REPLY = 7 };

static void begin(struct duo *d, bool lossless)
{
	duo_begin(d, lossless, NULL);
	d->answer = REPLY;
}

static void ask(struct duo *d)
{
	duo_ask(d, 0, REQUEST, NORMAL, LEND_NEVER);
}

/* What side 1 makes of a datagram, its turn included. */
static void hand_in(struct duo *d, const struct duo_dgram *g, const char *text)
{
	duo_inject(d, 1, g->data, g->len);
	duo_output(d, 1);
	duo_expect(d, text);
}

/* A request is on its way; a copy of it. */
static struct duo_dgram ask_and_copy(struct duo *d)
{
	ask(d);
	duo_output(d, 0);
	duo_expect(d, "0> REQUEST 0+30 of 30\n");
	return d->side[0].wire[d->side[0].n - 1];
}

Test(once, answered_in_the_turn_it_came)
{
	struct duo d;

	for (int lossless = 0; lossless < 2; lossless++) {
		begin(&d, lossless);
		ask_and_copy(&d);
		duo_deliver(&d, 0);
		duo_turn(&d, 1, 32);
		duo_expect(&d, "1 request 30\n1> REPLY 0+7 of 7\n");
		duo_deliver(&d, 1);
		duo_expect(&d, "0 call_end status 0 ran 1 len 7\n");
		duo_pass(&d, PATIENCE - 1);
		duo_expect(&d, "");
		duo_pass(&d, 1);
		duo_expect(&d, "0> ACK\n1 reply_end\n");
		duo_finish(&d);
	}
}

/* A copy has the number of what it is a copy of: it is dropped wherever the call is. */
Test(once, a_copy_runs_nothing_whenever_it_comes)
{
	struct duo d;
	struct duo_dgram copy;

	for (int lossless = 0; lossless < 2; lossless++) {
		begin(&d, lossless);
		copy = ask_and_copy(&d);
		duo_deliver(&d, 0);
		duo_inject(&d, 1, copy.data, copy.len);
		duo_output(&d, 1);
		duo_expect(&d, "1 request 30\n1> REPLY 0+7 of 7\n");
		hand_in(&d, &copy, "");
		duo_deliver(&d, 1);
		duo_expect(&d, "0 call_end status 0 ran 1 len 7\n");
		hand_in(&d, &copy, "");
		duo_pass(&d, PATIENCE);
		duo_expect(&d, "0> ACK\n1 reply_end\n");
		hand_in(&d, &copy, "");
		ask_and_copy(&d); /* its slot is another call's now */
		hand_in(&d, &copy, "");
		duo_deliver(&d, 0);
		duo_expect(&d, "1 request 30\n");
		hand_in(&d, &copy, "1> REPLY 0+7 of 7\n");
		cr_assert_eq(lend_core_stats(d.side[1].core)->rx_dup, 6);
		duo_finish(&d);
	}
}

/* Both of one burst, before their receiver looks at what came. */
Test(once, a_copy_in_the_same_burst_runs_nothing)
{
	struct duo d;
	struct duo_dgram *g;
	struct lend_in in[2];

	begin(&d, true);
	ask_and_copy(&d);
	g = &d.side[0].wire[0];
	in[0] = in[1] = (struct lend_in){.data = g->data, .len = g->len, .peer = LEND_PEER(0, 1)};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, in, 2);
	d.side[0].n = 0;
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n1> REPLY 0+7 of 7\n");
	duo_settle(&d);
	duo_finish(&d);
}

/* The caller's clock goes on until it has said its request again, under another number, or asked;
 * that stays with us. */
static struct duo_dgram repeat(struct duo *d, const char *text)
{
	struct duo_side *s = &d->side[0];
	struct duo_dgram g;
	uint32_t on_its_way = s->n;

	d->now = lend_core_deadline(s->core);
	lend_core_tick(s->core, d->now);
	duo_output(d, 0);
	duo_expect(d, text);
	cr_assert_eq(s->n, on_its_way + 1);
	g = s->wire[--s->n];
	return g;
}

/* The server has answered and nobody heard of it: it says so again, from its record. */
Test(once, a_repeat_is_answered_from_the_record)
{
	struct duo d;
	struct duo_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	duo_deliver(&d, 0);
	d.lose = duo_lose_all;
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n1> REPLY lost\n");
	d.lose = NULL;
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1> REPLY 0+7 of 7\n");
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1> REPLY 0+7 of 7\n");
	duo_deliver(&d, 1);
	duo_expect(&d, "0 call_end status 0 ran 1 len 7\n");
	duo_finish(&d);
}

/* It comes while the reply still waits for its turn: there is one all the same. */
Test(once, a_repeat_before_the_reply_went_changes_nothing)
{
	struct duo d;
	struct duo_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	duo_deliver(&d, 0);
	hand_in(&d, &again, "1 request 30\n1> REPLY 0+7 of 7\n");
	duo_deliver(&d, 1);
	duo_expect(&d, "0 call_end status 0 ran 1 len 7\n");
	duo_finish(&d);
}

/* Its reply is known and forgotten; what comes so late is dropped. */
Test(once, a_repeat_after_the_reply_was_acknowledged_runs_nothing)
{
	struct duo d;
	struct duo_dgram first, again;

	begin(&d, false);
	first = ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_deliver(&d, 1);
	duo_forget(&d);
	duo_pass(&d, PATIENCE);
	duo_expect(&d, "0> ACK\n1 reply_end\n");
	hand_in(&d, &first, "");
	ask_and_copy(&d); /* on its slot */
	duo_deliver(&d, 0);
	duo_expect(&d, "1 request 30\n");
	hand_in(&d, &again, "1> REPLY 0+7 of 7\n");
	hand_in(&d, &again, "");
	duo_finish(&d);
}

/* The repeat overtakes what it repeats. */
Test(once, the_first_that_comes_runs_and_the_other_does_not)
{
	struct duo d;
	struct duo_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1 request 30\n1> REPLY 0+7 of 7\n");
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_expect(&d, "1> REPLY 0+7 of 7\n");
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	duo_finish(&d);
}

/* Its reply was made and has not gone when its caller gives it up. */
Test(once, a_reply_that_nobody_waits_for_does_not_go)
{
	struct duo d;
	uint64_t call;

	begin(&d, true);
	call = duo_ask(&d, 0, REQUEST, NORMAL, LEND_NEVER);
	duo_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	duo_output(&d, 0);
	duo_forget(&d);
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n1 reply_end\n1> GONE\n");
	cr_assert_eq(d.side[1].ev[LEND_EV_REPLY_END].maybe_queued, 1);
	duo_finish(&d);
}

/* Its server closes the session in the same turn. */
Test(once, a_reply_may_be_cut_off_before_it_goes)
{
	struct duo d;

	begin(&d, true);
	ask_and_copy(&d);
	duo_deliver(&d, 0);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n1 reply_end\n1 down 1\n1> BYE\n");
	duo_settle(&d);
	duo_expect(&d, "0 call_end status 14 ran 2 len 0\n0 down 14\n0> BYE_ACK\n");
	duo_finish(&d);
}

static bool server_full(struct duo *d, int from)
{
	(void)d;
	return from == 1;
}

/* Its carrier is full: the reply waits, a copy and a repeat change nothing, and it goes once. */
Test(once, a_reply_that_the_carrier_does_not_take_goes_later)
{
	struct duo d;
	struct duo_dgram first, again;

	begin(&d, false);
	first = ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	d.full = server_full;
	duo_deliver(&d, 0);
	duo_output(&d, 1);
	duo_expect(&d, "1 request 30\n");
	hand_in(&d, &again, "");
	hand_in(&d, &first, "");
	d.full = NULL;
	duo_pass(&d, MS / 2);
	duo_expect(&d, "1> REPLY 0+7 of 7\n0 call_end status 0 ran 1 len 7\n");
	duo_finish(&d);
}

/* So it is without an ACK however many follow. */
Test(once, the_next_call_ends_its_reply)
{
	struct duo d;

	begin(&d, false);
	for (int i = 0; i < 40; i++) {
		ask(&d);
		duo_output(&d, 0);
		duo_deliver(&d, 0);
		duo_turn(&d, 1, 32);
		duo_expect(&d, i == 0 ? "0> REQUEST 0+30 of 30\n1 request 30\n1> REPLY 0+7 of 7\n"
				      : "0> REQUEST 0+30 of 30\n1 reply_end\n1 request 30\n"
					"1> REPLY 0+7 of 7\n");
		duo_deliver(&d, 1);
		duo_expect(&d, "0 call_end status 0 ran 1 len 7\n");
	}
	duo_finish(&d);
}
