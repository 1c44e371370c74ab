/* Goal: a session has at most twice in flight of long messages what its path carries in a round
 * trip, and a millisecond's worth, and still fills the path; the limit follows a path that becomes
 * slower, faster or longer; a sender that pauses keeps it. Method: a bottleneck with an unlimited
 * queue that reports each datagram, driven by the limit alone, for a table of rates and round
 * trips. Covers: src/core/flight.c */
#include <criterion/criterion.h>

#include "core/flight.h"
#include "rxkit.h"

enum { FLYING = 1 << 15 };

/* A path: datagrams leave it one per `each` ns, and are reported `trip` ns later. */
static struct path {
	lend_ns each, trip, free;
	lend_ns sent[FLYING], due[FLYING];
	uint32_t first, n, most;
	uint32_t lossy; /* one in so many reports a loss, too; 0: none does */
	uint64_t came;
} path;
static struct lend_core *c;
static struct lend_sess *s;

static void open_session(void)
{
	c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
	s = lend_sess_at(c, 0);
	s->number = s->oldest = 1;
	memset(&path, 0, sizeof(path));
}

static void send_one(void)
{
	uint32_t i = (path.first + path.n++) % FLYING;

	path.sent[i] = c->now;
	path.free = lend_max_u64(path.free, c->now) + path.each;
	path.due[i] = path.free + path.trip;
	s->number++;
	lend_flight_sent(c, s, 1);
	path.most = lend_max_u32(path.most, path.n);
}

static void report_one(void)
{
	struct lend_cc_report r = {.now = c->now, .acked = s->oldest, .seen = 1};

	r.rtt = c->now - path.sent[path.first];
	r.lost = path.lossy && path.came % path.lossy == 0;
	path.first = (path.first + 1) % FLYING;
	path.n--;
	path.came++;
	s->oldest++;
	lend_flight_reported(c, s, &r);
}

/* Sends for `time`, at most `window` datagrams at once. Returns what arrived, in percent of what
 * the path carries. */
static double run_path(lend_ns time, uint32_t window)
{
	lend_ns end = c->now + time;
	uint64_t before = path.came;

	path.most = 0;
	while (c->now < end) {
		while (path.n < window && !lend_flight_holds(c, s))
			send_one();
		c->now = path.due[path.first];
		report_one();
	}
	return 100.0 * (double)((path.came - before) * path.each) / (double)time;
}

static uint32_t path_holds(lend_ns time)
{
	return (uint32_t)(time / path.each);
}

static void set_path(lend_ns each, lend_ns trip)
{
	path.each = each;
	path.trip = trip;
}

Test(flight, limit__rates_and_trips__fills_the_path)
{
	static const struct {
		lend_ns each, trip;
	} row[] = {{120000, 20 * LEND_MS}, {120000, LEND_MS},      {1200000, 50 * LEND_MS},
		   {12000, 4 * LEND_MS},   {12000, 50 * LEND_US},  {2400000, LEND_MS},
		   {1200, 20 * LEND_MS},   {120000, 200 * LEND_MS}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		lend_ns trip = row[i].trip + row[i].each;

		open_session();
		set_path(row[i].each, row[i].trip);
		(void)run_path(30 * trip, 12); /* a first window of the receiver */
		(void)run_path(30 * trip, FLYING);
		cr_expect_geq(run_path(40 * trip, FLYING), 95, "row %zu", i);
		cr_expect_leq(path.most, path_holds(2 * trip + LEND_MS) + LEND_FLIGHT_LEAST,
			      "row %zu: %u", i, path.most);
		free(c);
	}
}

Test(flight, limit__no_report_yet__holds_nothing)
{
	open_session();
	s->number = 1 << 20;
	cr_expect_not(lend_flight_holds(c, s));
	free(c);
}

/* The path changes while the sender goes on. */
static void change_path(lend_ns each, lend_ns trip, lend_ns time)
{
	open_session();
	set_path(120000, 10 * LEND_MS);
	(void)run_path(LEND_MS * 1000, 12);
	(void)run_path(LEND_MS * 1000, FLYING);
	set_path(each, trip);
	(void)run_path(time, FLYING);
	cr_expect_geq(run_path(500 * LEND_MS, FLYING), 90);
	cr_expect_leq(path.most, path_holds(2 * (trip + each) + LEND_MS) + LEND_FLIGHT_LEAST, "%u",
		      path.most);
	free(c);
}

