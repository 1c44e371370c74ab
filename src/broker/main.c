/* main - lend-broker, the broker as a daemon. Layer: broker. Threads: one. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/broker.h"
#include "cli/numa.h"
#include "cli/option_table.h"
#include "sys/clock.h"
#include "sys/last_error.h"

#define SPIN_NS UINT64_C(50000) /* about a round trip; then it sleeps */

struct args {
	struct lend_broker_config config;
	bool spin, json;
};

static volatile sig_atomic_t leaving;

static void stop_broker(int signal_number)
{
	(void)signal_number;
	leaving = 1;
}

static const struct lend_option options[] = {
    OPT_TEXT(struct args, config.name, "name", "NAME", "Processes find it as broker:NAME",
	     .key = 'n'),
    OPT_TEXT(struct args, config.device, "device", "ADDR",
	     "The device: udp:HOST:0, dpdk:KIND@IP:0, verbs:DEV@IP:0, ...", .key = 'd'),
    OPT_TEXT(struct args, config.eal, "eal", "ARGS", "DPDK's EAL arguments", .key = 'e'),
    OPT_NUMBER(struct args, config.spares, "spares", 1, LEND_BROKER_SPARES,
	       "Carriers kept open for the processes that attach next (1)"),
    OPT_NUMA(lend_numa_take),
    OPT_FLAG(struct args, spin, "spin", "Poll all the time instead of sleeping when idle",
	     .key = 's'),
    OPT_FLAG(struct args, json, "json", "Print the counters as JSON at the end", .key = 'j'),
    {.name = NULL}};

static const char doc[] =
    "Opens a network device for other processes of the same user. They attach in a fraction of a "
    "millisecond, without starting DPDK's EAL themselves.\v"
    "Addresses name it: listen at broker:NAME, connect to broker:NAME/ADDRESS with an "
    "ADDRESS of the device's.\n\n"
    "  lend-broker --name nic --device dpdk:net_af_packet0@10.0.0.2:0 --eal '--no-huge ...'\n"
    "  lend-broker --name rdma --device verbs:mlx5_0@10.0.0.2:0 --spares 8\n"
    "  lend serve --listen broker:nic\n"
    "  lend bench lat --connect broker:nic/dpdk:net_af_packet0@10.0.0.3:7001";

static void run_broker(struct lend_broker *h, bool spin)
{
	lend_ns moved = lend_clock_now();

	while (!leaving) {
		lend_ns now;

		if (lend_broker_turn(h) > 0) {
			moved = lend_clock_now();
			continue;
		}
		now = spin ? moved : lend_clock_now();
		if (now - moved > SPIN_NS)
			lend_broker_wait(h);
	}
}

static void print_stats(const struct lend_broker *h)
{
	struct lend_broker_stats stats;
	const char *mark = "{";

	lend_broker_stats(h, &stats);
#define X(name, text)                                                                              \
	printf("%s\"" #name "\":%" PRIu64, mark, stats.name);                                      \
	mark = ",";
	LEND_BROKER_STATS(X)
#undef X
	puts("}");
}

int main(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .doc = doc, .version = "lend-broker " LEND_VERSION};
	const struct sigaction end = {.sa_handler = stop_broker};
	struct args args = {.spin = false};
	struct lend_broker *h;

	lend_cli_name_set("lend-broker", "");
	lend_options_read(&syntax, NULL, argc, argv, &args);
	if (!args.config.name || !args.config.device)
		lend_cli_bad("give --name and --device: lend-broker --name nic --device "
			     "udp:127.0.0.1:0");
	lend_numa_follow(args.config.device);
	if (lend_broker_open(&args.config, &h) < 0) {
		fprintf(stderr, "lend-broker: %s\n", lend_why_text());
		return EXIT_FAILURE;
	}
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	printf("ready broker:%s\n", args.config.name);
	fflush(stdout);
	run_broker(h, args.spin);
	if (args.json)
		print_stats(h);
	lend_broker_close(h);
	return EXIT_SUCCESS;
}
