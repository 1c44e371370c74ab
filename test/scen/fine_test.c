/* Goal: long messages that begin while urgent calls are about go in datagrams of an eighth of the
 * full length, and arrive whole; others go in full ones. Method: two cores with long datagrams;
 * datagrams that are lost, and one with another cut than its message. Covers: src/core/tx.c,
 * src/core/rx.c, src/core/sess.c */
#include <criterion/criterion.h>

#include "core/arena.h"
#include "scen/core_pair.h"

enum { LEN = 100000, MTU = 9000, PARTS = 8 };

static void set_jumbo(struct lend_core_config *c)
{
	c->path[0].mtu = MTU;
}

static void set_usual(struct lend_core_config *c)
{
	c->path[0].mtu = MTU / 2;
}

static uint32_t payload_of(struct core_pair *d)
{
	return lend_sess_at(d->side[0].core, 0)->payload;
}

/* Returns the longest datagram on the wire of side 0. */
static uint32_t longest_sent(const struct core_pair *d)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < d->side[0].n; i++)
		most = lend_max_u32(most, d->side[0].wire[i].len);
	return most;
}

/* Compares the request's bytes, and answers as long as it. */
static void check_and_answer(struct core_pair *d, const struct lend_event *e)
{
	cr_assert(pair_same(d, 1, e->buf, LEN, LEN));
	pair_answer(d, e);
}

static void start_call(struct core_pair *d, lend_ns fine_until)
{
	d->on_request = check_and_answer;
	d->answer = LEN;
	lend_core_cut_fine(d->side[0].core, fine_until);
	(void)pair_request(d, LEN, 7);
	pair_output(d, 0);
}

static void finish_call(struct core_pair *d)
{
	pair_pass(d, 1000 * LEND_MS);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d->side[0].ev[LEND_EV_CALL_END].status, 0);
	cr_assert_eq(d->side[1].count[LEND_EV_REQUEST], 1);
	pair_finish(d);
}

Test(fine, message__begins_after_an_urgent_call__short_datagrams)
{
	for (int lossless = 0; lossless < 2; lossless++) {
		struct core_pair d;

		pair_begin(&d, lossless, set_jumbo);
		start_call(&d, LEND_NEVER);
		cr_assert_eq(payload_of(&d) % (16 * PARTS), 0, "whole parts");
		cr_assert_gt(d.side[0].n, 1);
		cr_assert_leq(longest_sent(&d), payload_of(&d) / PARTS + LEND_PKT_OVERHEAD);
		finish_call(&d);
	}
}

Test(fine, message__no_urgent_call_lately__full_datagrams)
{
	struct core_pair d;

	pair_begin(&d, true, set_jumbo);
	start_call(&d, d.now);
	cr_assert_geq(longest_sent(&d), payload_of(&d));
	finish_call(&d);
}

Test(fine, message__usual_datagrams__stays_in_full_ones)
{
	struct core_pair d;

	pair_begin(&d, true, set_usual);
	start_call(&d, LEND_NEVER);
	cr_assert_geq(longest_sent(&d), payload_of(&d));
	finish_call(&d);
}

static bool lose_some(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d;
	(void)from;
	(void)v;
	return nth % 5 == 1;
}

Test(fine, message__every_fifth_datagram_lost__arrives)
{
	struct core_pair d;

	pair_begin(&d, false, set_jumbo);
	d.lose = lose_some;
	start_call(&d, LEND_NEVER);
	pair_pass(&d, 1000 * LEND_MS);
	d.lose = NULL;
	finish_call(&d);
}

/* A part of a full datagram must not count as all of it. */
Test(fine, datagram__another_cut_than_its_message__dropped)
{
	struct core_pair d;
	struct pair_dgram *second;

	pair_begin(&d, false, set_jumbo);
	start_call(&d, 0);
	pair_deliver(&d, 0);
	pair_carry(&d, 1); /* a grant */
	pair_output(&d, 0);
	cr_assert_gt(d.side[0].n, 0);
	second = &d.side[0].wire[0];
	second->data[offsetof(struct lend_pkt, flags)] ^= LEND_PKT_FINE;
	second->len -= payload_of(&d) - payload_of(&d) / PARTS;
	pair_deliver(&d, 0);
	cr_assert_eq(lend_unhashed(d.side[1].core)->stats.rx_length, 1);
	finish_call(&d);
}
