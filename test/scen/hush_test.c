/* Goal: while the runtime asks for silence only what is urgent and what is no call goes out, and
 * everything afterwards. Method: a session that comes up in silence; a long message that waits, and
 * an urgent one that does not. */
#include <criterion/criterion.h>

#include "duo.h"
#include "util/bits.h"

enum { LONG = 100000, SHORT = 64, BULK = 7, URGENT = 0 };

static uint64_t start(struct duo *d, uint8_t class, uint32_t len)
{
	struct lend_core_call call = {.method = 9,
				      .class = class,
				      .deadline = LEND_NEVER,
				      .request = duo_buf(d, 0, len, len, 1),
				      .tag = 5};
	uint64_t handle;

	cr_assert_eq(duo_try(d, 0, &call, &handle), 0);
	return handle;
}

static void open_silently(struct duo *d)
{
	duo_open(d, true);
	d->on_end = duo_give_at_end;
	d->on_request = duo_answer;
	lend_core_hush(d->side[0].core, LEND_NEVER);
	duo_up(d);
	(void)start(d, BULK, LONG);
	duo_output(d, 0);
	cr_assert_eq(d->side[0].n, 0, "long ones wait");
	(void)start(d, URGENT, SHORT);
	duo_output(d, 0);
	cr_assert_eq(d->side[0].n, 1, "urgent ones do not");
}

static void finish(struct duo *d)
{
	duo_output(d, 0);
	cr_assert_gt(d->side[0].n, 2, "and then all goes");
	duo_settle(d);
	cr_assert_eq(d->side[0].count[LEND_EV_CALL_END], 2);
	duo_close(d);
}

Test(hush, what_is_urgent_goes_alone_until_it_is_lifted)
{
	struct duo d;

	open_silently(&d);
	lend_core_hush(d.side[0].core, 0);
	finish(&d);
}

Test(hush, what_is_urgent_goes_alone_until_its_time)
{
	struct duo d;

	open_silently(&d);
	lend_core_hush(d.side[0].core, d.now + 1000);
	d.now += 999;
	duo_output(&d, 0);
	cr_assert_eq(d.side[0].n, 1);
	cr_assert_eq(lend_core_deadline(d.side[0].core), d.now + 1, "it is asked again in time");
	d.now++;
	finish(&d);
}
