/* Goal: every kind of call ends exactly once, with the right status, `ran` and bytes, and every
 * buffer comes back. Method: two cores driven directly; the trace of datagrams and events is the
 * expectation. Covers: src/core/client_call.c, src/core/client_reply.c, src/core/server_call.c,
 * src/core/tx.c, src/core/rx.c, src/core/output.c, src/core/output_result.c, src/core/input.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

Test(call, connect_is_one_round_trip)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_connect(&d);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
	pair_close(&d);
}

Test(call, one_datagram_each_way)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, 100, 100, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_reply(&d, 0, pair_buf(&d, 1, 80, 80, 2));
	pair_settle(&d);
	pair_expect(&d, "0> REQUEST 0+100 of 100\n1 request 100\n1> REPLY 0+80 of 80\n"
			"0 call_end status 0 ran 1 len 80\n");
	pair_done(&d);
	pair_pass(&d, 20000000);
	pair_expect(&d, "0> ACK\n1 reply_end\n");
	pair_close(&d);
}

Test(call, made_before_the_session_is_up)
{
	struct core_pair d;

	pair_open(&d, false);
	d.side[0].session = pair_connect(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> REQUEST 0+8 of 8\n1 up\n1 request 8\n");
	pair_reply(&d, 3, 0);
	pair_settle(&d);
	pair_expect(&d, "1> REPLY\n0 call_end status 3 ran 1 len 0\n");
	pair_done(&d);
	pair_pass(&d, 20000000);
	pair_close(&d);
}

/* Both directions, sizes around every boundary, lossy and lossless, into memory that the caller
 * named and into the pool. */
static void run_echo(uint32_t len, bool lossless, bool named)
{
	struct core_pair d;
	struct lend_event *e;

	pair_open(&d, lossless);
	d.quiet = true;
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, len, len, 3), named ? pair_buf(&d, 0, len, 0, 0) : 0,
		  LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "len %u", len);
	cr_assert_eq(d.side[1].request_len, len);
	if (d.side[1].request_buf)
		cr_assert(pair_same(&d, 1, d.side[1].request_buf, len, 3), "len %u", len);
	pair_free(&d, 1, d.side[1].request_buf);
	pair_reply(&d, 0, pair_buf(&d, 1, len, len, 4));
	pair_settle(&d);
	e = &d.side[0].ev[LEND_EV_CALL_END];
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "len %u", len);
	cr_assert_eq(e->status, 0);
	cr_assert_eq(e->len, len);
	if (e->reply)
		cr_assert(pair_same(&d, 0, e->reply, len, 4), "len %u", len);
	pair_done(&d);
	pair_pass(&d, 100000000);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	cr_assert_eq(lend_core_stats(d.side[0].core)->repeats, 0);
	cr_assert_eq(lend_core_stats(d.side[1].core)->repeats, 0);
	pair_close(&d);
}

Test(call, sizes)
{
	static const uint32_t len[] = {0,     1,     1375,  1376,  1377,   2752,
				       65535, 65536, 65537, 99999, 200000, 3000000};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (int how = 0; how < 4; how++)
			run_echo(len[i], how & 1, how & 2);
}
