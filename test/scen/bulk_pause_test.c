/* Goal: during a bulk pause only urgent calls and control datagrams go out; the rest goes out
 * afterwards. Method: a session that comes up during a pause; a long message that waits, and an
 * urgent one that does not. Covers: src/core/output.c, src/core/sched.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

enum { LONG = 100000, SHORT = 64, BULK = 7, URGENT = 0 };

static uint64_t start_call(struct core_pair *d, uint8_t class, uint32_t len)
{
	struct lend_core_call call = {.method = 9,
				      .class = class,
				      .deadline = LEND_NEVER,
				      .request = pair_buf(d, 0, len, len, 1),
				      .tag = 5};
	uint64_t handle;

	cr_assert_eq(pair_try(d, 0, &call, &handle), 0);
	return handle;
}

static void open_silently(struct core_pair *d)
{
	pair_open(d, true);
	d->on_end = pair_give_at_end;
	d->on_request = pair_answer;
	lend_core_pause_bulk(d->side[0].core, LEND_NEVER);
	pair_up(d);
	(void)start_call(d, BULK, LONG);
	pair_output(d, 0);
	cr_assert_eq(d->side[0].n, 0, "long ones wait");
	(void)start_call(d, URGENT, SHORT);
	pair_output(d, 0);
	cr_assert_eq(d->side[0].n, 1, "urgent ones do not");
}

static void finish_bulk(struct core_pair *d)
{
	pair_output(d, 0);
	cr_assert_gt(d->side[0].n, 2, "and then all goes");
	pair_settle(d);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], 2);
	pair_close(d);
}

Test(bulk_pause, pause__until_lifted__only_urgent_is_sent)
{
	struct core_pair d;

	open_silently(&d);
	lend_core_pause_bulk(d.side[0].core, 0);
	finish_bulk(&d);
}

Test(bulk_pause, pause__until_its_time__only_urgent_is_sent)
{
	struct core_pair d;

	open_silently(&d);
	lend_core_pause_bulk(d.side[0].core, d.now + 1000);
	d.now += 999;
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].n, 1);
	cr_assert_eq(lend_core_deadline(d.side[0].core), d.now + 1, "it is asked again in time");
	d.now++;
	finish_bulk(&d);
}
