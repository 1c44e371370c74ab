/* connect - the time to open a session on an open endpoint, and how many sessions can be opened per
 * second.
 *
 * The cost per peer is reported separately from the cost per session: opening an endpoint, and the
 * carrier's first contact with the peer. A session ends as soon as it is up; the next one starts
 * when its end is reported. Layer: apps. Threads: one. */
#include <string.h>

#include "apps/bench/burst.h"
#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/bench_server.h"
#include "lend/carrier.h"
#include "lend/stats.h"

enum { WINDOW = 32, WINDOW_MAX = 128, ATTACHES = 20, PART = 4 };
enum {
	ZERO_RTT_MAX = 20000
}; /* the server's record of 0-RTT calls is bounded; calls beyond it wait for their session */

struct connects {
	struct app_bench bench;  /* its own session is not counted */
	unsigned window;         /* sessions opened at the same time */
	struct lend_hist attach; /* from opening the endpoint to the first reply, with the first
				    contact to the peer */
	struct lend_hist up;     /* lend_connect() until the session watch reports that it is up */
	/* From lend_connect() until the reply of the first call: [0] of a call that waits for the
	 * session, [1] of a 0-RTT call. sent: the datagrams that this end had sent by then, hence
	 * its round trips. */
	struct lend_hist call[2];
	uint64_t sent[2];
	bool churns;          /* each session ends as soon as it is up */
	unsigned under_way;   /* started and not ended */
	uint64_t begun, made; /* made: sessions that came up */
	uint64_t failed_calls;
	double per_s, per_cpu_s; /* sessions opened during churn_sessions() */
};

static uint64_t ns_since(uint64_t ticks)
{
	return (uint64_t)((double)(app_ticks() - ticks) / app_ticks_per_ns());
}

static lend_session open_session(struct connects *c)
{
	lend_session session;

	if (lend_connect(c->bench.pair.ep, app_pair_address(&c->bench.pair), &session) < 0)
		app_die("%s", lend_why());
	c->under_way++;
	c->begun++;
	return session;
}

static void watch_session(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	struct connects *c = arg;

	(void)incarnation;
	if (session.id == c->bench.session[0].id)
		return;
	c->made += up;
	c->under_way -= !up;
	if (up && c->churns)
		lend_disconnect(c->bench.pair.ep, session);
}

/* Polls until all sessions that were started have ended; the caller has ended them. */
static void await_ends(struct connects *c)
{
	while (c->under_way)
		app_pair_poll(&c->bench.pair);
}

static void end_session(struct connects *c, lend_session session)
{
	lend_disconnect(c->bench.pair.ep, session);
	await_ends(c);
}

static void one_session(struct connects *c)
{
	uint64_t made = c->made, began = app_ticks();
	lend_session session = open_session(c);

	while (c->made == made && c->under_way)
		app_pair_poll(&c->bench.pair);
	if (c->made > made)
		lend_hist_add(&c->up, ns_since(began));
	end_session(c, session);
}

static void call_done(struct lend_call *call)
{
	call->done = NULL;
}

/* Makes a call without payload that waits for its session, or with early a 0-RTT call. Returns
 * whether it succeeded. Polls the server's end too, which may be in this thread. */
static bool call_once(struct connects *c, struct lend_ep *ep, lend_session session, bool zero_rtt)
{
	struct lend_call call = {
	    .method = APP_METHOD_ECHO, .zero_rtt = zero_rtt, .done = call_done};

	if (lend_call_start(ep, session, &call) < 0)
		app_die("%s", lend_why());
	while (call.done) {
		app_pair_poll(&c->bench.pair);
		if (ep != c->bench.pair.ep && lend_poll(ep) < 0)
			app_die("%s", lend_why());
	}
	c->failed_calls += call.status != LEND_OK;
	lend_buf_give(ep, call.reply);
	return call.status == LEND_OK;
}

/* Returns the datagrams that a session has sent. */
static uint64_t sent_in(struct connects *c, lend_session session)
{
	struct lend_session_stats stats;

	for (unsigned i = 0; (i = lend_stats_session(c->bench.pair.ep, i, &stats)) > 0;)
		if (stats.session.id == session.id)
			return stats.tx;
	return 0;
}

