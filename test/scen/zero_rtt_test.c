/* Goal: a 0-RTT call travels on the CONNECT to a server that issued a ticket. It runs at most once
 * under copies, losses and restarts, and `ran` never claims more than is known. Method: two cores,
 * chosen datagrams. Covers: src/core/zero_rtt.c, src/core/handshake.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { SERVER = 31850, REQUEST = 40, UNAVAILABLE = 14, MAYBE = 2 };

static void with_tickets(struct lend_core_config *c)
{
	c->ticket_ns = 1000 * MS;
	c->attempts = 16;
}

static void answer_echo(struct core_pair *d, const struct lend_event *e)
{
	pair_free(d, 1, e->buf);
	pair_reply(d, 0, 0);
}

/* A session, and a call that may use 0-RTT on its CONNECT; nothing was sent yet. */
static uint64_t start_zero_rtt(struct core_pair *d, uint32_t len)
{
	struct lend_core_call call = {.method = 9,
				      .zero_rtt = 1,
				      .deadline = LEND_NEVER,
				      .request = pair_buf(d, 0, len, len, 3)};
	uint64_t handle;

	d->side[0].session = pair_connect(d);
	lend_core_set_server(d->side[0].core, d->side[0].session, SERVER);
	cr_assert_eq(pair_try(d, 0, &call, &handle), 0);
	return handle;
}

static void settle_zero_rtt(struct core_pair *d)
{
	start_zero_rtt(d, REQUEST);
	pair_settle(d);
}

/* Sends the CONNECT; returns a copy of it. */
static struct pair_dgram send_zero_rtt(struct core_pair *d)
{
	start_zero_rtt(d, REQUEST);
	pair_output(d, 0);
	return d->side[0].wire[0];
}

static void disconnect_client(struct core_pair *d)
{
	lend_core_disconnect(d->side[0].core, d->side[0].session);
	pair_settle(d);
}

static void close_pair(struct core_pair *d)
{
	disconnect_client(d);
	pair_close(d);
}

/* Resets the counters of ends and runs. */
static void count_anew(struct core_pair *d)
{
	memset(d->side[0].count, 0, sizeof(d->side[0].count));
	memset(d->side[1].count, 0, sizeof(d->side[1].count));
}

/* The client has a ticket and no session; the server answers at once. */
static void get_ticket(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	pair_open_with(d, lossless, tweak);
	d->quiet = true;
	d->on_request = answer_echo;
	d->on_end = pair_give_at_end;
	settle_zero_rtt(d);
	disconnect_client(d);
	count_anew(d);
	d->quiet = false;
	pair_forget(d);
}

/* The call ended, and its handler ran this many times. */
static void check_ended(struct core_pair *d, uint8_t status, uint8_t ran, uint32_t runs)
{
	const struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(e->status, status, "status %u", e->status);
	cr_assert_eq(e->ran, ran, "ran %u", e->ran);
	cr_assert_eq(d->side[1].count[LEND_EV_REQUEST], runs);
}

static void restart_server(struct core_pair *d)
{
	struct pair_side *s = &d->side[1];

	memset(s->cfg.seed, 0x77, sizeof(s->cfg.seed));
	for (uint32_t b = 1; b < PAIR_BUFS; b++)
		if (s->taken[b])
			pair_free(d, 1, b);
	lend_core_init(memset(s->core, 0, lend_core_size(&s->cfg)), &s->cfg, d->now);
}

Test(zero_rtt, its_reply_takes_one_round_trip)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		get_ticket(&d, lossless, with_tickets);
		settle_zero_rtt(&d);
		pair_expect(&d, "0> CONNECT 0+40 of 40\n1 up\n1 request 40\n1> ACCEPT\n1> REPLY\n"
				"0 up\n0 call_end status 0 ran 1 len 0\n");
		check_ended(&d, 0, 1, 1);
		close_pair(&d);
	}
}

Test(zero_rtt, without_a_pass_it_waits)
{
	struct core_pair d;

	pair_open_with(&d, false, with_tickets);
	d.on_end = pair_give_at_end;
	settle_zero_rtt(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> REQUEST 0+40 of 40\n1 up\n1 request 40\n");
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	pair_close(&d);
}

/* Covers a copy of an attempt that ran, a copy from another address, and a copy after its ticket
 * expired. */
Test(zero_rtt, connect__copied__runs_once)
{
	struct core_pair d;
	struct pair_dgram copy;
	struct lend_in in;

	get_ticket(&d, false, with_tickets);
	copy = send_zero_rtt(&d);
	in = (struct lend_in){.data = copy.data,
			      .len = copy.len,
			      .peer = LEND_PEER(0, 2),
			      .addr = "elsewhere",
			      .addr_len = 9};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, &in, 1);
	pair_output(&d, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "from elsewhere");
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "the entry belongs to another attempt");
	pair_close(&d);

	get_ticket(&d, false, with_tickets);
	copy = send_zero_rtt(&d);
	pair_settle(&d);
	pair_inject(&d, 1, copy.data, copy.len);
	check_ended(&d, 0, 1, 1);
	disconnect_client(&d);
	pair_inject(&d, 1, copy.data, copy.len);
	pair_settle(&d);
	check_ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt_replayed, 1);
	pair_pass(&d, 10000 * MS);
	pair_inject(&d, 1, copy.data, copy.len);
	pair_settle(&d);
	check_ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt, 1);
	pair_pass(&d, 10000 * MS);
	pair_close(&d);
}

static bool lose_answers(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v, (void)nth;
	return from == 1;
}

