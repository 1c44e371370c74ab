/* Goal: a reply that is withdrawn gives its memory back at once; its caller gets the bytes as they
 * were before, or no reply, and never waits. Method: two cores; a reply is withdrawn after every
 * number of datagrams, its memory is overwritten, and the notice is lost or arrives.
 * Covers: src/core/table_share.c */
#include <string.h>

#include "scen/core_pair.h"
#include "one_line_test.h"

enum { LEN = 40000, SALT = 5, MAYBE = 2, EXHAUSTED = 8 };

static uint32_t losses;

static bool lose_some(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v, (void)nth;
	if (from != 1 || !losses)
		return false;
	losses--;
	return true;
}

static void scribble(struct core_pair *d, uint32_t buf)
{
	if (d->side[1].taken[buf])
		memset(d->side[1].seg[buf].data, 0xee, d->side[1].seg[buf].len);
}

/* Returns whether the caller got the reply. */
static bool play(bool lossless, uint32_t len, uint32_t after, uint32_t lost)
{
	struct core_pair d;
	uint64_t request;
	uint32_t buf;
	bool got;

	pair_start(&d, lossless, NULL);
	pair_request(&d, 8, 3);
	pair_settle(&d);
	buf = pair_buf(&d, 1, len, len, SALT);
	request = d.side[1].request;
	pair_reply(&d, 0, buf);
	for (uint32_t i = 0; i < after; i++) {
		pair_turn(&d, 1, 1);
		pair_deliver(&d, 1);
		pair_carry(&d, 0);
	}
	lend_core_withdraw(d.side[1].core, d.now, request);
	scribble(&d, buf);
	pair_output(&d, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1, "the memory is back, after %u", after);
	losses = lost;
	d.lose = lose_some;
	pair_settle(&d);
	pair_pass(&d, 1000000000);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "after %u", after);
	got = d.side[0].ev[LEND_EV_CALL_END].status == 0;
	if (!got) {
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, EXHAUSTED);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, MAYBE);
	} else if (d.side[0].ev[LEND_EV_CALL_END].reply) {
		cr_assert(pair_same(&d, 0, d.side[0].ev[LEND_EV_CALL_END].reply, len, SALT),
			  "torn after %u", after);
	}
	lend_core_withdraw(d.side[1].core, d.now, request);
	pair_done(&d);
	pair_pass(&d, 100000000);
	pair_close(&d);
	return got;
}

static void everywhere(bool lossless)
{
	uint32_t got = 0, refused = 0;

	for (uint32_t after = 0; after < 60; after++)
		for (uint32_t lost = 0; lost < (lossless ? 1 : 4); lost++) {
			bool fine = play(lossless, LEN, after, lost);

			got += fine;
			refused += !fine;
		}
	cr_assert(got && refused, "%u with the reply, %u without", got, refused);
	cr_assert_not(play(lossless, 80, 0, 0));
	cr_assert(play(lossless, 80, 1, 0));
}

TestRuns(withdraw, reply__after_each_datagram__whole_or_none, everywhere(false));
TestRuns(withdraw, reply__on_a_lossless_carrier__whole_or_none, everywhere(true));

Test(withdraw, request_that_still_runs__nothing_happens)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	pair_request(&d, 8, 3);
	pair_settle(&d);
	lend_core_withdraw(d.side[1].core, d.now, d.side[1].request);
	lend_core_withdraw(d.side[0].core, d.now, d.side[1].request);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 0);
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
	pair_done(&d);
	pair_pass(&d, 100000000);
	pair_close(&d);
}
