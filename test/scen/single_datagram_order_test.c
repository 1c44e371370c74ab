/* Goal: a short call is sent in its order, however late or early it was started: after calls that
 * are more urgent, due sooner, or as urgent and older, and before all others; it never takes
 * another call's share. Method: a carrier that accepts a few datagrams a turn, in two ways: the
 * core is asked for no more, or hands out more and learns that the carrier is full. Calls are
 * identified by their lengths. Covers: src/core/output.c, src/core/sched.c,
 * src/core/output_result.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { URGENT = 0, NORMAL = 3, BULK = 7, MANY = 64, LONG_WAIT = 5 * MS };

/* A datagram holds one call: coalesced ones would hold several. */
static void one_each(struct lend_core_config *c)
{
	c->fast = LEND_FAST_NEVER;
}

static void many_calls(struct lend_core_config *c)
{
	one_each(c);
	c->calls = MANY;
	c->inflight = 2 * MANY;
}

static void by_deadline(struct lend_core_config *c)
{
	many_calls(c);
	c->order = LEND_ORDER_DEADLINE;
}

static void as_they_come(struct lend_core_config *c)
{
	many_calls(c);
	c->order = LEND_ORDER_FIFO;
}

/* Runs one turn of the caller; text: the datagrams that it must send. */
static void turn(struct core_pair *d, uint32_t most, const char *text)
{
	pair_turn(d, 0, most);
	pair_expect(d, text);
}

/* d->arg: how many more the caller's carrier accepts. */
static bool full_after(struct core_pair *d, int from)
{
	uint32_t *left = d->arg;

	if (from != 0 || *left == 0)
		return from == 0;
	(*left)--;
	return false;
}

/* A turn in which the carrier accepts this many; then enough time until it is polled again. */
static void full_turn(struct core_pair *d, uint32_t takes, const char *text)
{
	d->arg = &takes;
	d->full = full_after;
	lend_core_tick(d->side[0].core, d->now);
	pair_turn(d, 0, 32);
	pair_expect(d, text);
	d->now += LONG_WAIT;
}

static void start_some(struct core_pair *d)
{
	pair_request(d, 70, BULK);
	pair_request(d, 30, NORMAL);
	pair_request(d, 71, BULK);
	pair_request(d, 1, URGENT);
	pair_request(d, 31, NORMAL);
	pair_request(d, 2, URGENT);
}

