/* Goal: sessions prove their address, live while their peer does, and end within their bound, once,
 * on both sides. Method: two cores, trace text. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/arena.h"
#include "scen/duo.h"

#define MS UINT64_C(1000000)

Test(sess, a_silent_peer_is_dead_within_its_bound)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	d.quiet = true;
	d.lose = duo_lose_all;
	duo_pass(&d, 4900 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
	d.quiet = false;
	duo_forget(&d);
	duo_pass(&d, 200 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 14);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 2);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 1);
	duo_reply(&d, 0, 0);
	duo_close(&d);
}

Test(sess, an_idle_session_lives_by_its_pings)
{
	struct duo d;

	duo_start(&d, false, NULL);
	duo_pass(&d, 20000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	cr_assert_leq(lend_core_stats(d.side[0].core)->tx, 200);
	duo_close(&d);
}

/* Both are stopped, as a machine that is paused does; then only one of them was. */
Test(sess, a_pause_is_not_the_peers_silence)
{
	struct duo d;

	duo_start(&d, false, NULL);
	duo_pass(&d, 1234 * MS);
	d.now += 60000 * MS;
	duo_pass(&d, 20000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	d.lose = duo_lose_all;
	d.now += 60000 * MS;
	duo_pass(&d, 4000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	duo_pass(&d, 1100 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1, "what it listens to counts");
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	duo_close(&d);
}

Test(sess, goodbye_ends_both_sides)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	duo_settle(&d);
	duo_expect(&d, "0 down 1\n0> BYE\n1 down 14\n1> BYE_ACK\n");
	duo_close(&d);
}

/* Where a hang-up is seen a session may be silent for ever, and then be closed. */
Test(sess, goodbye_is_said_after_a_long_silence)
{
	struct duo d;

	duo_open(&d, true);
	duo_up(&d);
	duo_pass(&d, 60000 * MS);
	duo_forget(&d);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	duo_close(&d);
}

/* A carrier that loses nothing may be full for long. It takes the goodbye once, in the end; the
 * queue does not fill with others meanwhile. */
Test(sess, goodbye_is_said_however_long_the_carrier_was_full)
{
	struct duo d;

	duo_open(&d, true);
	duo_up(&d);
	d.full = duo_full;
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	duo_pass(&d, 10000 * MS);
	duo_forget(&d);
	d.full = NULL;
	duo_pass(&d, 10 * MS);
	duo_expect(&d, "0> BYE\n1 down 14\n1> BYE_ACK\n");
	duo_close(&d);
}

Test(sess, a_restarted_server_resets)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	lend_core_init(memset(d.side[1].core, 0, lend_core_size(&d.side[1].cfg)), &d.side[1].cfg,
		       d.now);
	for (uint32_t b = 1; b < DUO_BUFS; b++)
		if (d.side[1].taken[b])
			duo_free(&d, 1, b);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_expect(&d,
		   "0> REQUEST 0+8 of 8\n1> RESET\n0 call_end status 14 ran 2 len 0\n0 down 14\n");
	duo_done(&d);
	duo_close(&d);
}

Test(sess, a_forged_reset_is_ignored)
{
	struct duo d;
	struct {
		struct lend_pkt head;
		struct lend_pkt_trailer t;
	} g = {{.magic = LEND_PKT_MAGIC, .version = 1, .kind = LEND_PKT_RESET, .session = 12345},
	       {0}};

	duo_open(&d, true);
	duo_up(&d);
	duo_inject(&d, 0, &g.head, sizeof(g.head));
	duo_settle(&d);
	duo_expect(&d, "");
	cr_assert_eq(lend_core_stats(d.side[0].core)->rx_session, 1);
	duo_close(&d);
}

