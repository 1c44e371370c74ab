/* Goal: a call rides on the CONNECT to a server that gave a ticket. It runs at most once under
 * copies, losses and restarts, and `ran` claims no more to its caller than is known. Method: two
 * cores, chosen datagrams. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"

#define MS UINT64_C(1000000)
enum { SERVER = 31850, REQUEST = 40, UNAVAILABLE = 14, MAYBE = 2 };

static void with_tickets(struct lend_core_config *c)
{
	c->pass = 1000 * MS;
	c->attempts = 16;
}

static void echo(struct duo *d, const struct lend_event *e)
{
	duo_free(d, 1, e->buf);
	duo_reply(d, 0, 0);
}

/* A session, and a call that may ride on its CONNECT; nothing was sent yet. */
static uint64_t ride(struct duo *d, uint32_t len)
{
	struct lend_core_call call = {
	    .method = 9, .early = 1, .deadline = LEND_NEVER, .request = duo_buf(d, 0, len, len, 3)};
	uint64_t handle;

	d->side[0].session = duo_connect(d);
	lend_core_known(d->side[0].core, d->side[0].session, SERVER);
	cr_assert_eq(duo_try(d, 0, &call, &handle), 0);
	return handle;
}

static void part(struct duo *d)
{
	lend_core_disconnect(d->side[0].core, d->side[0].session);
	duo_settle(d);
}

static void leave(struct duo *d)
{
	part(d);
	duo_close(d);
}

/* What ends and runs from now on is counted. */
static void count_anew(struct duo *d)
{
	memset(d->side[0].count, 0, sizeof(d->side[0].count));
	memset(d->side[1].count, 0, sizeof(d->side[1].count));
}

/* The client has a ticket and no session; the server answers at once. */
static void meet(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	duo_open_with(d, lossless, tweak);
	d->quiet = true;
	d->on_request = echo;
	d->on_end = duo_give_at_end;
	ride(d, REQUEST);
	duo_settle(d);
	part(d);
	count_anew(d);
	d->quiet = false;
	duo_forget(d);
}

/* The call ended, and its handler ran so many times. */
static void ended(struct duo *d, uint8_t status, uint8_t ran, uint32_t runs)
{
	const struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(e->status, status, "status %u", e->status);
	cr_assert_eq(e->ran, ran, "ran %u", e->ran);
	cr_assert_eq(d->side[1].count[LEND_EV_REQUEST], runs);
}

static void restart(struct duo *d)
{
	struct duo_side *s = &d->side[1];

	memset(s->cfg.seed, 0x77, sizeof(s->cfg.seed));
	for (uint32_t b = 1; b < DUO_BUFS; b++)
		if (s->taken[b])
			duo_free(d, 1, b);
	lend_core_init(memset(s->core, 0, lend_core_size(&s->cfg)), &s->cfg, d->now);
}

Test(early, its_reply_takes_one_round_trip)
{
	struct duo d;

	for (int lossless = 0; lossless < 2; lossless++) {
		meet(&d, lossless, with_tickets);
		ride(&d, REQUEST);
		duo_settle(&d);
		duo_expect(&d, "0> CONNECT 0+40 of 40\n1 up\n1 request 40\n1> ACCEPT\n1> REPLY\n"
			       "0 up\n0 call_end status 0 ran 1 len 0\n");
		ended(&d, 0, 1, 1);
		leave(&d);
	}
}

Test(early, without_a_pass_it_waits)
{
	struct duo d;

	duo_open_with(&d, false, with_tickets);
	d.on_end = duo_give_at_end;
	ride(&d, REQUEST);
	duo_settle(&d);
	duo_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> REQUEST 0+40 of 40\n1 up\n1 request 40\n");
	duo_reply(&d, 0, 0);
	duo_settle(&d);
	duo_close(&d);
}

/* Neither the copy of an attempt that ran, nor one from another address, nor one that comes when
 * its ticket has expired. */
Test(early, a_copy_of_its_connect_runs_nothing)
{
	struct duo d;
	struct duo_dgram copy;
	struct lend_in in;

	meet(&d, false, with_tickets);
	ride(&d, REQUEST);
	duo_output(&d, 0);
	copy = d.side[0].wire[0];
	in = (struct lend_in){.data = copy.data,
			      .len = copy.len,
			      .peer = LEND_PEER(0, 2),
			      .addr = "elsewhere",
			      .addr_len = 9};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, &in, 1);
	duo_output(&d, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "from elsewhere");
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "its attempt is another's");
	duo_close(&d);

	meet(&d, false, with_tickets);
	ride(&d, REQUEST);
	duo_output(&d, 0);
	copy = d.side[0].wire[0];
	duo_settle(&d);
	duo_inject(&d, 1, copy.data, copy.len);
	ended(&d, 0, 1, 1);
	part(&d);
	duo_inject(&d, 1, copy.data, copy.len);
	duo_settle(&d);
	ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->early_again, 1);
	duo_pass(&d, 10000 * MS);
	duo_inject(&d, 1, copy.data, copy.len);
	duo_settle(&d);
	ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->early, 1);
	duo_pass(&d, 10000 * MS);
	duo_close(&d);
}

static bool lose_answers(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v, (void)nth;
	return from == 1;
}

