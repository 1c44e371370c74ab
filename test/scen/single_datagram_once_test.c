/* Goal: a request that is answered in the turn in which it arrived runs once, and its reply arrives
 * once, whatever copies and retransmissions follow. The reply's record stays until its caller
 * acknowledges it, and is freed once. Method: two cores; copies of datagrams are kept and delivered
 * at each moment of a call's life. Covers: src/core/server_call.c, src/core/input.c,
 * src/core/client_reply.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { NORMAL = 3, PATIENCE = 20 * MS, REQUEST = 30, REPLY = 70 };

static void begin(struct core_pair *d, bool lossless)
{
	pair_begin(d, lossless, NULL);
	d->answer = REPLY;
}

static void ask(struct core_pair *d)
{
	pair_ask(d, 0, REQUEST, NORMAL, LEND_NEVER);
}

/* Delivers a datagram to side 1 and runs its turn; text: the expected trace. */
static void hand_in(struct core_pair *d, const struct pair_dgram *g, const char *text)
{
	pair_inject(d, 1, g->data, g->len);
	pair_output(d, 1);
	pair_expect(d, text);
}

/* Starts a request, which is in flight afterwards; returns a copy of its datagram. */
static struct pair_dgram ask_and_copy(struct core_pair *d)
{
	ask(d);
	pair_output(d, 0);
	pair_expect(d, "0> REQUEST 0+30 of 30\n");
	return d->side[0].wire[d->side[0].n - 1];
}

Test(single_datagram_once, answered_in_the_turn_it_came)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		begin(&d, lossless);
		ask_and_copy(&d);
		pair_deliver(&d, 0);
		pair_turn(&d, 1, 32);
		pair_expect(&d, "1 request 30\n1> REPLY 0+70 of 70\n");
		pair_deliver(&d, 1);
		pair_expect(&d, "0 call_end status 0 ran 1 len 70\n");
		pair_pass(&d, PATIENCE - 1);
		pair_expect(&d, "");
		pair_pass(&d, 1);
		pair_expect(&d, "0> ACK\n1 reply_end\n");
		pair_finish(&d);
	}
}

/* A copy has the number of its original: it is dropped in any state of the call. */
Test(single_datagram_once, copy__any_state__runs_nothing)
{
	struct core_pair d;
	struct pair_dgram copy;

	for (int lossless = 0; lossless < 2; lossless++) {
		begin(&d, lossless);
		copy = ask_and_copy(&d);
		pair_deliver(&d, 0);
		pair_inject(&d, 1, copy.data, copy.len);
		pair_output(&d, 1);
		pair_expect(&d, "1 request 30\n1> REPLY 0+70 of 70\n");
		hand_in(&d, &copy, "");
		pair_deliver(&d, 1);
		pair_expect(&d, "0 call_end status 0 ran 1 len 70\n");
		hand_in(&d, &copy, "");
		pair_pass(&d, PATIENCE);
		pair_expect(&d, "0> ACK\n1 reply_end\n");
		hand_in(&d, &copy, "");
		ask_and_copy(&d); /* another call uses its slot now */
		hand_in(&d, &copy, "");
		pair_deliver(&d, 0);
		pair_expect(&d, "1 request 30\n");
		hand_in(&d, &copy, "1> REPLY 0+70 of 70\n");
		cr_assert_eq(lend_core_stats(d.side[1].core)->rx_dup, 6);
		pair_finish(&d);
	}
}

/* Both in one burst, before the receiver handles its events. */
Test(single_datagram_once, a_copy_in_the_same_burst_runs_nothing)
{
	struct core_pair d;
	struct pair_dgram *g;
	struct lend_in in[2];

	begin(&d, true);
	ask_and_copy(&d);
	g = &d.side[0].wire[0];
	in[0] = in[1] = (struct lend_in){.data = g->data, .len = g->len, .peer = LEND_PEER(0, 1)};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, in, 2);
	d.side[0].n = 0;
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1> REPLY 0+70 of 70\n");
	pair_settle(&d);
	pair_finish(&d);
}

/* The caller's time passes until it has retransmitted its request under a new number, or sent a
 * probe; that datagram is kept back. */
static struct pair_dgram repeat(struct core_pair *d, const char *text)
{
	struct pair_side *s = &d->side[0];
	struct pair_dgram g;
	uint32_t on_its_way = s->n;

	for (int tick = 0; tick < 10 && s->n == on_its_way; tick++) {
		d->now = lend_core_deadline(s->core);
		lend_core_tick(s->core, d->now);
		pair_output(d, 0);
	}
	pair_expect(d, text);
	cr_assert_eq(s->n, on_its_way + 1);
	g = s->wire[--s->n];
	return g;
}