Test(sess, an_unproven_address_gets_no_more_than_it_sent)
{
	struct duo d;

	duo_open(&d, false);
	d.quiet = true;
	duo_connect(&d);
	duo_output(&d, 0);
	/* The CONNECT comes a hundred times; its sender never shows that it got an answer. */
	for (int i = 0; i < 100; i++) {
		duo_inject(&d, 1, d.side[0].wire[0].data, d.side[0].wire[0].len);
		duo_output(&d, 1);
		d.side[1].n = 0;
	}
	d.now += 6000 * MS;
	lend_core_tick(d.side[1].core, d.now);
	duo_output(&d, 1);
	cr_assert_leq(d.side[1].sent_bytes, d.side[1].received_bytes);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 0);
	duo_close(&d);
}

/* The first takes half of the places of a server of four; the others prove their address. */
Test(sess, half_open_sessions_are_bounded)
{
	struct duo d;

	duo_open(&d, false);
	d.quiet = true;
	for (int i = 0; i < 4; i++)
		duo_connect(&d);
	duo_output(&d, 0);
	duo_deliver(&d, 0);
	cr_assert_eq(lend_core_stats(d.side[1].core)->retries, 3);
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 4);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 4);
	duo_close(&d);
}

Test(sess, the_same_datagrams_twice_leave_the_state_alone)
{
	struct duo d;
	struct duo_dgram request;
	uint64_t hash;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_output(&d, 0);
	request = d.side[0].wire[0];
	duo_settle(&d);
	hash = lend_core_hash(d.side[1].core);
	duo_inject(&d, 1, request.data, request.len);
	cr_assert_eq(lend_core_hash(d.side[1].core), hash);
	request.data[40] ^= 1;
	duo_inject(&d, 1, request.data, request.len);
	cr_assert_eq(lend_core_hash(d.side[1].core), hash, "a checksum that is wrong");
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_checksum, 1);
	duo_reply(&d, 0, 0);
	duo_settle(&d);
	duo_done(&d);
	duo_pass(&d, 20 * MS);
	duo_close(&d);
}

/* Its numbers are another session's: to note them would hide what comes under the same ones. */
Test(sess, an_accept_of_a_session_that_ended_spoils_nothing)
{
	struct duo d;
	struct duo_dgram connect, late;

	duo_open(&d, false);
	d.quiet = true;
	d.side[0].session = duo_connect(&d);
	duo_output(&d, 0);
	connect = d.side[0].wire[0];
	duo_deliver(&d, 0);
	duo_inject(&d, 1, connect.data, connect.len);
	duo_inject(&d, 1, connect.data, connect.len);
	duo_output(&d, 1);
	late = d.side[1].wire[2]; /* number 3: so will the reply be */
	d.side[1].n = 0;
	/* The server's half-open session ends first. */
	lend_core_tick(d.side[1].core, d.now + 5000 * MS);
	cr_assert_eq(lend_core_stats(d.side[1].core)->dead, 1);
	duo_inject(&d, 1, connect.data, connect.len);
	duo_settle(&d);
	duo_inject(&d, 0, late.data, late.len);
	/* What acknowledges the second reply would acknowledge the first, which was not taken. */
	for (int i = 0; i < 2; i++) {
		duo_call(&d, 0, 0, LEND_NEVER);
		duo_settle(&d);
		duo_reply(&d, 0, 0);
		duo_settle(&d);
	}
	duo_pass(&d, 20 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
	duo_close(&d);
}

/* What is sent later is not looked at again because of that. */
Test(sess, a_carrier_that_was_full_is_like_any_other_once_it_took_more)
{
	const struct lend_sess *s;
	struct duo d;

	duo_open(&d, true);
	d.on_end = duo_give_at_end;
	d.on_request = duo_answer;
	duo_up(&d);
	s = lend_sess_at(d.side[0].core, 0);
	d.full = duo_full;
	(void)duo_call(&d, 0, 0, LEND_NEVER);
	duo_pass(&d, MS);
	cr_assert_gt(s->blocked[0] + s->blocked[1], 0);
	d.full = NULL;
	duo_pass(&d, 10 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(s->blocked[0] + s->blocked[1], 0);
	duo_close(&d);
}
