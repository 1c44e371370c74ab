/* Goal: long messages keep the host's own queue short, and the device busy. Method: a core whose
 * carrier reports its queue; how much is handed to it, when the core runs next, and the limit after
 * the device ran dry, never did, or reported nothing sent. Covers: src/core/host_queue.c,
 * src/core/host_queue.h, src/core/output.c */
#include <criterion/criterion.h>

#include "core/host_queue.h"
#include "scen/core_pair.h"

enum { LONG = 1000000, SHORT = 64, CALLS = 4, URGENT = 0, NORMAL = 3, BULK = 7 };
enum { NS_PER_BYTE = 8 }; /* 1 Gb/s */

static void count_bytes(struct lend_core_config *cfg)
{
	cfg->path[0].counts = true;
}

static struct lend_host_queue *queue_of(struct core_pair *d)
{
	return &d->side[0].core->host[0];
}

static void start_call(struct core_pair *d, uint8_t class, uint32_t len)
{
	struct lend_core_call call = {.method = 9,
				      .class = class,
				      .deadline = LEND_NEVER,
				      .request = pair_buf(d, 0, len, len, 1),
				      .tag = 5};
	uint64_t handle;

	cr_assert_eq(pair_try(d, 0, &call, &handle), 0);
}

/* Opens a session over a carrier that counts, on which nothing is lost, and starts long calls. */
static void open_with_bulk(struct core_pair *d)
{
	pair_open_with(d, true, count_bytes);
	d->quiet = true;
	d->on_end = pair_give_at_end;
	d->on_request = pair_answer;
	pair_up(d);
	cr_assert_not(lend_core_host_queue_due(d->side[0].core, 0), "nothing was sent");
	for (int i = 0; i < CALLS; i++)
		start_call(d, BULK, LONG);
	pair_output(d, 0);
}

static void report_queue(struct core_pair *d, lend_ns later, uint64_t bytes)
{
	d->now += later;
	cr_assert(lend_core_host_queue_due(d->side[0].core, 0));
	lend_core_host_queue(d->side[0].core, d->now, 0, bytes);
	lend_core_tick(d->side[0].core, d->now);
	pair_output(d, 0);
}

static void finish_bulk(struct core_pair *d)
{
	for (int i = 0; i < 10000 && d->side[0].count[LEND_EV_CALL_END] < CALLS; i++) {
		if (lend_core_host_queue_due(d->side[0].core, 0))
			report_queue(d, LEND_US, 0);
		pair_settle(d);
		pair_pass(d, 10 * LEND_US);
	}
	pair_pass(d, 100000000);
	pair_close(d);
}

Test(host_queue, bulk__limit_reached__short_messages_overtake_it)
{
	struct core_pair d;
	uint32_t sent, short_sent;

	open_with_bulk(&d);
	sent = d.side[0].n;
	cr_assert_geq(queue_of(&d)->queued, LEND_HOST_START);
	cr_assert_leq(queue_of(&d)->queued, LEND_HOST_START + d.side[0].cfg.path[0].mtu);
	cr_assert_gt(lend_core_stats(d.side[0].core)->host_waits, 0);
	start_call(&d, NORMAL, SHORT);
	start_call(&d, URGENT, SHORT);
	pair_output(&d, 0);
	short_sent = d.side[0].n - sent;
	cr_assert(short_sent == 1 || short_sent == 2, "%u", short_sent);
	cr_assert_leq(lend_core_deadline(d.side[0].core), d.now + LEND_MS, "it looks again");
	report_queue(&d, 1000, LEND_HOST_START);
	cr_assert_eq(d.side[0].n, sent + short_sent, "still full");
	report_queue(&d, LEND_MS, 0);
	cr_assert_gt(d.side[0].n, sent + short_sent, "and now it is not");
	finish_bulk(&d);
}

Test(host_queue, limit__device_ran_dry__doubles_once_per_wait)
{
	struct core_pair d;

	open_with_bulk(&d);
	report_queue(&d, LEND_MS, 0);
	cr_assert_eq(queue_of(&d)->limit, 2 * LEND_HOST_START);
	report_queue(&d, LEND_MS, 0);
	cr_assert_eq(queue_of(&d)->limit, 4 * LEND_HOST_START);
	queue_of(&d)->held = 0; /* nothing waited */
	report_queue(&d, LEND_MS, 0);
	cr_assert_eq(queue_of(&d)->limit, 4 * LEND_HOST_START);
	finish_bulk(&d);
}

Test(host_queue, limit__nothing_reported_for_long__doubles)
{
	struct core_pair d;
	uint64_t queued;

	open_with_bulk(&d);
	queued = queue_of(&d)->queued;
	report_queue(&d, LEND_HOST_STUCK - 1, queued);
	cr_assert_eq(queue_of(&d)->limit, LEND_HOST_START);
	report_queue(&d, LEND_HOST_STUCK, queued);
	cr_assert_eq(queue_of(&d)->limit, 2 * LEND_HOST_START);
	finish_bulk(&d);
}

Test(host_queue, limit__device_never_dry__shrinks_to_the_least)
{
	struct core_pair d;

	open_with_bulk(&d);
	for (int i = 0; i < 300; i++) {
		uint64_t queued = queue_of(&d)->queued;
		lend_ns wait = lend_core_deadline(d.side[0].core);

		wait = wait > d.now ? wait - d.now : 1;
		report_queue(&d, wait, queued - lend_min_u64(queued - 1, wait / NS_PER_BYTE));
		pair_deliver(&d, 0);
		pair_carry(&d, 1);
	}
	cr_assert_eq(queue_of(&d)->limit, LEND_HOST_LEAST, "%llu",
		     (unsigned long long)queue_of(&d)->limit);
	cr_assert_geq(queue_of(&d)->rate, 1000000000 / NS_PER_BYTE * 9 / 10);
	finish_bulk(&d);
}
