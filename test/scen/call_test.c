/* Goal: every kind of call ends exactly once, with the right status, `ran` and bytes, and every
 * buffer comes back. Method: two cores driven by hand; the trace of datagrams and events is the
 * expectation. */
#include <criterion/criterion.h>

#include "scen/duo.h"

Test(call, connect_is_one_round_trip)
{
	struct duo d;

	duo_open(&d, false);
	duo_connect(&d);
	duo_settle(&d);
	duo_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
	duo_close(&d);
}

Test(call, one_datagram_each_way)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, 100, 100, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_reply(&d, 0, duo_buf(&d, 1, 40, 40, 2));
	duo_settle(&d);
	duo_expect(&d, "0> REQUEST 0+100 of 100\n1 request 100\n1> REPLY 0+40 of 40\n"
		       "0 call_end status 0 ran 1 len 40\n");
	duo_done(&d);
	duo_pass(&d, 20000000);
	duo_expect(&d, "0> ACK\n1 reply_end\n");
	duo_close(&d);
}

Test(call, made_before_the_session_is_up)
{
	struct duo d;

	duo_open(&d, false);
	d.side[0].session = duo_connect(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> REQUEST 0+8 of 8\n1 up\n1 request 8\n");
	duo_reply(&d, 3, 0);
	duo_settle(&d);
	duo_expect(&d, "1> REPLY\n0 call_end status 3 ran 1 len 0\n");
	duo_done(&d);
	duo_pass(&d, 20000000);
	duo_close(&d);
}

/* Both directions, sizes around every boundary, lossy and lossless, into named memory and into the
 * pool. */
static void echo(uint32_t len, bool lossless, bool named)
{
	struct duo d;
	struct lend_event *e;

	duo_open(&d, lossless);
	d.quiet = true;
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, len, len, 3), named ? duo_buf(&d, 0, len, 0, 0) : 0,
		 LEND_NEVER);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "len %u", len);
	cr_assert_eq(d.side[1].request_len, len);
	if (d.side[1].request_buf)
		cr_assert(duo_same(&d, 1, d.side[1].request_buf, len, 3), "len %u", len);
	duo_free(&d, 1, d.side[1].request_buf);
	duo_reply(&d, 0, duo_buf(&d, 1, len, len, 4));
	duo_settle(&d);
	e = &d.side[0].ev[LEND_EV_CALL_END];
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "len %u", len);
	cr_assert_eq(e->status, 0);
	cr_assert_eq(e->len, len);
	if (e->reply)
		cr_assert(duo_same(&d, 0, e->reply, len, 4), "len %u", len);
	duo_done(&d);
	duo_pass(&d, 100000000);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	cr_assert_eq(lend_core_stats(d.side[0].core)->repeats, 0);
	cr_assert_eq(lend_core_stats(d.side[1].core)->repeats, 0);
	duo_close(&d);
}

Test(call, sizes)
{
	static const uint32_t len[] = {0,     1,     1375,  1376,  1377,   2752,
				       65535, 65536, 65537, 99999, 200000, 3000000};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (int how = 0; how < 4; how++)
			echo(len[i], how & 1, how & 2);
}
