/* common/options - see options.h. */
#include "apps/common/options.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>

#include "apps/common/option_table.h"
#include "apps/common/report.h"

static char command[64] = "lend";

void app_name_set(const char *program, const char *name)
{
	snprintf(command, sizeof(command), "%s%s", program, name);
}

const char *app_name(void)
{
	return command;
}

__attribute__((format(printf, 1, 0))) static void print_line(const char *format, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	app_progress_clear();
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", command, line);
}

void app_bad(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	exit(APP_EXIT_USAGE);
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

/* Parses a number without a sign; *end is the position behind it. Returns false for anything else.
 */
static bool parse_number(const char *text, double *value, char **end)
{
	if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.')
		return false;
	errno = 0;
	*value = strtod(text, end);
	return !errno && *end != text;
}

uint64_t app_arg_u64(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end = NULL;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || errno || *end || value < min || value > max)
		app_bad("%s %s: give a whole number from %llu to %llu", option, text,
			(unsigned long long)min, (unsigned long long)max);
	return value;
}

uint64_t app_arg_size(const char *option, const char *text, uint64_t min, uint64_t max)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end = NULL;
	double value;
	bool good = parse_number(text, &value, &end);

	if (good && *end && (unit = strchr(units, *end & ~0x20)) && *unit) {
		value *= (double)(UINT64_C(1024) << 10 * (unit - units));
		end++;
		if (!strcasecmp(end, "B") || !strcasecmp(end, "iB"))
			end = strchr(end, 0);
	}
	if (!good || *end || value > (double)max || value < (double)min)
		app_bad("%s %s: give a size from %llu to %llu bytes, such as 64, 4K, 1M or 1G",
			option, text, (unsigned long long)min, (unsigned long long)max);
	return (uint64_t)value;
}

lend_ns app_arg_ns(const char *option, const char *text)
{
	static const struct {
		const char *name;
		double ns;
	} unit[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 6e10}, {"h", 3.6e12}};
	char *end = NULL;
	double value;

	if (parse_number(text, &value, &end))
		for (unsigned i = 0; i < sizeof(unit) / sizeof(unit[0]); i++)
			if (!strcmp(end, unit[i].name) && value * unit[i].ns < 1e18 &&
			    value * unit[i].ns >= 1e3)
				return (lend_ns)(value * unit[i].ns);
	app_bad("%s %s: give a time above zero, such as 0.5 (seconds), 200ms, 10m or 1h", option,
		text);
}

const char *const app_schedule_names[] = {[LEND_SHORTEST_FIRST] = "shortest",
					  [LEND_EARLIEST_FIRST] = "deadline",
					  [LEND_AS_THEY_COME] = "fifo",
					  NULL};

static const struct app_option load_options[] = {
    APP_CARRIER(struct app_load_args, carrier,
		"shm (default), udp, dpdk:memif, dpdk:ring, or what to listen at: see "
		"apps/README.md"),
    APP_TEXT(struct app_load_args, connect, "connect", "ADDR",
	     "Use the server at ADDR (lend serve prints it) instead of starting one"),
    APP_OPTION(struct app_load_args, size, .name = "size", .key = 's', .kind = APP_IS_SIZE,
	       .max = 1 << 30, .value = "BYTES", .help = "Payload of a request: 64, 4K, 1M ..."),
    APP_OPTION(struct app_load_args, time, .name = "seconds", .key = 't', .kind = APP_IS_TIME,
	       .value = "TIME", .help = "How long to measure: 2, 0.5, 500ms"),
    APP_NUMBER(struct app_load_args, count, "count", 1, UINT64_C(1) << 40,
	       "Number of calls to measure"),
    APP_OPTION(struct app_load_args, window, .name = "window", .key = 'w', .kind = APP_IS_NUMBER,
	       .min = 1, .max = 1024, .value = "N", .help = "Calls in flight per session"),
    APP_OPTION(struct app_load_args, sessions, .name = "sessions", .key = 'n',
	       .kind = APP_IS_NUMBER, .min = 1, .max = 1024, .value = "N",
	       .help = "Sessions to the server"),
    APP_FLAG(struct app_load_args, one_thread, "one-thread",
	     "Both ends in one thread, polled alternately"),
    APP_FLAG(struct app_load_args, sleep, "sleep", "Ends sleep while they wait instead of polling"),
    APP_JSON(struct app_load_args, json),
    {.name = NULL}};

static void check_load(void *args)
{
	const struct app_load_args *load = args;

	if (load->connect && !*load->connect)
		app_bad("--connect: no address; give the one that lend serve prints");
}

const struct app_syntax app_load_syntax = {.option = load_options, .check = check_load};

enum app_carrier app_load_carrier(const struct app_load_args *args)
{
	return args->connect && args->carrier != APP_GIVEN ? app_carrier_of(args->connect)
							   : args->carrier;
}

void app_load_args_read(struct app_load_args *args, int argc, char **argv, const char *names,
			const char *doc)
{
	app_options_read(&(struct app_syntax){.child = &app_load_syntax, .some = names, .doc = doc},
			 argc, argv, args);
}
