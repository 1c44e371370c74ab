/* Goal: a short reply is acknowledged as late as its server allows, at once where the server is
 * short of records, and before the map of what was seen forgets it. Method: two cores driven by
 * hand, with few records or many; what goes over the wire, and when, is the expectation. */
#include <criterion/criterion.h>

#include "scen/duo.h"

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

/* A call of the session that side 0 has now reaches its handler; what to answer it by. */
static uint64_t call(struct duo *d)
{
	duo_call(d, 0, 0, LEND_NEVER);
	duo_settle(d);
	return d->side[1].request;
}

static void reply(struct duo *d, uint64_t request)
{
	d->side[1].request = request;
	duo_reply(d, 0, 0);
	duo_settle(d);
}

Test(patience, as_long_as_there_is_room)
{
	struct duo d;

	duo_start(&d, false, few_records);
	reply(&d, call(&d));
	d.quiet = false;
	duo_pass(&d, PATIENCE - 1);
	duo_expect(&d, "");
	duo_pass(&d, 1);
	duo_expect(&d, "0> ACK\n1 reply_end\n");
	duo_close(&d);
}

Test(patience, none_where_records_are_few)
{
	uint64_t request[3];
	struct duo d;

	duo_start(&d, false, few_records);
	for (int i = 0; i < 3; i++)
		request[i] = call(&d);
	reply(&d, request[0]);
	d.quiet = false;
	duo_pass(&d, RTO);
	duo_expect(&d, "0> ACK\n1 reply_end\n");
	d.quiet = true;
	reply(&d, request[1]);
	reply(&d, request[2]);
	duo_pass(&d, PATIENCE);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 3);
	duo_close(&d);
}

/* The second reply of a session finds the server in another mood than the first. */
Test(patience, a_reply_in_a_hurry_hastens_those_before_it)
{
	uint64_t request[3];
	struct duo d;

	duo_start(&d, false, few_records);
	request[0] = call(&d);
	request[1] = call(&d);
	reply(&d, request[0]);
	d.side[0].session = duo_connect(&d);
	request[2] = call(&d);
	reply(&d, request[1]);
	d.quiet = false;
	duo_pass(&d, RTO);
	duo_expect(&d, "0> ACK\n1 reply_end\n1 reply_end\n");
	reply(&d, request[2]);
	duo_pass(&d, PATIENCE);
	duo_close(&d);
}

Test(patience, ends_before_the_map_does)
{
	struct duo d;

	duo_start(&d, false, many_calls);
	d.on_request = duo_answer;
	for (int i = 0; i < MANY; i++)
		duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], MANY);
	cr_assert_geq(d.side[1].count[LEND_EV_REPLY_END], MANY / 2);
	duo_pass(&d, PATIENCE);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], MANY);
	cr_assert_eq(lend_core_stats(d.side[1].core)->repeats, 0);
	duo_close(&d);
}