Test(flight, limit__path_becomes_slower__shrinks)
{
	change_path(480000, 10 * LEND_MS, 6000 * LEND_MS);
}

Test(flight, limit__path_becomes_faster__grows)
{
	change_path(12000, 10 * LEND_MS, 500 * LEND_MS);
}

Test(flight, limit__path_becomes_longer__finds_the_new_trip)
{
	change_path(120000, 40 * LEND_MS, 2 * LEND_FLIGHT_STALE);
}

Test(flight, limit__path_becomes_shorter__finds_the_new_trip)
{
	change_path(120000, LEND_MS, 2 * LEND_FLIGHT_STALE);
}

/* Returns the limit after losses, in quarters of what the path holds in a round trip. */
static double limit_after_losses(uint32_t lossy)
{
	double quarter = 20 * LEND_MS / 120000 / 4;

	open_session();
	set_path(120000, 20 * LEND_MS);
	(void)run_path(LEND_MS * 1000, 12);
	(void)run_path(LEND_MS * 1000, FLYING);
	path.lossy = lossy;
	(void)run_path(LEND_MS * 200, FLYING);
	quarter = (lend_few_of(c, s)->flight.limit - LEND_MS / 120000) / quarter;
	free(c);
	return quarter;
}

Test(flight, limit__losses_of_a_full_buffer__leaves_the_queue)
{
	cr_expect_float_eq(limit_after_losses(0), 6, 0.4);
	cr_expect_float_eq(limit_after_losses(100), 6, 0.4);
	cr_expect_float_eq(limit_after_losses(10), 5, 0.4);
}

Test(flight, limit__sender_has_little_to_send__stays)
{
	uint32_t before;

	open_session();
	set_path(120000, 10 * LEND_MS);
	(void)run_path(LEND_MS * 1000, 12);
	(void)run_path(LEND_MS * 1000, FLYING);
	before = lend_few_of(c, s)->flight.limit;
	(void)run_path(LEND_MS * 2000, 1);
	cr_expect_geq(2 * lend_few_of(c, s)->flight.limit, before);
	free(c);
}

Test(flight, sent__reports_that_never_come__counts_no_more_than_the_span)
{
	open_session();
	set_path(120000, 10 * LEND_MS);
	(void)run_path(LEND_MS * 1000, 40);
	for (int i = 0; i < 100; i++) {
		s->number++;
		lend_flight_sent(c, s, 1);
	}
	s->oldest = s->number; /* their messages ended */
	s->number++;
	lend_flight_sent(c, s, 1);
	cr_expect_leq(lend_few_of(c, s)->flight.out, 1);
	lend_flight_sent(c, s, -1);
	lend_flight_sent(c, s, -1);
	cr_expect_eq(lend_few_of(c, s)->flight.out, 0);
	free(c);
}

/* Ends the session of a path that was measured, and opens another one to the same peer. Returns
 * whether that one begins with a rate. */
static bool keeps_rate(lend_ns pause)
{
	uint32_t before, limit;

	open_session();
	set_path(120000, 10 * LEND_MS);
	(void)run_path(LEND_MS * 1000, 12);
	(void)run_path(LEND_MS * 1000, FLYING);
	before = lend_few_of(c, s)->flight.limit;
	lend_sess_free(c, s);
	c->now += pause;
	s = lend_sess_open(c, 0, LEND_SESS_UP);
	lend_flight_reported(c, s, &(struct lend_cc_report){.now = c->now, .seen = 1});
	limit = lend_few_of(c, s)->flight.limit;
	free(c);
	cr_assert(limit == UINT32_MAX || (limit >= before && limit <= 2 * before), "%u, %u", limit,
		  before);
	return limit != UINT32_MAX;
}

Test(flight, session__peer_was_measured__begins_with_its_rate_for_10_s)
{
	cr_expect(keeps_rate(LEND_MS));
	cr_expect(keeps_rate(9900 * LEND_MS));
	cr_expect_not(keeps_rate(10100 * LEND_MS));
}
