/* rate - calls per second with many in flight.
 * Layer: apps. Threads: one, and one more while the distance of the CPUs is measured; --threads. */
#include "apps/bench/rate_threads.h"
#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/bench_sweep.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/bench_server.h"

static const char doc[] =
    "Calls per second with a window of calls in flight on each of several sessions.\v"
    "--window counts per session, so 32 and 4 sessions keep 128 calls in flight. cycles_per_call "
    "is the time of the calling core; with --one-thread it covers both ends and varies least. "
    "--threads measures 1, 2, 4 ... N threads, each with a client and a server of its own.\n\n"
    "  lend bench rate --carrier shm --window 32 --sessions 4\n"
    "  lend bench rate --carrier dpdk:ring --one-thread --json\n"
    "  lend bench rate --carrier udp --sweep --size 64K --plot rate.svg\n"
    "  lend bench rate --threads 2 --carrier udp\n"
    "  lend bench rate --threads 2 --carrier 'dpdk:net_af_packet%p@10.0.0.%p:0?queues=2 --no-huge "
    "-m 192 --no-pci --vdev=net_af_packet1,iface=veth1,qpairs=2 "
    "--vdev=net_af_packet2,iface=veth2,qpairs=2'";

struct rate_args {
	struct app_sweep_args sweep;
	unsigned threads; /* 0: without --threads */
};

static void check_args(void *input)
{
	const struct rate_args *args = input;
	const struct app_load_args *load = &args->sweep.load;

	if (args->threads && load->connect)
		app_bad("--threads --connect: each thread has a server of its own; give one of "
			"them");
	if (args->threads && !app_carrier_scales(load->carrier))
		app_bad("--threads: the endpoints of a process share this carrier's one queue: "
			"give a device with ?queues=N, or --carrier shm, udp, dpdk:memif or "
			"dpdk:ring");
	if (args->threads && load->sleep)
		app_bad("--threads --sleep: a thread that polls both its ends cannot sleep: give "
			"one of them");
	if (args->threads && args->sweep.sweep)
		app_bad("--threads --sweep: give one of them");
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct rate_args, threads, "threads", 1, APP_RATE_THREADS_MAX,
	       "Scaling: threads with a client and a server each"),
    {.name = NULL}};

int app_rate(int argc, char **argv)
{
	static struct app_bench bench;
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_sweep_syntax,
						  .child_at = offsetof(struct rate_args, sweep),
						  .some = APP_LOAD_ALL,
						  .check = check_args,
						  .doc = doc};
	struct rate_args read = {.sweep = {.load = APP_LOAD_ARGS_INIT, .most = 64 << 10}};
	struct app_load_args args;
	struct app_report report;
	double line;

	read.sweep.load.window = 32;
	app_sweep_read(&syntax, argc, argv, &read, &read.sweep);
	if (read.sweep.sweep)
		return app_bench_sweep(&read.sweep, APP_METHOD_ECHO,
				       "rate: calls with a window in flight, by size",
				       APP_SWEEP_RATE);
	args = read.sweep.load;
	if (read.threads)
		return app_rate_threads(&args, read.threads);
	line = app_cacheline_ns(app_cpu(0), app_cpu(1));
	app_bench_open(&bench, &args, APP_METHOD_ECHO);
	app_bench_run(&bench);
	app_bench_close(&bench);
	app_report_begin(&report, args.json, "rate: calls with a window in flight");
	app_bench_report(&bench, &report);
	app_report_num(&report, "line_ns_before", line, 1, "ns, round trip of a cache line");
	app_report_text(&report, "distance_before", app_cacheline_name(line),
			"distance of the two CPUs");
	app_report_end(&report);
	return bench.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
