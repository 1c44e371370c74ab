/* Goal: sessions prove their address, live while their peer does, and end within their bound, once,
 * on both sides. Method: two cores, trace text. Covers: src/core/sess.c, src/core/sess_timer.c,
 * src/core/sess_lookup.c, src/core/handshake.c, src/core/control.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/arena.h"
#include "scen/core_pair.h"

#define MS UINT64_C(1000000)

Test(sess, peer__stopped__is_dead_within_its_bound)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	d.quiet = true;
	d.lose = pair_lose_all;
	pair_pass(&d, 4900 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
	d.quiet = false;
	pair_forget(&d);
	pair_pass(&d, 200 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 14);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 2);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 1);
	pair_reply(&d, 0, 0);
	pair_close(&d);
}

static void wait_longer(struct lend_core_config *c)
{
	c->dead = 10000 * MS;
}

/* The network is silent for 6 s, then works again: without a call, with one that has a request of
 * one datagram, and in the middle of a long one. */
Test(sess, network__silent_for_less_than_dead__goes_on)
{
	static const struct {
		uint32_t len;
		bool begun;
	} row[] = {{0, false}, {100, false}, {200000, false}, {200000, true}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct core_pair d;

		pair_begin(&d, false, wait_longer);
		d.quiet = true;
		if (row[i].len)
			pair_request(&d, row[i].len, 3);
		if (row[i].begun)
			pair_carry(&d, 0);
		d.lose = pair_lose_all;
		pair_pass(&d, 6000 * MS);
		d.lose = NULL;
		pair_pass(&d, 1000 * MS);
		cr_expect_eq(d.side[0].count[LEND_EV_CALL_END], row[i].len > 0, "row %zu", i);
		cr_expect_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0, "row %zu", i);
		cr_expect_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0, "row %zu", i);
		cr_expect_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0, "row %zu", i);
		pair_finish(&d);
	}
}

Test(sess, an_idle_session_lives_by_its_pings)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	pair_pass(&d, 20000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	cr_assert_leq(lend_core_stats(d.side[0].core)->tx, 200);
	pair_close(&d);
}

/* Both are suspended, as on a machine that is paused; then only one of them. */
Test(sess, a_pause_is_not_the_peers_silence)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	pair_pass(&d, 1234 * MS);
	d.now += 60000 * MS;
	pair_pass(&d, 20000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	d.lose = pair_lose_all;
	d.now += 60000 * MS;
	pair_pass(&d, 4000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	pair_pass(&d, 1100 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1, "what it listens to counts");
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	pair_close(&d);
}

Test(sess, goodbye_ends_both_sides)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	pair_expect(&d, "0 down 1\n0> BYE\n1 down 14\n1> BYE_ACK\n");
	pair_close(&d);
}

/* A carrier that reports hang-ups lets a session be idle for ever; it is closed afterwards. */
Test(sess, bye__after_long_idle__is_sent)
{
	struct core_pair d;

	pair_open(&d, true);
	pair_up(&d);
	pair_pass(&d, 60000 * MS);
	pair_forget(&d);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	pair_close(&d);
}

/* A lossless carrier may stay full for long. It gets the BYE once, in the end; the queue does not
 * fill with copies meanwhile. */
Test(sess, bye__carrier_full_for_long__is_sent)
{
	struct core_pair d;

	pair_open(&d, true);
	pair_up(&d);
	d.full = pair_full;
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_pass(&d, 10000 * MS);
	pair_forget(&d);
	d.full = NULL;
	pair_pass(&d, 10 * MS);
	pair_expect(&d, "0> BYE\n1 down 14\n1> BYE_ACK\n");
	pair_close(&d);
}

Test(sess, a_restarted_server_resets)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	lend_core_init(memset(d.side[1].core, 0, lend_core_size(&d.side[1].cfg)), &d.side[1].cfg,
		       d.now);
	for (uint32_t b = 1; b < PAIR_BUFS; b++)
		if (d.side[1].taken[b])
			pair_free(&d, 1, b);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_expect(&d,
		    "0> REQUEST 0+8 of 8\n1> RESET\n0 call_end status 14 ran 2 len 0\n0 down 14\n");
	pair_done(&d);
	pair_close(&d);
}

