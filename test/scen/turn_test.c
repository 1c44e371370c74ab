/* Goal: a short call goes out when its turn comes, however late or early it was started: behind
 * what is more urgent, due sooner or as urgent and older, ahead of all else, and it takes nobody's
 * share. Method: a carrier that takes a few datagrams a turn, in two ways: the core is asked for no
 * more, or hands out more and is told that the carrier is full. Calls are told by their lengths. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"

#define MS UINT64_C(1000000)
enum { URGENT = 0, NORMAL = 3, BULK = 7, MANY = 64, LONG_WAIT = 5 * MS };

static void many_calls(struct lend_core_config *c)
{
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

/* After each turn of the caller what it sent. */
static void turn(struct duo *d, uint32_t most, const char *text)
{
	duo_turn(d, 0, most);
	duo_expect(d, text);
}

/* d->arg: how many more the caller's carrier takes. */
static bool full_after(struct duo *d, int from)
{
	uint32_t *left = d->arg;

	if (from != 0 || *left == 0)
		return from == 0;
	(*left)--;
	return false;
}

/* A turn whose carrier takes so many; then time enough for it to be asked again. */
static void full_turn(struct duo *d, uint32_t takes, const char *text)
{
	d->arg = &takes;
	d->full = full_after;
	lend_core_tick(d->side[0].core, d->now);
	duo_turn(d, 0, 32);
	duo_expect(d, text);
	d->now += LONG_WAIT;
}

static void start_some(struct duo *d)
{
	duo_request(d, 70, BULK);
	duo_request(d, 30, NORMAL);
	duo_request(d, 71, BULK);
	duo_request(d, 1, URGENT);
	duo_request(d, 31, NORMAL);
	duo_request(d, 2, URGENT);
}

