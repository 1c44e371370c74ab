/* Goal: a server without a free call record answers RESOURCE_EXHAUSTED: ran no for a request that
 * it refuses, ran maybe for a reply that it released; also when this answer is lost. Method: two
 * cores and a table of two records; the datagrams to lose are chosen by kind, and the trace is the
 * expectation. Covers: src/core/table_share.c, src/core/heavy_hitters.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { EXHAUSTED = 8, NO = 0, MAYBE = 2 };

static uint32_t losses; /* the number of replies still to lose */

static bool lose_replies(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)nth;
	if (from == 0 || v->head.kind != LEND_PKT_REPLY || losses == 0)
		return false;
	losses--;
	return true;
}

static void two_records(struct lend_core_config *c)
{
	if (c->incarnation[0] == 0xa1)
		c->inflight = 2;
}

static void begin(struct core_pair *d, bool lossless)
{
	pair_start(d, lossless, two_records);
	d->on_end = pair_give_at_end;
	d->lose = lossless ? NULL : lose_replies;
	losses = 0;
}

/* Makes two calls; the handler holds both. */
static void fill(struct core_pair *d, uint64_t request[2])
{
	for (int i = 0; i < 2; i++) {
		pair_request(d, 8, 3);
		pair_settle(d);
		request[i] = d->side[1].request;
	}
}

static void answer(struct core_pair *d, const uint64_t request[2])
{
	for (int i = 0; i < 2; i++) {
		d->side[1].request = request[i];
		pair_reply(d, 0, pair_buf(d, 1, 80, 80, 1));
	}
	pair_settle(d);
	pair_pass(d, 1000 * MS);
}

static void ended(const struct core_pair *d, uint32_t n, uint8_t status, uint8_t ran)
{
	const struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], n, "%u calls ended, not %u",
		     d->side[0].count[LEND_EV_CALL_END], n);
	cr_assert(e->status == status && e->ran == ran, "status %d ran %d", e->status, e->ran);
}

Test(table_share, a_call_without_a_record_is_refused_at_once)
{
	for (int lossless = 0; lossless < 2; lossless++) {
		static const uint32_t len[] = {8, 5000};
		struct core_pair d;
		uint64_t request[2];

		begin(&d, lossless);
		fill(&d, request);
		d.quiet = false;
		pair_request(&d, 8, 3);
		pair_settle(&d);
		pair_expect(&d, "0> REQUEST 0+8 of 8\n1> REPLY\n"
				"0 call_end status 8 ran 0 len 0\n");
		d.quiet = true;
		for (int i = 0; i < 2; i++) {
			pair_request(&d, len[i], 3);
			pair_pass(&d, 100 * MS); /* until it is in the window */
			ended(&d, 2 + (uint32_t)i, EXHAUSTED, NO);
		}
		cr_assert_eq(lend_core_stats(d.side[1].core)->no_record, 3);
		answer(&d, request);
		pair_close(&d);
	}
}

Test(table_share, refusal__lost__is_resent)
{
	static const uint32_t len[] = {8, 5000};

	for (int i = 0; i < 2; i++) {
		struct core_pair d;
		uint64_t request[2];

		begin(&d, false);
		fill(&d, request);
		losses = 3;
		pair_request(&d, len[i], 3);
		pair_settle(&d);
		pair_pass(&d, 200 * MS);
		cr_assert_eq(losses, 0);
		ended(&d, 1, EXHAUSTED, NO);
		answer(&d, request);
		pair_close(&d);
	}
}

/* Both replies are lost for longer than two timeouts; then a new call takes the record of one. */
Test(table_share, reply__record_released__caller_gets_ran_maybe)
{
	struct core_pair d;
	uint64_t request[2];

	begin(&d, false);
	fill(&d, request);
	losses = UINT32_MAX;
	answer(&d, request);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
	pair_request(&d, 8, 3);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 3, "the third call finds a record");
	cr_assert_geq(lend_core_stats(d.side[1].core)->released, 1);
	pair_reply(&d, 0, 0);
	losses = 0;
	pair_settle(&d);
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 3);
	pair_close(&d);
}