Test(sess, a_forged_reset_is_ignored)
{
	struct core_pair d;
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_RESET,
				.session = 12345};

	pair_open(&d, true);
	pair_up(&d);
	pair_inject(&d, 0, &head, sizeof(head));
	pair_settle(&d);
	pair_expect(&d, "");
	cr_assert_eq(lend_core_stats(d.side[0].core)->rx_session, 1);
	pair_close(&d);
}

Test(sess, an_unproven_address_gets_no_more_than_it_sent)
{
	struct core_pair d;

	pair_open(&d, false);
	d.quiet = true;
	pair_connect(&d);
	pair_output(&d, 0);
	/* The CONNECT arrives a hundred times; its sender never proves its address. */
	for (int i = 0; i < 100; i++) {
		pair_inject(&d, 1, d.side[0].wire[0].data, d.side[0].wire[0].len);
		pair_output(&d, 1);
		d.side[1].n = 0;
	}
	d.now += 6000 * MS;
	lend_core_tick(d.side[1].core, d.now);
	pair_output(&d, 1);
	cr_assert_leq(d.side[1].sent_bytes, d.side[1].received_bytes);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 0);
	pair_close(&d);
}

/* The first takes half of the slots of a server of four; the others must prove their address. */
Test(sess, half_open_sessions_are_bounded)
{
	struct core_pair d;

	pair_open(&d, false);
	d.quiet = true;
	for (int i = 0; i < 4; i++)
		pair_connect(&d);
	pair_carry(&d, 0);
	cr_assert_eq(lend_core_stats(d.side[1].core)->retries, 3);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 4);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 4);
	pair_close(&d);
}

Test(sess, the_same_datagrams_twice_leave_the_state_alone)
{
	struct core_pair d;
	struct pair_dgram request;
	uint64_t hash;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_output(&d, 0);
	request = d.side[0].wire[0];
	pair_settle(&d);
	hash = lend_core_hash(d.side[1].core);
	pair_inject(&d, 1, request.data, request.len);
	cr_assert_eq(lend_core_hash(d.side[1].core), hash);
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	pair_done(&d);
	pair_pass(&d, 20 * MS);
	pair_close(&d);
}

/* It carries the numbers of another session: recording them would hide later datagrams with the
 * same numbers. */
Test(sess, accept__of_an_ended_session__changes_nothing)
{
	struct core_pair d;
	struct pair_dgram connect, late;

	pair_open(&d, false);
	d.quiet = true;
	d.side[0].session = pair_connect(&d);
	pair_output(&d, 0);
	connect = d.side[0].wire[0];
	pair_deliver(&d, 0);
	pair_inject(&d, 1, connect.data, connect.len);
	pair_inject(&d, 1, connect.data, connect.len);
	pair_output(&d, 1);
	late = d.side[1].wire[2]; /* number 3, the same as the reply's */
	d.side[1].n = 0;
	/* The server's half-open session ends first. */
	lend_core_tick(d.side[1].core, d.now + 5000 * MS);
	cr_assert_eq(lend_core_stats(d.side[1].core)->dead, 1);
	pair_inject(&d, 1, connect.data, connect.len);
	pair_settle(&d);
	pair_inject(&d, 0, late.data, late.len);
	/* Acknowledging the second reply would also acknowledge the first, which was not
	 * accepted. */
	for (int i = 0; i < 2; i++) {
		pair_call(&d, 0, 0, LEND_NEVER);
		pair_settle(&d);
		pair_reply(&d, 0, 0);
		pair_settle(&d);
	}
	pair_pass(&d, 20 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
	pair_close(&d);
}

/* Datagrams sent later are not checked again because of that. */
Test(sess, carrier__was_full__no_extra_checks_later)
{
	const struct lend_sess *s;
	struct core_pair d;

	pair_open(&d, true);
	d.on_end = pair_give_at_end;
	d.on_request = pair_answer;
	pair_up(&d);
	s = lend_sess_at(d.side[0].core, 0);
	d.full = pair_full;
	(void)pair_call(&d, 0, 0, LEND_NEVER);
	pair_pass(&d, MS);
	cr_assert_gt(s->blocked[0] + s->blocked[1], 0);
	d.full = NULL;
	pair_pass(&d, 10 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(s->blocked[0] + s->blocked[1], 0);
	pair_close(&d);
}
