/* lat - the round trip of one call at a time.
 * Layer: apps. Threads: one, and one more while the distance of the CPUs is measured. */
#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/bench_sweep.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/bench_server.h"

static const char doc[] =
    "Round-trip time of one call, from start to checked reply, with no other call in flight.\v"
    "Times are in microseconds for the whole round trip. The server runs on another CPU unless "
    "--one-thread; the "
    "distance of the two CPUs (line_ns_*, the round trip of a cache "
    "line) is measured before and after, because it changes on virtual machines, and all figures "
    "with it.\n\n"
    "  lend bench lat --carrier shm --size 64 --seconds 2\n"
    "  lend bench lat --carrier udp --connect udp:10.0.0.2:31850 --json\n"
    "  lend bench lat --sweep --size 1M --plot lat.svg";

int app_lat(int argc, char **argv)
{
	static struct app_bench bench;
	struct app_sweep_args args = {.load = APP_LOAD_ARGS_INIT, .most = 8 << 20};
	struct app_report report;
	double before, after;

	app_sweep_args_read(&args, argc, argv,
			    "carrier connect size seconds count one-thread sleep json", doc);
	if (args.sweep)
		return app_bench_sweep(&args, APP_METHOD_ECHO,
				       "lat: round trips of one call at a time, by size",
				       APP_SWEEP_LATENCY);
	before = app_cacheline_ns(app_cpu(0), app_cpu(1));
	app_bench_open(&bench, &args.load, APP_METHOD_ECHO);
	app_bench_run(&bench);
	app_bench_close(&bench);
	after = app_cacheline_ns(app_cpu(0), app_cpu(1));
	app_report_begin(&report, args.load.json, "lat: round trips of one call at a time");
	app_bench_report(&bench, &report);
	app_report_num(&report, "line_ns_before", before, 1, "ns, round trip of a cache line");
	app_report_num(&report, "line_ns_after", after, 1, "ns, after the run");
	app_report_text(&report, "distance_before", app_cacheline_name(before),
			"distance of the two CPUs");
	app_report_text(&report, "distance_after", app_cacheline_name(after),
			"if it differs, the distance changed during the run");
	app_report_end(&report);
	return bench.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