Test(single_datagram_order, order__by_class__fifo_within_one)
{
	struct core_pair d;

	pair_begin(&d, true, one_each);
	start_some(&d);
	turn(&d, 4,
	     "0> REQUEST 0+1 of 1\n0> REQUEST 0+2 of 2\n"
	     "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n");
	turn(&d, 4, "0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	pair_finish(&d);
}

/* A call is started while others wait, and there is room for one. */
Test(single_datagram_order, order__started_late__sent_in_its_place)
{
	struct core_pair d;

	pair_begin(&d, true, one_each);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 31, NORMAL);
	pair_request(&d, 70, BULK);
	turn(&d, 1, "0> REQUEST 0+30 of 30\n");
	pair_request(&d, 71, BULK);
	turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	pair_request(&d, 1, URGENT);
	turn(&d, 1, "0> REQUEST 0+1 of 1\n");
	pair_request(&d, 32, NORMAL);
	turn(&d, 1, "0> REQUEST 0+32 of 32\n");
	turn(&d, 2, "0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	pair_finish(&d);
}

/* Datagrams that the carrier handed back are still ahead of later ones. */
Test(single_datagram_order, order__carrier_full__unchanged)
{
	struct core_pair d;

	pair_begin(&d, true, one_each);
	pair_request(&d, 30, NORMAL);
	pair_request(&d, 31, NORMAL);
	pair_request(&d, 70, BULK);
	full_turn(&d, 1, "0> REQUEST 0+30 of 30\n");
	pair_request(&d, 71, BULK);
	pair_request(&d, 32, NORMAL);
	full_turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	full_turn(&d, 0, "");
	full_turn(&d, 9, "0> REQUEST 0+32 of 32\n0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	pair_finish(&d);
}

/* Carriers have a separate path for urgent datagrams. */
Test(single_datagram_order, urgent__carrier_full_of_others__is_sent)
{
	struct core_pair d;
	uint32_t none = 0;

	pair_begin(&d, true, NULL);
	pair_request(&d, 30, NORMAL);
	d.full = full_after;
	d.arg = &none;
	pair_turn(&d, 0, 32);
	d.full = NULL;
	pair_request(&d, 31, NORMAL);
	pair_request(&d, 1, URGENT);
	turn(&d, 32, "0> REQUEST 0+1 of 1\n");
	d.now += LONG_WAIT;
	lend_core_tick(d.side[0].core, d.now);
	turn(&d, 32, "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n");
	pair_finish(&d);
}

/* Each urgent call is started in the turn that has room for one datagram, so that it never waits; a
 * waiting call still gets its share. Datagrams of a few bytes count as a 16th of a full one. */
static uint32_t turns_until_it_went(struct core_pair *d, uint8_t class)
{
	for (uint32_t i = 1; i < 10000; i++) {
		pair_forget(d);
		pair_request(d, 1, class);
		pair_turn(d, 0, 1);
		d->text[d->at] = 0;
		if (strcmp(d->text, "0> REQUEST 0+70 of 70\n") == 0)
			return i;
		pair_deliver(d, 0);
		pair_carry(d, 1);
	}
	return 0;
}

Test(single_datagram_order, share__urgent_calls_never_wait__others_are_sent)
{
	struct core_pair d;

	for (uint8_t class = URGENT; class < BULK; class ++) {
		pair_begin(&d, true, many_calls);
		pair_request(&d, 70, BULK);
		cr_assert_eq(turns_until_it_went(&d, class), 4097, "class %d", class);
		pair_request(&d, 70, BULK);
		cr_assert_eq(turns_until_it_went(&d, class), 33, "class %d", class);
		pair_finish(&d);
	}
}

Test(single_datagram_order, order__by_deadline__earliest_first)
{
	struct core_pair d;

	pair_begin(&d, true, by_deadline);
	pair_ask(&d, 0, 9, NORMAL, 9000 * MS);
	pair_ask(&d, 0, 3, NORMAL, 3000 * MS);
	pair_request(&d, 90, NORMAL);
	pair_ask(&d, 0, 4, NORMAL, 3000 * MS);
	turn(&d, 1, "0> REQUEST 0+3 of 3\n");
	pair_ask(&d, 0, 2, NORMAL, 2000 * MS);
	turn(&d, 1, "0> REQUEST 0+2 of 2\n");
	pair_ask(&d, 0, 5, NORMAL, 3000 * MS);
	turn(&d, 1, "0> REQUEST 0+4 of 4\n");
	pair_request(&d, 91, NORMAL);
	pair_ask(&d, 0, 70, BULK, MS);
	pair_ask(&d, 0, 1, URGENT, 9999 * MS);
	turn(&d, 3, "0> REQUEST 0+1 of 1\n0> REQUEST 0+5 of 5\n0> REQUEST 0+9 of 9\n");
	turn(&d, 3, "0> REQUEST 0+90 of 90\n0> REQUEST 0+91 of 91\n0> REQUEST 0+70 of 70\n");
	pair_finish(&d);
}

Test(single_datagram_order, order__fifo__ignores_classes)
{
	struct core_pair d;

	pair_begin(&d, true, as_they_come);
	start_some(&d);
	turn(&d, 2, "0> REQUEST 0+70 of 70\n0> REQUEST 0+30 of 30\n");
	pair_request(&d, 3, URGENT);
	turn(&d, 2, "0> REQUEST 0+71 of 71\n0> REQUEST 0+1 of 1\n");
	full_turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	pair_request(&d, 4, URGENT);
	full_turn(&d, 9, "0> REQUEST 0+2 of 2\n0> REQUEST 0+3 of 3\n0> REQUEST 0+4 of 4\n");
	pair_finish(&d);
}

/* Side 1 serves and calls: a reply made at once waits in the same queue. */
static void serve_and_call(struct core_pair *d, uint8_t asked, uint8_t made)
{
	pair_request(d, 5, asked);
	pair_output(d, 0);
	pair_ask(d, 1, 60, made, LEND_NEVER);
	pair_deliver(d, 0);
	pair_forget(d);
}

/* Ends both calls, if they are still open. */
static void hang_up(struct core_pair *d)
{
	d->quiet = true;
	lend_core_disconnect(d->side[0].core, d->side[0].session);
	pair_settle(d);
	for (int i = 0; i < 2; i++)
		pair_free(d, i, d->side[i].ev[LEND_EV_CALL_END].buf);
	pair_close(d);
}

Test(single_datagram_order, reply__made_at_once__overtakes_less_urgent_only)
{
	static const struct {
		uint8_t asked, made;
		bool reply_first;
	} row[] = {{URGENT, NORMAL, true},  {NORMAL, URGENT, false}, {NORMAL, BULK, true},
		   {NORMAL, NORMAL, false}, {BULK, NORMAL, false},   {URGENT, URGENT, false}};
	struct core_pair d;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		pair_begin(&d, true, NULL);
		d.on_end = NULL;
		serve_and_call(&d, row[i].asked, row[i].made);
		pair_turn(&d, 1, 1);
		pair_turn(&d, 1, 1);
		pair_expect(&d, row[i].reply_first ? "1> REPLY\n1> REQUEST 0+60 of 60\n"
						   : "1> REQUEST 0+60 of 60\n1> REPLY\n");
		hang_up(&d);
	}
}