/* The server answered, and the reply was lost: it is sent again from the call record. */
Test(single_datagram_once, resend__reply_lost__answered_from_record)
{
	struct core_pair d;
	struct pair_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	pair_deliver(&d, 0);
	d.lose = pair_lose_all;
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1> REPLY lost\n");
	d.lose = NULL;
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1> REPLY 0+70 of 70\n");
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1> REPLY 0+70 of 70\n");
	pair_deliver(&d, 1);
	pair_expect(&d, "0 call_end status 0 ran 1 len 70\n");
	pair_finish(&d);
}

/* The retransmission arrives before the reply was sent: one reply is sent. */
Test(single_datagram_once, resend__reply_not_sent__one_reply)
{
	struct core_pair d;
	struct pair_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	pair_deliver(&d, 0);
	hand_in(&d, &again, "1 request 30\n1> REPLY 0+70 of 70\n");
	pair_deliver(&d, 1);
	pair_expect(&d, "0 call_end status 0 ran 1 len 70\n");
	pair_finish(&d);
}

/* Its reply is acknowledged and its record freed; such a late datagram is dropped. */
Test(single_datagram_once, resend__after_ack__runs_nothing)
{
	struct core_pair d;
	struct pair_dgram first, again;

	begin(&d, false);
	first = ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	pair_deliver(&d, 0);
	pair_carry(&d, 1);
	pair_forget(&d);
	pair_pass(&d, PATIENCE);
	pair_expect(&d, "0> ACK\n1 reply_end\n");
	hand_in(&d, &first, "");
	ask_and_copy(&d); /* in its slot */
	pair_deliver(&d, 0);
	pair_expect(&d, "1 request 30\n");
	hand_in(&d, &again, "1> REPLY 0+70 of 70\n");
	hand_in(&d, &again, "");
	pair_finish(&d);
}

/* The retransmission overtakes the original. */
Test(single_datagram_once, resend__overtakes_original__runs_once)
{
	struct core_pair d;
	struct pair_dgram again;

	begin(&d, false);
	ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	hand_in(&d, &again, "1 request 30\n1> REPLY 0+70 of 70\n");
	pair_deliver(&d, 0);
	pair_output(&d, 1);
	pair_expect(&d, "1> REPLY 0+70 of 70\n");
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	pair_finish(&d);
}

/* The caller cancels after the reply was made and before it was sent. */
Test(single_datagram_once, cancel__reply_not_sent__no_reply)
{
	struct core_pair d;
	uint64_t call;

	begin(&d, true);
	call = pair_ask(&d, 0, REQUEST, NORMAL, LEND_NEVER);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_output(&d, 0);
	pair_forget(&d);
	pair_deliver(&d, 0);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1 reply_end\n1> GONE\n");
	cr_assert_eq(d.side[1].ev[LEND_EV_REPLY_END].maybe_queued, 1);
	pair_finish(&d);
}

/* The server closes the session in the same turn. */
Test(single_datagram_once, close__reply_not_sent__no_reply)
{
	struct core_pair d;

	begin(&d, true);
	ask_and_copy(&d);
	pair_deliver(&d, 0);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1 reply_end\n1 down 1\n1> BYE\n");
	pair_settle(&d);
	pair_expect(&d, "0 call_end status 14 ran 2 len 0\n0 down 14\n0> BYE_ACK\n");
	pair_finish(&d);
}

/* The server's carrier is full: the reply waits, a copy and a retransmission change nothing, and it
 * is sent once. */
Test(single_datagram_once, carrier__full__reply_is_sent_later)
{
	struct core_pair d;
	struct pair_dgram first, again;

	begin(&d, false);
	first = ask_and_copy(&d);
	again = repeat(&d, "0> REQUEST 0+30 of 30\n");
	d.full = pair_full_server;
	pair_deliver(&d, 0);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n");
	hand_in(&d, &again, "");
	hand_in(&d, &first, "");
	d.full = NULL;
	pair_pass(&d, MS / 2);
	pair_expect(&d, "1> REPLY 0+70 of 70\n0 call_end status 0 ran 1 len 70\n"
			"0> ACK\n1 reply_end\n");
	pair_finish(&d);
}

/* The next call of the slot acknowledges the reply, without an ACK. */
Test(single_datagram_once, next_call__same_slot__acknowledges_the_reply)
{
	struct core_pair d;

	begin(&d, false);
	for (int i = 0; i < 40; i++) {
		ask(&d);
		pair_carry(&d, 0);
		pair_turn(&d, 1, 32);
		pair_expect(&d, i == 0
				    ? "0> REQUEST 0+30 of 30\n1 request 30\n1> REPLY 0+70 of 70\n"
				    : "0> REQUEST 0+30 of 30\n1 reply_end\n1 request 30\n"
				      "1> REPLY 0+70 of 70\n");
		pair_deliver(&d, 1);
		pair_expect(&d, "0 call_end status 0 ran 1 len 70\n");
	}
	pair_finish(&d);
}
