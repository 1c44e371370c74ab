/* bw - payload per second with long requests.
 * Layer: apps. Threads: one. */
#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/bench_sweep.h"
#include "apps/common/bench_server.h"

static const char doc[] = "Payload per second, one way: long requests, answered by their CRC32C.\v"
			  "The server reads every byte once to answer; the caller compares with "
			  "the sum of what it sent.\n\n"
			  "  lend bench bw --carrier udp --size 8M\n"
			  "  lend bench bw --carrier shm --size 1M --window 4 --json\n"
			  "  lend bench bw --carrier udp --sweep --seconds 5 --plot bw.svg";

int app_bw(int argc, char **argv)
{
	static struct app_bench bench;
	struct app_sweep_args args = {.load = APP_LOAD_ARGS_INIT, .most = 8 << 20};
	struct app_report report;
	double bits;

	args.load.size = 8 << 20;
	args.load.window = 2;
	app_sweep_args_read(&args, argc, argv, APP_LOAD_ALL, doc);
	if (args.sweep)
		return app_bench_sweep(&args, APP_METHOD_SINK,
				       "bw: requests of each size, answered by their CRC32C",
				       APP_SWEEP_BANDWIDTH);
	app_bench_open(&bench, &args.load, APP_METHOD_SINK);
	app_bench_run(&bench);
	app_bench_close(&bench);
	bits = 8.0 * (double)args.load.size * (double)(bench.load.ended - bench.load.errors);
	app_report_begin(&report, args.load.json, "bw: long requests");
	app_report_num(&report, "gbit_per_s", bits / bench.load.seconds / 1e9, 3,
		       "10^9 bits of payload, one way");
	app_bench_report(&bench, &report);
	app_report_end(&report);
	return bench.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