Test(turn, the_most_urgent_go_first_and_equals_as_they_came)
{
	struct duo d;

	duo_begin(&d, true, NULL);
	start_some(&d);
	turn(&d, 4,
	     "0> REQUEST 0+1 of 1\n0> REQUEST 0+2 of 2\n"
	     "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n");
	turn(&d, 4, "0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	duo_finish(&d);
}

/* A call is started while others wait for their turn, and there is room for one. */
Test(turn, who_comes_while_others_wait_stands_where_it_belongs)
{
	struct duo d;

	duo_begin(&d, true, NULL);
	duo_request(&d, 30, NORMAL);
	duo_request(&d, 31, NORMAL);
	duo_request(&d, 70, BULK);
	turn(&d, 1, "0> REQUEST 0+30 of 30\n");
	duo_request(&d, 71, BULK);
	turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	duo_request(&d, 1, URGENT);
	turn(&d, 1, "0> REQUEST 0+1 of 1\n");
	duo_request(&d, 32, NORMAL);
	turn(&d, 1, "0> REQUEST 0+32 of 32\n");
	turn(&d, 2, "0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	duo_finish(&d);
}

/* What its carrier handed back is still ahead of who came later. */
Test(turn, a_full_carrier_changes_no_order)
{
	struct duo d;

	duo_begin(&d, true, NULL);
	duo_request(&d, 30, NORMAL);
	duo_request(&d, 31, NORMAL);
	duo_request(&d, 70, BULK);
	full_turn(&d, 1, "0> REQUEST 0+30 of 30\n");
	duo_request(&d, 71, BULK);
	duo_request(&d, 32, NORMAL);
	full_turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	full_turn(&d, 0, "");
	full_turn(&d, 9, "0> REQUEST 0+32 of 32\n0> REQUEST 0+70 of 70\n0> REQUEST 0+71 of 71\n");
	duo_finish(&d);
}

/* Carriers have a way of their own for what is urgent. */
Test(turn, what_is_urgent_passes_by_a_carrier_that_is_full_of_others)
{
	struct duo d;
	uint32_t none = 0;

	duo_begin(&d, true, NULL);
	duo_request(&d, 30, NORMAL);
	d.full = full_after;
	d.arg = &none;
	duo_turn(&d, 0, 32);
	d.full = NULL;
	duo_request(&d, 31, NORMAL);
	duo_request(&d, 1, URGENT);
	turn(&d, 32, "0> REQUEST 0+1 of 1\n");
	d.now += LONG_WAIT;
	lend_core_tick(d.side[0].core, d.now);
	turn(&d, 32, "0> REQUEST 0+30 of 30\n0> REQUEST 0+31 of 31\n");
	duo_finish(&d);
}

/* Each urgent call is started in the turn in which there is room for one datagram, so that it never
 * waits; who does wait has its share of what goes out all the same. */
static uint32_t turns_until_it_went(struct duo *d, uint8_t class)
{
	for (uint32_t i = 1; i < 1000; i++) {
		duo_forget(d);
		duo_request(d, 1, class);
		duo_turn(d, 0, 1);
		d->text[d->at] = 0;
		if (strcmp(d->text, "0> REQUEST 0+70 of 70\n") == 0)
			return i;
		duo_deliver(d, 0);
		duo_output(d, 1);
		duo_deliver(d, 1);
	}
	return 0;
}

Test(turn, who_waits_has_its_share)
{
	struct duo d;

	for (uint8_t class = URGENT; class < BULK; class ++) {
		duo_begin(&d, true, many_calls);
		duo_request(&d, 70, BULK);
		cr_assert_eq(turns_until_it_went(&d, class), 257, "class %d", class);
		duo_request(&d, 70, BULK);
		cr_assert_eq(turns_until_it_went(&d, class), 33, "class %d", class);
		duo_finish(&d);
	}
}

Test(turn, what_is_due_first_goes_first)
{
	struct duo d;

	duo_begin(&d, true, by_deadline);
	duo_ask(&d, 0, 9, NORMAL, 9000 * MS);
	duo_ask(&d, 0, 3, NORMAL, 3000 * MS);
	duo_request(&d, 90, NORMAL);
	duo_ask(&d, 0, 4, NORMAL, 3000 * MS);
	turn(&d, 1, "0> REQUEST 0+3 of 3\n");
	duo_ask(&d, 0, 2, NORMAL, 2000 * MS);
	turn(&d, 1, "0> REQUEST 0+2 of 2\n");
	duo_ask(&d, 0, 5, NORMAL, 3000 * MS);
	turn(&d, 1, "0> REQUEST 0+4 of 4\n");
	duo_request(&d, 91, NORMAL);
	duo_ask(&d, 0, 70, BULK, MS);
	duo_ask(&d, 0, 1, URGENT, 9999 * MS);
	turn(&d, 3, "0> REQUEST 0+1 of 1\n0> REQUEST 0+5 of 5\n0> REQUEST 0+9 of 9\n");
	turn(&d, 3, "0> REQUEST 0+90 of 90\n0> REQUEST 0+91 of 91\n0> REQUEST 0+70 of 70\n");
	duo_finish(&d);
}

Test(turn, where_classes_do_not_count_all_go_as_they_came)
{
	struct duo d;

	duo_begin(&d, true, as_they_come);
	start_some(&d);
	turn(&d, 2, "0> REQUEST 0+70 of 70\n0> REQUEST 0+30 of 30\n");
	duo_request(&d, 3, URGENT);
	turn(&d, 2, "0> REQUEST 0+71 of 71\n0> REQUEST 0+1 of 1\n");
	full_turn(&d, 1, "0> REQUEST 0+31 of 31\n");
	duo_request(&d, 4, URGENT);
	full_turn(&d, 9, "0> REQUEST 0+2 of 2\n0> REQUEST 0+3 of 3\n0> REQUEST 0+4 of 4\n");
	duo_finish(&d);
}

/* Side 1 serves and calls: what is answered at once stands in the same line. */
static void serve_and_call(struct duo *d, uint8_t asked, uint8_t made)
{
	duo_request(d, 5, asked);
	duo_output(d, 0);
	duo_ask(d, 1, 60, made, LEND_NEVER);
	duo_deliver(d, 0);
	duo_forget(d);
}

/* Both calls end by it, if they have not. */
static void hang_up(struct duo *d)
{
	d->quiet = true;
	lend_core_disconnect(d->side[0].core, d->side[0].session);
	duo_settle(d);
	for (int i = 0; i < 2; i++)
		duo_free(d, i, d->side[i].ev[LEND_EV_CALL_END].buf);
	duo_close(d);
}

Test(turn, a_reply_at_once_passes_by_what_is_less_urgent_and_nothing_else)
{
	static const struct {
		uint8_t asked, made;
		bool reply_first;
	} row[] = {{URGENT, NORMAL, true},  {NORMAL, URGENT, false}, {NORMAL, BULK, true},
		   {NORMAL, NORMAL, false}, {BULK, NORMAL, false},   {URGENT, URGENT, false}};
	struct duo d;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		duo_begin(&d, true, NULL);
		d.on_end = NULL;
		serve_and_call(&d, row[i].asked, row[i].made);
		duo_turn(&d, 1, 1);
		duo_expect(&d, row[i].reply_first ? "1> REPLY\n" : "1> REQUEST 0+60 of 60\n");
		duo_turn(&d, 1, 1);
		duo_expect(&d, row[i].reply_first ? "1> REQUEST 0+60 of 60\n" : "1> REPLY\n");
		hang_up(&d);
	}
}
