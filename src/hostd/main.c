/* main - lend-hostd, the broker as a daemon. Layer: hostd. Threads: one. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "hostd/hostd.h"
#include "sys/clock.h"
#include "sys/cli.h"
#include "sys/last_error.h"

#define SPIN_NS UINT64_C(50000) /* about a round trip; then it sleeps */

struct args {
	struct lend_hostd_config config;
	bool spin, json;
};

static volatile sig_atomic_t leaving;

static void leave(int signal_number)
{
	(void)signal_number;
	leaving = 1;
}

static const struct argp_option options[] = {
    {"name", 'n', "NAME", 0, "Processes find it as hostd:NAME", 0},
    {"device", 'd', "ADDR", 0, "The device: udp:HOST:0, dpdk:KIND@IP:0, ...", 0},
    {"eal", 'e', "ARGS", 0, "DPDK's EAL arguments", 0},
    {"spin", 's', NULL, 0, "Poll all the time instead of sleeping when idle", 0},
    {"json", 'j', NULL, 0, "Print the counters as JSON at the end", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *args = state->input;

	switch (key) {
	case 'n':
		args->config.name = arg;
		return 0;
	case 'd':
		args->config.device = arg;
		return 0;
	case 'e':
		args->config.eal = arg;
		return 0;
	case 's':
		args->spin = true;
		return 0;
	case 'j':
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		lend_usage_bad("lend-hostd", "%s: unexpected argument; the device follows --device",
			       arg);
	case ARGP_KEY_END:
		if (!args->config.name || !args->config.device)
			lend_usage_bad("lend-hostd", "give --name and --device: lend-hostd --name "
						     "nic --device udp:127.0.0.1:0");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char doc[] =
    "Opens a network device for other processes of the same user. They attach in a fraction of a "
    "millisecond, without starting DPDK's EAL themselves.\v"
    "Addresses name it: listen at hostd:NAME, connect to hostd:NAME/ADDRESS with an "
    "ADDRESS of the device's.\n\n"
    "  lend-hostd --name nic --device dpdk:net_af_packet0@10.0.0.2:0 --eal '--no-huge ...'\n"
    "  lend serve --listen hostd:nic\n"
    "  lend bench lat --connect hostd:nic/dpdk:net_af_packet0@10.0.0.3:7001";

static void run(struct lend_hostd *h, bool spin)
{
	lend_ns moved = lend_clock_now();

	while (!leaving) {
		lend_ns now;

		if (lend_hostd_turn(h) > 0) {
			moved = lend_clock_now();
			continue;
		}
		now = spin ? moved : lend_clock_now();
		if (now - moved > SPIN_NS)
			lend_hostd_wait(h);
	}
}

static void tell(const struct lend_hostd *h)
{
	struct lend_hostd_stats stats;
	const char *mark = "{";

	lend_hostd_stats(h, &stats);
#define X(name, text)                                                                              \
	printf("%s\"" #name "\":%" PRIu64, mark, stats.name);                                      \
	mark = ",";
	LEND_HOSTD_STATS(X)
#undef X
	puts("}");
}

int main(int argc, char **argv)
{
	static const struct argp argp = {.options = options, .parser = parse, .doc = doc};
	const struct sigaction end = {.sa_handler = leave};
	struct args args = {.spin = false};
	struct lend_hostd *h;

	lend_usage_parse(&argp, "lend-hostd", "lend-hostd " LEND_VERSION, argc, argv, &args);
	if (lend_hostd_open(&args.config, &h) < 0) {
		fprintf(stderr, "lend-hostd: %s\n", lend_why_text());
		return EXIT_FAILURE;
	}
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	printf("ready hostd:%s\n", args.config.name);
	fflush(stdout);
	run(h, args.spin);
	if (args.json)
		tell(h);
	lend_hostd_close(h);
	return EXIT_SUCCESS;
}
