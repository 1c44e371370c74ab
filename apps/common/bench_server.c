/* bench_server - see bench_server.h. */
#include "apps/common/bench_server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "lend/stats.h"

enum {
	KEY_EAL = 0x7201,
	KEY_READY_FD,
	KEY_CPU,
	KEY_SPIN,
	KEY_JSON,
	KEY_CALLS,
	KEY_SESSIONS,
	KEY_MESSAGE_MAX,
	KEY_BUDGET,
	KEY_SCHEDULE,
	KEY_WORKERS
};

static const struct argp_option options[] = {
    {"listen", 'l', "ADDR", 0, "Address to serve at: shm:NAME, udp:HOST:PORT, dpdk:...", 0},
    {"eal", KEY_EAL, "ARGS", 0, "DPDK's EAL arguments", 0},
    {"ready-fd", KEY_READY_FD, "FD", OPTION_HIDDEN, "Where the ready line goes", 0},
    {"cpu", KEY_CPU, "N", 0, "Stay on this CPU", 0},
    {"spin", KEY_SPIN, NULL, 0, "Poll all the time instead of sleeping when idle", 0},
    {"json", KEY_JSON, NULL, 0, "Print the counters as JSON at the end and at SIGUSR1", 0},
    {"calls", KEY_CALLS, "N", 0, "Calls in flight per session, at most", 0},
    {"sessions", KEY_SESSIONS, "N", 0, "Sessions, at most", 0},
    {"workers", KEY_WORKERS, "N", 0, "Threads for slow handlers", 0},
    {"message-max", KEY_MESSAGE_MAX, "BYTES", 0, "The longest message", 0},
    {"receive-budget", KEY_BUDGET, "BYTES", 0, "Bytes in flight to this server, at most", 0},
    {"schedule", KEY_SCHEDULE, "HOW", 0, "Order within a priority: shortest, deadline or fifo", 0},
    {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct app_server_args *args = state->input;

	switch (key) {
	case 'l':
		if (!arg[strspn(arg, ", ")])
			app_bad("--listen %s: no address; give shm:NAME or udp:HOST:PORT", arg);
		args->listen = arg;
		return 0;
	case KEY_EAL:
		args->eal = arg;
		return 0;
	case KEY_READY_FD:
		args->ready_fd = (int)app_arg_u64("--ready-fd", arg, 0, 1 << 20);
		return 0;
	case KEY_CPU:
		args->cpu =
		    strcmp(arg, "-1") ? (int)app_arg_u64("--cpu", arg, 0, 1023) : APP_ANY_CPU;
		return 0;
	case KEY_SPIN:
		return app_arg_flag(&args->spin);
	case KEY_JSON:
		return app_arg_flag(&args->json);
	case KEY_CALLS:
		args->calls = (uint32_t)app_arg_u64("--calls", arg, 0, 1024);
		return 0;
	case KEY_SESSIONS:
		args->sessions = (uint32_t)app_arg_u64("--sessions", arg, 0, 1 << 20);
		return 0;
	case KEY_MESSAGE_MAX:
		args->message_max = app_arg_size("--message-max", arg, 0, 1 << 30);
		return 0;
	case KEY_BUDGET:
		args->receive_budget = app_arg_size("--receive-budget", arg, 0, UINT64_C(1) << 40);
		return 0;
	case KEY_WORKERS:
		args->workers = (uint32_t)app_arg_u64("--workers", arg, 1, 256);
		return 0;
	case KEY_SCHEDULE:
		args->schedule = app_arg_schedule("--schedule", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp app_server_argp = {.options = options, .parser = parse_option};

void app_bench_serves(const char *address, enum lend_status status)
{
	if (status == LEND_UNIMPLEMENTED)
		app_die("%s: the server there is no benchmark server; start one with lend serve "
			"--listen %s, and give --connect what it prints",
			address, strncmp(address, "shm:", 4) ? "udp:0.0.0.0:31850" : "shm:bench");
}

/* State that the signal handler accesses; there is one server per process. */
static struct lend_ep *volatile running;
static volatile sig_atomic_t stopping, asked;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		stopping = 1;
	if (running)
		lend_stop(running);
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
		if (server->args.json)
			print_counters(server);
		else
			print_bytes(server);
	}
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