/* The handler ran and nobody heard of it; then the server is another one. */
Test(early, what_a_restart_cut_off_is_not_sent_again)
{
	struct duo d;

	meet(&d, false, with_tickets);
	d.lose = lose_answers;
	ride(&d, REQUEST);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	restart(&d);
	d.lose = NULL;
	duo_pass(&d, 100 * MS);
	ended(&d, UNAVAILABLE, MAYBE, 1);
	cr_assert_eq(lend_core_stats(d.side[0].core)->early_unknown, 1);
	count_anew(&d);
	duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	ended(&d, 0, 1, 1);
	leave(&d);
}

/* The session that ran it is gone, and so is what it answered. */
Test(early, what_ran_in_a_session_that_ended_is_not_sent_again)
{
	struct duo d;

	meet(&d, false, with_tickets);
	d.lose = lose_answers;
	ride(&d, REQUEST);
	duo_settle(&d);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	duo_pass(&d, 300 * MS);
	d.lose = NULL;
	duo_pass(&d, 200 * MS);
	ended(&d, UNAVAILABLE, MAYBE, 1);
	leave(&d);
}

/* A server whose session was seen to die is not trusted to know what it knew. */
Test(early, the_pass_of_a_server_that_died_is_not_used)
{
	struct duo d;

	meet(&d, false, with_tickets);
	ride(&d, REQUEST);
	duo_settle(&d);
	restart(&d);
	duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	count_anew(&d);
	ride(&d, REQUEST);
	duo_settle(&d);
	ended(&d, 0, 1, 1);
	leave(&d);
}

/* Its reply may still run when it is cancelled; nobody can be told before the session is up. */
Test(early, it_can_be_cancelled_while_it_rides)
{
	struct duo d;
	uint64_t call;

	meet(&d, false, with_tickets);
	d.lose = duo_lose_all;
	call = ride(&d, REQUEST);
	duo_settle(&d);
	lend_core_cancel(d.side[0].core, call, 1);
	duo_settle(&d);
	ended(&d, 1, MAYBE, 0);
	d.lose = NULL;
	duo_forget(&d);
	duo_pass(&d, 20 * MS);
	duo_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> CANCEL\n1 up\n1> GONE\n");
	leave(&d);
}

/* Where death is a hang-up, too, a server lets go of a session that nobody has heard of. */
Test(early, its_caller_may_be_gone_before_it_is_answered)
{
	struct duo d;

	meet(&d, true, with_tickets);
	ride(&d, REQUEST);
	duo_output(&d, 0);
	d.lose = duo_lose_all;
	part(&d);
	ended(&d, 1, MAYBE, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	duo_pass(&d, 10000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	duo_close(&d);
}

/* Nothing rides while a copy of what was not remembered may come. */
Test(early, what_cannot_be_remembered_does_not_ride)
{
	struct duo d;
	struct duo_dgram copy;

	meet(&d, false, with_tickets);
	d.quiet = true;
	for (uint32_t i = 0; i < 17; i++) {
		count_anew(&d);
		ride(&d, REQUEST);
		duo_output(&d, 0);
		copy = d.side[0].wire[0];
		duo_settle(&d);
		ended(&d, 0, 1, 1);
		part(&d);
	}
	cr_assert_eq(lend_core_stats(d.side[1].core)->early, 16);
	cr_assert_eq(lend_core_stats(d.side[1].core)->early_full, 1);
	d.now += 999 * MS; /* all others are forgotten in a moment */
	for (int i = 0; i < 2; i++, d.now += MS) {
		duo_inject(&d, 1, copy.data, copy.len);
		cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "%d", i);
	}
	duo_pass(&d, 10000 * MS);
	duo_close(&d);
}

/* Half of a ticket's life is for its way to the server. */
Test(early, an_old_pass_is_not_used)
{
	struct duo d;

	for (int late = 0; late < 2; late++) {
		meet(&d, false, with_tickets);
		duo_pass(&d, 499 * MS + (unsigned)late * MS);
		duo_forget(&d);
		ride(&d, REQUEST);
		duo_settle(&d);
		ended(&d, 0, 1, 1);
		cr_assert_eq(lend_core_stats(d.side[1].core)->early, !late);
		leave(&d);
	}
}

/* The carrier did not take it, so nothing of it was sent; then it does. */
Test(early, a_full_carrier_holds_it_back)
{
	struct duo d;
	uint64_t call;

	meet(&d, false, with_tickets);
	d.full = duo_full;
	call = ride(&d, REQUEST);
	duo_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	duo_output(&d, 0);
	ended(&d, 1, 0, 0);
	part(&d);
	count_anew(&d);
	ride(&d, REQUEST);
	duo_output(&d, 0);
	d.full = NULL;
	duo_pass(&d, 1 * MS);
	ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->early, 1);
	leave(&d);
}

static bool narrow;
static void with_a_narrow_server(struct lend_core_config *c)
{
	with_tickets(c);
	if (narrow)
		c->path[0].mtu = 300;
	narrow = !narrow;
}

/* Its server takes no datagram that long, though its answer to another would have been taken. */
Test(early, one_that_is_too_long_for_its_server_is_sent_when_the_session_is_up)
{
	struct duo d;

	narrow = false;
	meet(&d, false, with_a_narrow_server);
	for (uint32_t len = 20; len <= 116; len += 96) {
		ride(&d, len);
		duo_settle(&d);
		ended(&d, 0, 1, 1);
		count_anew(&d);
		part(&d);
	}
	cr_assert_eq(lend_core_stats(d.side[1].core)->early, 1);
	/* It has become narrower since. */
	lend_core_path(d.side[1].core, 0, &(struct lend_path){.mtu = 256});
	ride(&d, 20);
	duo_pass(&d, 20 * MS);
	ended(&d, 0, 1, 1);
	leave(&d);
}