static void one_call(struct connects *c, bool zero_rtt)
{
	uint64_t began = app_ticks();
	lend_session session = open_session(c);

	if (call_once(c, c->bench.pair.ep, session, zero_rtt)) {
		lend_hist_add(&c->call[zero_rtt], ns_since(began));
		c->sent[zero_rtt] += sent_in(c, session);
	}
	end_session(c, session);
}

/* Opens sessions for time, window at once, and ends each as soon as it is up. */
static void churn_sessions(struct connects *c, lend_ns time)
{
	lend_ns began = app_now(), cpu = app_cpu_now();
	uint64_t made = c->made;

	c->churns = true;
	while (app_now() < began + time) {
		while (c->under_way < c->window)
			(void)open_session(c);
		app_pair_poll(&c->bench.pair);
	}
	c->per_s = (double)(c->made - made) * 1e9 / (double)(app_now() - began);
	c->per_cpu_s = (double)(c->made - made) * 1e9 / (double)(app_cpu_now() - cpu);
	await_ends(c);
	c->churns = false;
}

/* Connects from a new endpoint, so that the carrier contacts the peer for the first time again. */
static void attach_once(struct connects *c)
{
	struct lend_config config = LEND_CONFIG_INIT;
	uint64_t began = app_ticks();
	lend_session session;
	struct lend_ep *ep;

	if (lend_open(&config, &ep) < 0 ||
	    lend_connect(ep, app_pair_address(&c->bench.pair), &session) < 0)
		app_die("%s", lend_why());
	if (call_once(c, ep, session, false))
		lend_hist_add(&c->attach, ns_since(began));
	lend_close(ep);
}

static void measure_connects(struct connects *c)
{
	lend_ns until, part = c->bench.args.time / PART;

	lend_hist_init(&c->attach);
	lend_hist_init(&c->up);
	lend_hist_init(&c->call[0]);
	lend_hist_init(&c->call[1]);
	/* A device of DPDK's belongs to the process, so the endpoint that is open has it. */
	if (!(lend_carrier_traits(app_pair_address(&c->bench.pair)) & LEND_CARRIER_ONE_DEVICE))
		for (int i = 0; i < ATTACHES; i++)
			attach_once(c);
	if (lend_watch_sessions(c->bench.pair.ep, watch_session, c) < 0)
		app_die("%s", lend_why());
	for (until = app_now() + part; app_now() < until;)
		one_session(c);
	for (until = app_now() + part; app_now() < until;)
		one_call(c, false);
	for (until = app_now() + part; app_now() < until && c->call[1].count < ZERO_RTT_MAX;)
		one_call(c, true);
	churn_sessions(c, part);
	(void)lend_watch_sessions(c->bench.pair.ep, NULL, NULL);
}

static uint64_t count_failures(const struct connects *c)
{
	return c->begun - c->made + c->failed_calls;
}

static void report_call(struct app_report *r, const struct connects *c, bool zero_rtt,
			const char *const key[3], const char *what)
{
	const struct lend_hist *h = &c->call[zero_rtt];

	app_report_num(r, key[0], app_hist_us(h, 0.5), 2, what);
	app_report_num(r, key[1], app_hist_us(h, 0.99), 2, "us");
	app_report_num(r, key[2], h->count ? (double)c->sent[zero_rtt] / (double)h->count : 0, 2,
		       "round trips: datagrams sent by then");
}

