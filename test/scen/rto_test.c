/* Goal: timeouts follow a round trip that has become longer than they are; else every request would
 * be repeated, and a server with a full queue would do all its work twice. Method: calls whose
 * requests wait in the network for a fixed time, after calls that took none. Covers:
 * src/core/client_reply.c, src/core/loss.c */
#include <criterion/criterion.h>

#include "scen/core_pair.h"

enum { MS = 1000000, DELAY = 5 * MS, QUICK = 20, SLOW = 60 };

/* Runs a call whose request waits for the time. Returns how often it is repeated meanwhile. */
static uint64_t run_delayed(struct core_pair *d, lend_ns wait)
{
	struct lend_core *core = d->side[0].core;
	uint64_t before = lend_core_stats(core)->repeats;
	lend_ns end = d->now + wait, next;

	pair_call(d, 0, 0, LEND_NEVER);
	pair_output(d, 0);
	while ((next = lend_core_deadline(core)) < end) {
		d->now = next > d->now ? next : d->now + 1;
		lend_core_tick(core, d->now);
		pair_output(d, 0);
	}
	d->now = end;
	d->side[0].n = 1; /* the repeats come behind the reply; they are dropped here */
	pair_settle(d);
	return lend_core_stats(core)->repeats - before;
}

Test(rto, round_trips_become_longer__timeouts_follow)
{
	struct core_pair d;
	uint64_t first, last = 0;

	pair_start(&d, false, NULL);
	d.on_request = pair_answer;
	for (int i = 0; i < QUICK; i++)
		cr_assert_eq(run_delayed(&d, 1000), 0);
	first = run_delayed(&d, DELAY);
	cr_assert_geq(first, 1, "it is longer than the timeout");
	for (int i = 0; i < SLOW; i++)
		last = run_delayed(&d, DELAY);
	cr_expect_eq(last, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], QUICK + 1 + SLOW);
	pair_pass(&d, 1000 * MS);
	pair_close(&d);
}
