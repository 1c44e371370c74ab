/* common/options - see options.h. */
#include "apps/common/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "cli/numa.h"

__attribute__((format(printf, 1, 0))) static void print_line(const char *format, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	app_progress_clear();
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", lend_cli_name(), line);
}

void app_bad(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	exit(LEND_EXIT_USAGE);
}

/* Returns the signal that killed a child of this process, or 0. The child stays a zombie. Waits up
 * to 100 ms, since a dying child's sockets close before waitid() reports it. */
static int signal_of_child(void)
{
	const struct timespec delay = {.tv_nsec = 5000000};
	siginfo_t info = {.si_pid = 0};

	for (int i = 0; i < 20 && info.si_pid == 0; i++) {
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return 0;
		if (info.si_pid == 0)
			nanosleep(&delay, NULL);
	}
	return info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED ? info.si_status : 0;
}

const char *app_why_killed(int signal)
{
	return signal == SIGKILL
		   ? ", as the kernel does when memory runs short: use less of it, or "
		     "raise this cgroup's memory limit"
		   : ": look for a core dump, and run it by itself";
}

void app_die(const char *format, ...)
{
	int signal = signal_of_child();
	va_list args;

	va_start(args, format);
	if (signal)
		app_note("a process that this command started was killed by signal %d%s", signal,
			 app_why_killed(signal));
	else
		print_line(format, args);
	va_end(args);
	exit(APP_EXIT_FAILED);
}

void app_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
}

const char *const app_schedule_names[] = {[LEND_SHORTEST_FIRST] = "shortest",
					  [LEND_EARLIEST_FIRST] = "deadline",
					  [LEND_AS_THEY_COME] = "fifo",
					  [LEND_FAIR_SHARES] = "fair",
					  NULL};

/* Exports a value to the library and to processes that this one starts: --cc as LEND_CC. */
static void export_value(const struct lend_option *o, void *field, char *value)
{
	char name[32] = "LEND_", number[24];

	(void)field;
	for (size_t n = strlen(name), i = 0; o->name[i] && n + 1 < sizeof(name); i++)
		name[n++] = (char)(o->name[i] == '-' ? '_' : toupper(o->name[i]));
	if (o->max) {
		(void)snprintf(number, sizeof(number), "%" PRIu64,
			       lend_cli_size(o->name, value, o->min, o->max));
		value = number;
	}
	if (setenv(name, value, 1) != 0)
		app_die("%s=%s: %s", name, value, strerror(errno));
}

static void take_numa(const struct lend_option *o, void *field, char *value)
{
	lend_numa_take(o, field, value);
	app_cpus_read();
}

/* What all commands take. */
static const struct lend_option common_options[] = {
    OPT_TAKEN("capture", "FILE", export_value,
	      "Write every datagram to a pcapng FILE (further processes: FILE with their id)"),
    OPT_TAKEN("capture-limit", "BYTES", export_value, "Then FILE becomes FILE.1", .min = 65536,
	      .max = UINT64_C(1) << 40),
    OPT_TAKEN("capture-snap", "BYTES", export_value, "Keep the first of each datagram", .min = 1,
	      .max = 1 << 30),
    OPT_TAKEN("cc", "NAME", export_value,
	      "Congestion control: none, timely, swift, dctcp or credit (as LEND_CC)"),
    OPT_TAKEN("keys", "FILE", export_value,
	      "Keys that peers prove, from lend keygen (as LEND_KEYS; default "
	      "~/.config/lend/keys)"),
    OPT_TAKEN("key-log", "FILE", export_value,
	      "Append the secrets of sealed sessions, for lend decap (as LEND_KEY_LOG)"),
    OPT_TAKEN("level", "LEVEL", export_value,
	      "Protection on networks: none, authenticate or encrypt (as LEND_LEVEL; default "
	      "encrypt)"),
    OPT_TAKEN("trace", "SHARE", export_value,
	      "Trace this share of the calls that begin here, 0 to 1 (as LEND_TRACE)"),
    OPT_NUMA(take_numa),
    {.name = NULL}};

void app_options_read(const struct lend_syntax *syntax, int argc, char **argv, void *args)
{
	lend_options_read(syntax, common_options, argc, argv, args);
}

void app_take_carrier(const struct lend_option *o, void *field, char *value)
{
	if (!app_carrier_parse(value, field))
		app_bad("--%s %s: give shm, udp, dpdk:memif, dpdk:ring or an address", o->name,
			value);
}

static const struct lend_option load_options[] = {
    APP_CARRIER(struct app_load_args, carrier,
		"shm (default), udp, dpdk:memif, dpdk:ring, or what to listen at: see "
		"apps/README.md"),
    OPT_TEXT(struct app_load_args, connect, "connect", "ADDR",
	     "Use the server at ADDR (lend serve prints it) instead of starting one"),
    OPT_SIZE(struct app_load_args, size, "size", 0, 1 << 30, "Payload of a request: 64, 4K, 1M ...",
	     .key = 's'),
    OPT_TIME(struct app_load_args, time, "seconds", "How long to measure: 2, 0.5, 500ms",
	     .key = 't'),
    OPT_NUMBER(struct app_load_args, count, "count", 1, UINT64_C(1) << 40,
	       "Number of calls to measure"),
    OPT_NUMBER(struct app_load_args, window, "window", 1, 1024, "Calls in flight per session",
	       .key = 'w'),
    OPT_NUMBER(struct app_load_args, sessions, "sessions", 1, 1024, "Sessions to the server",
	       .key = 'n'),
    OPT_FLAG(struct app_load_args, one_thread, "one-thread",
	     "Both ends in one thread, polled alternately"),
    OPT_FLAG(struct app_load_args, sleep, "sleep", "Ends sleep while they wait instead of polling"),
    OPT_JSON(struct app_load_args, json),
    {.name = NULL}};

static void check_load(void *args)
{
	const struct app_load_args *load = args;

	if (load->connect && !*load->connect)
		app_bad("--connect: no address; give the one that lend serve prints");
}

const struct lend_syntax app_load_syntax = {.option = load_options, .check = check_load};

enum app_carrier app_load_carrier(const struct app_load_args *args)
{
	return args->connect && args->carrier != APP_GIVEN ? app_carrier_of(args->connect)
							   : args->carrier;
}
