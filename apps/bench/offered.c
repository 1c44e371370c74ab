/* offered - lend load: latency and losses under an open-loop load, which does not wait for replies.
 * Layer: apps. Threads: one. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/open_loop.h"
#include "apps/common/bench.h"
#include "apps/common/bench_server.h"

enum { RATE_MAX = 100000000, MEASURABLE = 10 };

struct args {
	struct app_load_args load;
	struct app_arrivals arrivals;
	uint64_t rate; /* calls per second */
};

static const struct lend_option options[] = {
    OPT_NUMBER(struct args, rate, "rate", 1, RATE_MAX, "Calls per second offered (100000)"),
    OPT_TIME(struct args, arrivals.deadline, "deadline", "Deadline of each call (100ms)"),
    OPT_NUMBER(struct args, arrivals.seed, "seed", 0, UINT64_MAX,
	       "Seed of the random arrival times (1)"),
    {.name = NULL}};

static const char doc[] =
    "Offers --rate calls per second at random times (Poisson), independent of the replies."
    "\vLatency counts from the time at which a call was due, so a stall delays all calls that were "
    "due meanwhile. A call that is due while --window calls (128) are in flight on each of "
    "--sessions sessions (16) counts as RESOURCE_EXHAUSTED at once. Raise --rate until "
    "completed_per_s stops growing: that is the peak of the server, which lend rate with the same "
    "--sessions and --window shows, too. With --target URL it loads an HTTP service instead: see "
    "lend load --target URL --help.\n\n"
    "  lend bench load --carrier udp --rate 500000\n"
    "  lend bench load --connect udp:10.0.0.2:31850 --rate 2000000 --sessions 64 --json";

/* Returns whether the load goes to an HTTP service. */
static bool has_target(int argc, char **argv)
{
	static const char name[] = "--target";

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], name, sizeof(name) - 1))
			return true;
	return false;
}

static int load_target(int argc, char **argv)
{
	if (!app_load_target)
		app_bad("--target: not in this build; install libhttp-parser-dev and build again");
	return app_load_target(argc, argv);
}

int app_offered(int argc, char **argv)
{
	static struct app_bench bench;
	static struct args args = {.load = APP_LOAD_ARGS_INIT,
				   .arrivals = {.deadline = 100000000, .seed = 1},
				   .rate = 100000};
	const struct lend_syntax syntax = {
	    .option = options,
	    .child = &app_load_syntax,
	    .child_at = offsetof(struct args, load),
	    .some = "carrier connect size seconds window sessions one-thread sleep json",
	    .doc = doc};
	struct app_report report;

	if (has_target(argc, argv))
		return load_target(argc, argv);
	args.load.window = 128;
	args.load.sessions = 16;
	app_options_read(&syntax, argc, argv, &args);
	args.arrivals.time = args.load.time;
	args.arrivals.rate = (double)args.rate;
	if (args.arrivals.rate * (double)args.load.time < MEASURABLE * 1e9)
		app_bad("--rate for --seconds is less than %d calls; raise one of them",
			MEASURABLE);
	app_bench_open(&bench, &args.load, APP_METHOD_ECHO);
	if (app_arrivals_run(&args.arrivals, &bench.load, bench.order, bench.slots) < 0)
		app_die("%s: the server has ended: start it again", app_pair_address(&bench.pair));
	app_bench_close(&bench);
	app_report_begin(&report, args.load.json, "load: calls at random times");
	app_arrivals_report(&args.arrivals, &report);
	app_report_int(&report, "size", args.load.size, "bytes of payload");
	app_report_carrier(&report, bench.pair.net.carrier);
	app_report_end(&report);
	return args.arrivals.errors ? APP_EXIT_FAILED : APP_EXIT_OK;
}
