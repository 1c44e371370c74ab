/* connect - how long it takes to make a session on an endpoint that is open, and how many can be
 * made per second.
 *
 * What is done once per peer, and not per session, is reported apart: an endpoint is opened and the
 * carrier meets the peer. Sessions end as soon as they are up, and the next begins when the end is
 * told. Layer: apps. Threads: one. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/memory.h"
#include "apps/common/server.h"

enum { WINDOW = 32, WINDOW_MAX = 128, ATTACHES = 20, PART = 3 };

/* What is timed one at a time. */
struct connects {
	struct app_bench bench;
	const char *address;
	struct lend_hist attach; /* endpoint opened, peer met, first reply */
	struct lend_hist up;     /* lend_connect() until the watch hears of it */
	struct lend_hist call;   /* lend_connect() until the reply of a call that waited for it */
	unsigned in_flight, most;
	lend_ns until;
	uint64_t made, failed;
	double seconds, cpu_seconds;
};

static void turn(struct connects *c)
{
	lend_poll(c->bench.ep);
	if (c->bench.other)
		lend_poll(c->bench.other);
}

static lend_session start(struct connects *c)
{
	lend_session session;

	if (lend_connect(c->bench.ep, c->address, &session) < 0)
		app_die("%s", lend_why());
	c->in_flight++;
	return session;
}

/* Up: that was all of it. Down: the next. */
static void watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	struct connects *c = arg;

	(void)incarnation;
	if (up) {
		c->made++;
		if (c->until)
			lend_disconnect(c->bench.ep, session);
		return;
	}
	c->in_flight--;
}

static void end(struct connects *c, lend_session session)
{
	lend_disconnect(c->bench.ep, session);
	while (c->in_flight)
		turn(c);
}

static void one_session(struct connects *c)
{
	uint64_t made = c->made, began = app_ticks();
	lend_session session = start(c);

	while (c->made == made && c->in_flight)
		turn(c);
	lend_hist_add(&c->up, (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
	end(c, session);
}

static void count(struct lend_call *call)
{
	call->done = NULL;
}

static void one_call(struct connects *c)
{
	struct lend_call call = {.method = APP_METHOD_ECHO, .done = count};
	uint64_t began = app_ticks();
	lend_session session = start(c);

	if (lend_call_start(c->bench.ep, session, &call) < 0)
		app_die("%s", lend_why());
	while (call.done)
		turn(c);
	lend_hist_add(&c->call, (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
	c->failed += call.status != LEND_OK;
	if (call.reply)
		lend_buf_give(c->bench.ep, call.reply);
	end(c, session);
}

/* Many at once, each ended as soon as it is up. */
static void many(struct connects *c, lend_ns time)
{
	lend_ns began = app_now(), cpu = app_cpu_now();
	uint64_t made = c->made;

	c->until = began + time;
	while (app_now() < c->until) {
		while (c->in_flight < c->most)
			(void)start(c);
		turn(c);
	}
	c->seconds = (double)(app_now() - began) / 1e9;
	c->cpu_seconds = (double)(app_cpu_now() - cpu) / 1e9;
	made = c->made - made;
	while (c->in_flight)
		turn(c);
	c->until = 0;
	c->made = made;
}

/* Endpoints of their own, so that the carrier meets the peer anew. */
static void attach_once(struct connects *c)
{
	struct lend_call call = {.method = APP_METHOD_ECHO, .done = count};
	struct lend_config config = LEND_CONFIG_INIT;
	lend_ns began = app_now();
	lend_session session;
	struct lend_ep *ep;

	if (lend_open(&config, &ep) < 0 || lend_connect(ep, c->address, &session) < 0 ||
	    lend_call_start(ep, session, &call) < 0)
		app_die("%s", lend_why());
	while (call.done) {
		lend_poll(ep);
		if (c->bench.other)
			lend_poll(c->bench.other);
	}
	lend_hist_add(&c->attach, app_now() - began);
	c->failed += call.status != LEND_OK;
	lend_close(ep);
}

static void measure(struct connects *c)
{
	const struct app_load_args *args = &c->bench.args;
	lend_ns until;

	lend_hist_init(&c->attach);
	lend_hist_init(&c->up);
	lend_hist_init(&c->call);
	if (args->carrier == APP_SHM || args->carrier == APP_UDP)
		for (int i = 0; i < ATTACHES; i++)
			attach_once(c);
	if (lend_watch_sessions(c->bench.ep, watch, c) < 0)
		app_die("%s", lend_why());
	for (until = app_now() + args->time / PART; app_now() < until;)
		one_session(c);
	for (until = app_now() + args->time / PART; app_now() < until;)
		one_call(c);
	many(c, args->time / PART);
	(void)lend_watch_sessions(c->bench.ep, NULL, NULL);
}

static void report(const struct connects *c)
{
	const struct app_load_args *args = &c->bench.args;
	struct app_report r;

	app_report_begin(&r, args->json, "connect: sessions made on an endpoint that is open");
	app_report_text(&r, "carrier", app_carrier_name(args->carrier), "");
	app_report_num(&r, "connect_p50_us", app_hist_us(&c->up, 0.5), 2,
		       "us, from lend_connect() until it is up");
	app_report_num(&r, "connect_p99_us", app_hist_us(&c->up, 0.99), 2, "us");
	app_report_num(&r, "first_reply_p50_us", app_hist_us(&c->call, 0.5), 2,
		       "us, from lend_connect() to the reply of a call that waited for it");
	app_report_num(&r, "first_reply_p99_us", app_hist_us(&c->call, 0.99), 2, "us");
	app_report_num(&r, "connects_per_s", (double)c->made / c->seconds, 0,
		       "made, and ended, per second");
	app_report_num(&r, "connects_per_cpu_s", (double)c->made / c->cpu_seconds, 0,
		       "the same per second of this thread's CPU time");
	app_report_int(&r, "in_flight", c->most, "being made at once");
	if (c->attach.count)
		app_report_num(&r, "attach_p50_us", app_hist_us(&c->attach, 0.5), 1,
			       "us, once per peer: endpoint, carrier, session, first reply");
	app_report_int(&r, "errors", c->failed, "calls that failed");
	app_report_end(&r);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static const char doc[] =
    "How long a session takes to be made on an endpoint that is open and has met its peer, and how "
    "many are made per second.\v"
    "A third of the time each: one session at a time; one session and a call on it; --window "
    "sessions at a time (32), each ended as soon as it is up. With --one-thread both ends are one "
    "core's work. attach_p50_us is what is paid once per peer.\n\n"
    "  lend connect\n"
    "  lend connect --carrier dpdk-ring --one-thread --json\n"
    "  lend connect --connect udp:10.0.0.2:31850 --seconds 6";

int app_connect(int argc, char **argv)
{
	static const struct argp_child children[] = {{&app_load_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {.parser = parse, .children = children, .doc = doc};
	struct app_load_args args = APP_LOAD_ARGS_INIT;
	static struct connects c;

	args.window = WINDOW;
	app_parse(&argp, argc, argv, &args);
	if (args.window > WINDOW_MAX)
		app_bad("--window %u: %d sessions at once at most", args.window, WINDOW_MAX);
	c.most = args.window;
	args.window = args.sessions = 1;
	app_bench_open(&c.bench, &args, APP_METHOD_ECHO);
	c.address = app_net_address(&c.bench.net, c.bench.me, c.bench.server);
	measure(&c);
	report(&c);
	app_bench_close(&c.bench);
	return c.failed ? APP_EXIT_FAILED : APP_EXIT_OK;
}
