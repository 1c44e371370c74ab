/* bench_server - see bench_server.h. */
#include "apps/common/bench_server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "lend/carrier.h"
#include "lend/stats.h"

static void take_cpu(const struct lend_option *option, void *args, char *value)
{
	((struct app_server_args *)args)->cpu =
	    strcmp(value, "-1") ? (int)lend_cli_u64(option->name, value, 0, 1023) : APP_ANY_CPU;
}

static const struct lend_option options[] = {
    OPT_TEXT(struct app_server_args, listen, "listen", "ADDR",
	     "Address to serve at: shm:NAME, udp:HOST:PORT, dpdk:...", .key = 'l'),
    OPT_TEXT(struct app_server_args, eal, "eal", "ARGS", "DPDK's EAL arguments"),
    OPT_NUMBER(struct app_server_args, ready_fd, "ready-fd", 0, 1 << 20, NULL, .hidden = true),
    OPT_TAKEN("cpu", "N", take_cpu, "Stay on this CPU"),
    OPT_FLAG(struct app_server_args, spin, "spin",
	     "Poll all the time instead of sleeping when idle"),
    OPT_FLAG(struct app_server_args, json, "json",
	     "Print the counters as JSON at the end and at SIGUSR1"),
    OPT_NUMBER(struct app_server_args, calls, "calls", 0, 1024,
	       "Calls in flight per session, at most"),
    OPT_NUMBER(struct app_server_args, sessions, "sessions", 0, 1 << 20, "Sessions, at most"),
    OPT_NUMBER(struct app_server_args, workers, "workers", 1, 256, "Threads for slow handlers"),
    OPT_NUMBER(struct app_server_args, drain, "drain", 0, 3600,
	       "Seconds for calls in progress at the first signal; a second one ends them"),
    OPT_SIZE(struct app_server_args, message_max, "message-max", 0, 1 << 30, "The longest message"),
    OPT_SIZE(struct app_server_args, receive_budget, "receive-budget", 0, UINT64_C(1) << 40,
	     "Bytes in flight to this server, at most"),
    OPT_CHOICE(struct app_server_args, schedule, "schedule", "HOW", app_schedule_names,
	       "Order within a priority: shortest, deadline or fifo"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct app_server_args *args = input;

	if (args->listen && !args->listen[strspn(args->listen, ", ")])
		app_bad("--listen %s: no address; give shm:NAME or udp:HOST:PORT", args->listen);
}

const struct lend_syntax app_server_syntax = {.option = options, .check = check_args};

void app_bench_serves(const char *address, enum lend_status status)
{
	if (status == LEND_UNIMPLEMENTED)
		app_die("%s: the server there is no benchmark server; start one with lend serve "
			"--listen %s, and give --connect what it prints",
			address,
			lend_carrier_traits(address) & LEND_CARRIER_NAMES ? "shm:bench"
									  : "udp:0.0.0.0:31850");
}

/* State that the signal handler accesses; there is one server per process. */
static struct lend_ep *volatile running;
static volatile sig_atomic_t stopping, asked; /* stopping: number of signals */

static void on_signal(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		stopping++;
	if (running)
		lend_stop(running);
}

/* Returns whether peers prove a key at one of the addresses. */
static bool demands_keys(const char *listen)
{
	for (; listen; listen = strchr(listen, ',') ? strchr(listen, ',') + 1 : NULL) {
		const char *level = lend_carrier_level(listen);

		if (level && strcmp(level, "none") != 0)
			return true;
	}
	return false;
}

void app_server_open(struct app_server *server, const struct app_server_args *args,
		     const struct lend_config *config)
{
	struct lend_config mine = LEND_CONFIG_INIT;
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (config)
		mine = *config;
	mine.listen = args->listen;
	mine.eal = args->eal;
	if (args->calls)
		mine.calls = args->calls;
	if (args->sessions)
		mine.sessions = args->sessions;
	if (args->workers)
		mine.workers = args->workers;
	if (args->message_max)
		mine.message_max = args->message_max;
	if (args->receive_budget)
		mine.receive_budget = args->receive_budget;
	mine.schedule = args->schedule ? args->schedule : mine.schedule;
	server->args = *args;
	server->closing = NULL;
	server->counting = NULL;
	if (demands_keys(args->listen))
		(void)lend_reload_keys_on_hangup("lend");
	if (lend_open(&mine, &server->ep) < 0)
		app_die("%s", lend_why());
	app_pin(args->cpu);
	running = server->ep;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

static void print_ready(const struct app_server *server)
{
	char address[256] = "";
	int fd = server->args.ready_fd < 0 ? STDOUT_FILENO : server->args.ready_fd;

	if (server->args.listen && lend_address(server->ep, address, sizeof(address)) < 0)
		app_die("%s", lend_why());
	if (dprintf(fd, "ready %s\n", address) < 0)
		app_die("cannot report that it is ready: %s; give an open --ready-fd",
			strerror(errno));
}

static void print_bytes(const struct app_server *server)
{
	struct lend_stats stats;
	int fd = server->args.ready_fd < 0 ? STDOUT_FILENO : server->args.ready_fd;

	lend_stats_get(server->ep, &stats);
	if (dprintf(fd, "bytes %" PRIu64 " %" PRIu64 "\n", stats.tx_bytes, stats.rx_bytes) < 0)
		stopping = 1; /* the reader closed the pipe */
}

static void print_counters(const struct app_server *server)
{
	struct app_report report;
	const char *name, *meaning;
	uint64_t value;

	app_report_begin(&report, true, NULL);
	for (unsigned i = 0; lend_stats_each(server->ep, i, &name, &meaning, &value); i++)
		app_report_int(&report, name, value, meaning);
	app_report_end(&report);
}

int app_server_run(struct app_server *server)
{
	int rc = 0;

	print_ready(server);
	while (!stopping && rc >= 0) {
		if (server->args.spin)
			rc = lend_poll(server->ep);
		else
			rc = lend_run(server->ep, LEND_NEVER);
		if (!asked)
			continue;
		asked = 0;
		if (server->counting)
			server->counting(server->arg);
		if (server->args.json)
			print_counters(server);
		else
			print_bytes(server);
	}
	while (rc >= 0 && stopping < 2 && server->args.drain &&
	       lend_drain(server->ep, server->args.drain * UINT64_C(1000000000)) == -EINTR)
		continue;
	running = NULL;
	if (server->closing)
		server->closing(server->arg);
	if (rc < 0)
		app_note("%s", lend_why());
	if (server->args.json)
		print_counters(server);
	lend_close(server->ep);
	return rc < 0 ? APP_EXIT_FAILED : APP_EXIT_OK;
}