/* The handler ran, its reply was lost, and then the server restarts. */
Test(zero_rtt, server__restarted__call_is_not_resent)
{
	struct core_pair d;

	get_ticket(&d, false, with_tickets);
	d.lose = lose_answers;
	settle_zero_rtt(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	restart_server(&d);
	d.lose = NULL;
	pair_pass(&d, 100 * MS);
	check_ended(&d, UNAVAILABLE, MAYBE, 1);
	cr_assert_eq(lend_core_stats(d.side[0].core)->zero_rtt_unknown, 1);
	count_anew(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	check_ended(&d, 0, 1, 1);
	close_pair(&d);
}

/* The session that ran it is gone, and so is its reply. */
Test(zero_rtt, session__ended_after_run__call_is_not_resent)
{
	struct core_pair d;

	get_ticket(&d, false, with_tickets);
	d.lose = lose_answers;
	settle_zero_rtt(&d);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	pair_pass(&d, 300 * MS);
	d.lose = NULL;
	pair_pass(&d, 200 * MS);
	check_ended(&d, UNAVAILABLE, MAYBE, 1);
	close_pair(&d);
}

/* After a session to the server died, its ticket is not used: the server may have forgotten
 * attempts. */
Test(zero_rtt, ticket__server_died__is_not_used)
{
	struct core_pair d;

	get_ticket(&d, false, with_tickets);
	settle_zero_rtt(&d);
	restart_server(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	count_anew(&d);
	settle_zero_rtt(&d);
	check_ended(&d, 0, 1, 1);
	close_pair(&d);
}

/* Its reply may still be sent when it is cancelled; no CANCEL can be sent before the session is
 * up. */
Test(zero_rtt, cancel__before_session_is_up__ends_the_call)
{
	struct core_pair d;
	uint64_t call;

	get_ticket(&d, false, with_tickets);
	d.lose = pair_lose_all;
	call = start_zero_rtt(&d, REQUEST);
	pair_settle(&d);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_settle(&d);
	check_ended(&d, 1, MAYBE, 0);
	d.lose = NULL;
	pair_forget(&d);
	pair_pass(&d, 20 * MS);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> CANCEL\n1 up\n1> GONE\n");
	close_pair(&d);
}

/* Where a hang-up means death, too, the server drops a session that its client never confirmed. */
Test(zero_rtt, caller__gone_before_reply__session_is_dropped)
{
	struct core_pair d;

	get_ticket(&d, true, with_tickets);
	start_zero_rtt(&d, REQUEST);
	pair_output(&d, 0);
	d.lose = pair_lose_all;
	disconnect_client(&d);
	check_ended(&d, 1, MAYBE, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	pair_pass(&d, 10000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	pair_close(&d);
}

/* No call is 0-RTT while a copy of an attempt that was not remembered may still arrive. */
Test(zero_rtt, attempts__table_full__no_0rtt)
{
	struct core_pair d;
	struct pair_dgram copy;

	get_ticket(&d, false, with_tickets);
	d.quiet = true;
	for (uint32_t i = 0; i < 17; i++) {
		count_anew(&d);
		copy = send_zero_rtt(&d);
		pair_settle(&d);
		check_ended(&d, 0, 1, 1);
		disconnect_client(&d);
	}
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt, 16);
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt_full, 1);
	d.now += 999 * MS; /* all others are forgotten soon */
	for (int i = 0; i < 2; i++, d.now += MS) {
		pair_inject(&d, 1, copy.data, copy.len);
		cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "%d", i);
	}
	pair_pass(&d, 10000 * MS);
	pair_close(&d);
}

/* Half of a ticket's life is for the time to the server. */
Test(zero_rtt, ticket__old__is_not_used)
{
	struct core_pair d;

	for (int late = 0; late < 2; late++) {
		get_ticket(&d, false, with_tickets);
		pair_pass(&d, 499 * MS + (unsigned)late * MS);
		pair_forget(&d);
		settle_zero_rtt(&d);
		check_ended(&d, 0, 1, 1);
		cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt, !late);
		close_pair(&d);
	}
}

/* The carrier did not accept it, so nothing of it was sent; later it does. */
Test(zero_rtt, carrier__full__call_is_sent_later)
{
	struct core_pair d;
	uint64_t call;

	get_ticket(&d, false, with_tickets);
	d.full = pair_full;
	call = start_zero_rtt(&d, REQUEST);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_output(&d, 0);
	check_ended(&d, 1, 0, 0);
	disconnect_client(&d);
	count_anew(&d);
	start_zero_rtt(&d, REQUEST);
	pair_output(&d, 0);
	d.full = NULL;
	pair_pass(&d, 1 * MS);
	check_ended(&d, 0, 1, 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt, 1);
	close_pair(&d);
}

static bool narrow;
static void with_a_narrow_server(struct lend_core_config *c)
{
	with_tickets(c);
	if (narrow)
		c->path[0].mtu = 300;
	narrow = !narrow;
}

/* The server accepts no datagram of this length, although another server would. */
Test(zero_rtt, call__too_long_for_server__sent_when_up)
{
	struct core_pair d;

	narrow = false;
	get_ticket(&d, false, with_a_narrow_server);
	for (uint32_t len = 20; len <= 116; len += 96) {
		start_zero_rtt(&d, len);
		pair_settle(&d);
		check_ended(&d, 0, 1, 1);
		count_anew(&d);
		disconnect_client(&d);
	}
	cr_assert_eq(lend_core_stats(d.side[1].core)->zero_rtt, 1);
	/* The path's MTU has shrunk since. */
	lend_core_path(d.side[1].core, 0, &(struct lend_path){.mtu = 256});
	start_zero_rtt(&d, 20);
	pair_pass(&d, 20 * MS);
	check_ended(&d, 0, 1, 1);
	close_pair(&d);
}