static void write_report(const struct connects *c)
{
	static const char *const waited[] = {"first_reply_p50_us", "first_reply_p99_us",
					     "first_reply_trips"};
	static const char *const went[] = {"zero_rtt_reply_p50_us", "zero_rtt_reply_p99_us",
					   "zero_rtt_reply_trips"};
	struct app_report r;

	app_report_begin(&r, c->bench.args.json,
			 "connect: sessions made on an endpoint that is open");
	app_report_carrier(&r, c->bench.pair.net.carrier);
	app_report_num(&r, "connect_p50_us", app_hist_us(&c->up, 0.5), 2,
		       "us, from lend_connect() until it is up");
	app_report_num(&r, "connect_p99_us", app_hist_us(&c->up, 0.99), 2, "us");
	report_call(&r, c, false, waited,
		    "us, from lend_connect() to the reply of a call that waited for it");
	report_call(&r, c, true, went,
		    "us, the same for a call that is sent with the CONNECT (0-RTT)");
	app_report_num(&r, "connects_per_s", c->per_s, 0, "sessions opened and closed per second");
	app_report_num(&r, "connects_per_cpu_s", c->per_cpu_s, 0,
		       "the same per second of this thread's CPU time");
	app_report_int(&r, "in_flight", c->window, "sessions in handshake at once");
	if (c->attach.count)
		app_report_num(&r, "attach_p50_us", app_hist_us(&c->attach, 0.5), 1,
			       "us, once per peer: from opening an endpoint to the first reply");
	app_report_int(&r, "errors", count_failures(c),
		       "sessions that did not come up, and failed calls");
	app_report_end(&r);
}

static const char doc[] =
    "How long a session takes to open on an endpoint that is attached to its peer, and how many "
    "open per second.\v"
    "A quarter of the time each: one session at a time; one session and a call that waits for it; "
    "one session and a call that is sent with the first datagram (0-RTT); --window sessions "
    "at a time (32), each closed as soon as it is up. With --one-thread both ends run on one core. "
    "attach_p50_us is the cost of a new peer.\n\n"
    "With --burst, each of --processes processes opens N sessions at once, with one call in each: "
    "how many came up, how many calls failed, and the time until the last call ended, 30 s at "
    "most. The server that it starts has room for all of them.\n\n"
    "  lend bench connect\n"
    "  lend bench connect --burst 10000 --carrier udp --json\n"
    "  lend bench connect --carrier dpdk:ring --one-thread --json\n"
    "  lend bench connect --connect udp:10.0.0.2:31850 --seconds 6";

struct args {
	struct app_load_args load;
	unsigned burst, processes; /* 0: not given; the same holds for load.time and load.window */
};

static const struct lend_option options[] = {
    OPT_NUMBER(struct args, burst, "burst", 1, 100000,
	       "Open N sessions at once, and measure until all are up"),
    OPT_NUMBER(struct args, processes, "processes", 1, APP_PROCS_MAX - 1,
	       "With --burst: in each of N processes (1)"),
    {.name = NULL}};

static int run_burst(const struct args *args)
{
	if (args->load.one_thread || args->load.carrier == APP_DPDK_RING)
		app_bad("--burst: clients are processes of their own; give another carrier, and no "
			"--one-thread");
	if (args->load.time || args->load.window)
		app_bad("--burst ends with its last call; leave out --seconds and --window");
	return app_burst(&args->load, args->burst, args->processes ? args->processes : 1);
}

int app_connect(int argc, char **argv)
{
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_load_syntax,
					   .child_at = offsetof(struct args, load),
					   .some = "carrier connect seconds window one-thread json",
					   .doc = doc};
	const struct app_load_args usual = APP_LOAD_ARGS_INIT;
	struct args args = {.load = APP_LOAD_ARGS_INIT};
	static struct connects c;

	args.load.time = args.load.window = 0;
	app_options_read(&syntax, argc, argv, &args);
	if (args.burst)
		return run_burst(&args);
	if (args.processes)
		app_bad("--processes is for --burst; give both or none");
	if (args.load.window > WINDOW_MAX)
		app_bad("--window %u: %d sessions at once at most", args.load.window, WINDOW_MAX);
	c.window = args.load.window ? args.load.window : WINDOW;
	args.load.window = 1;
	args.load.time = args.load.time ? args.load.time : usual.time;
	app_bench_open(&c.bench, &args.load, APP_METHOD_ECHO);
	measure_connects(&c);
	write_report(&c);
	app_bench_close(&c.bench);
	return count_failures(&c) ? APP_EXIT_FAILED : APP_EXIT_OK;
}
