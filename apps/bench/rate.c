/* rate - calls per second with many in flight.
 * Layer: apps. Threads: one, and one more while the distance of the CPUs is measured. */
#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/bench_sweep.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/bench_server.h"

static const char doc[] =
    "Calls per second with a window of calls in flight on each of several sessions.\v"
    "--window counts per session, so 32 and 4 sessions keep 128 calls in flight. cycles_per_call "
    "is the time of the calling core; with --one-thread it covers both ends and varies least.\n\n"
    "  lend bench rate --carrier shm --window 32 --sessions 4\n"
    "  lend bench rate --carrier dpdk:ring --one-thread --json\n"
    "  lend bench rate --carrier udp --sweep --size 64K --plot rate.svg";

int app_rate(int argc, char **argv)
{
	static struct app_bench bench;
	struct app_sweep_args args = {.load = APP_LOAD_ARGS_INIT, .most = 64 << 10};
	struct app_report report;
	double line;

	args.load.window = 32;
	app_sweep_args_read(&args, argc, argv, APP_LOAD_ALL, doc);
	if (args.sweep)
		return app_bench_sweep(&args, APP_METHOD_ECHO,
				       "rate: calls with a window in flight, by size",
				       APP_SWEEP_RATE);
	line = app_cacheline_ns(app_cpu(0), app_cpu(1));
	app_bench_open(&bench, &args.load, APP_METHOD_ECHO);
	app_bench_run(&bench);
	app_bench_close(&bench);
	app_report_begin(&report, args.load.json, "rate: calls with a window in flight");
	app_bench_report(&bench, &report);
	app_report_num(&report, "line_ns_before", line, 1, "ns, round trip of a cache line");
	app_report_text(&report, "distance_before", app_cacheline_name(line),
			"distance of the two CPUs");
	app_report_end(&report);
	return bench.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
