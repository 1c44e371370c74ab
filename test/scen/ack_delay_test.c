/* Goal: a short reply is acknowledged as late as its server allows, at once if the server is short
 * of records, and before its number leaves the map of received numbers. Method: two cores driven
 * directly, with few records or many; the datagrams and their times are the expectation. Covers:
 * src/core/server_call.c, src/core/client_reply.c, src/core/control.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

enum { MS = 1000000, RTO = MS, PATIENCE = 20 * MS, MANY = 60 };

static void few_records(struct lend_core_config *c)
{
	c->inflight = 4;
}

static void many_calls(struct lend_core_config *c)
{
	c->calls = MANY;
	c->inflight = 4 * MANY;
}

/* A call in side 0's session reaches its handler; returns the handle for its reply. */
static uint64_t call(struct core_pair *d)
{
	pair_call(d, 0, 0, LEND_NEVER);
	pair_settle(d);
	return d->side[1].request;
}

static void reply(struct core_pair *d, uint64_t request)
{
	d->side[1].request = request;
	pair_reply(d, 0, pair_buf(d, 1, 80, 80, 1));
	pair_settle(d);
}

Test(ack_delay, as_long_as_there_is_room)
{
	struct core_pair d;

	pair_start(&d, false, few_records);
	reply(&d, call(&d));
	d.quiet = false;
	pair_pass(&d, PATIENCE - 1);
	pair_expect(&d, "");
	pair_pass(&d, 1);
	pair_expect(&d, "0> ACK\n1 reply_end\n");
	pair_close(&d);
}

Test(ack_delay, none_where_records_are_few)
{
	uint64_t request[3];
	struct core_pair d;

	pair_start(&d, false, few_records);
	for (int i = 0; i < 3; i++)
		request[i] = call(&d);
	reply(&d, request[0]);
	d.quiet = false;
	pair_pass(&d, RTO);
	pair_expect(&d, "0> ACK\n1 reply_end\n");
	d.quiet = true;
	reply(&d, request[1]);
	reply(&d, request[2]);
	pair_pass(&d, PATIENCE);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 3);
	pair_close(&d);
}

/* The second reply of a session asks for an earlier acknowledgement than the first. */
Test(ack_delay, ack_delay__shorter_for_a_later_reply__acks_all)
{
	uint64_t request[3];
	struct core_pair d;

	pair_start(&d, false, few_records);
	request[0] = call(&d);
	request[1] = call(&d);
	reply(&d, request[0]);
	d.side[0].session = pair_connect(&d);
	request[2] = call(&d);
	reply(&d, request[1]);
	d.quiet = false;
	pair_pass(&d, RTO);
	pair_expect(&d, "0> ACK\n1 reply_end\n1 reply_end\n");
	reply(&d, request[2]);
	pair_pass(&d, PATIENCE);
	pair_close(&d);
}

Test(ack_delay, ends_before_the_map_does)
{
	struct core_pair d;

	pair_start(&d, false, many_calls);
	d.on_request = pair_answer;
	d.answer = 80;
	for (int i = 0; i < MANY; i++)
		pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], MANY);
	cr_assert_geq(d.side[1].count[LEND_EV_REPLY_END], MANY / 2);
	pair_pass(&d, PATIENCE);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], MANY);
	cr_assert_eq(lend_core_stats(d.side[1].core)->repeats, 0);
	pair_close(&d);
}
