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

enum { KEY_HELP = 0x7001, KEY_CAPTURE, KEY_CAPTURE_LIMIT, KEY_CAPTURE_SNAP, KEY_KEYS, KEY_CC };

struct parse {
	const struct argp *argp; /* the whole, for --help */
	void *input;
};

/* In the environment it also reaches the processes that this one starts. */
static error_t for_children(const char *name, const char *value)
{
	if (setenv(name, value, 1) != 0)
		app_die("%s=%s: %s", name, value, strerror(errno));
	return 0;
}

static error_t size_for_children(const char *name, uint64_t size)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, size);
	return for_children(name, text);
}

/* Comes last of all parsers: what reaches it was understood by none of them. */
static error_t parse_tail(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;

	switch (key) {
	case KEY_HELP:
		argp_help(parse->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, command);
		exit(APP_EXIT_OK);
	case KEY_CAPTURE:
		return for_children("LEND_CAPTURE", arg);
	case KEY_CAPTURE_LIMIT:
		return size_for_children(
		    "LEND_CAPTURE_LIMIT",
		    app_arg_size("--capture-limit", arg, 65536, UINT64_C(1) << 40));
	case KEY_CAPTURE_SNAP:
		return size_for_children("LEND_CAPTURE_SNAP",
					 app_arg_size("--capture-snap", arg, 1, 1 << 30));
	case KEY_KEYS:
		return for_children("LEND_KEYS", arg);
	case KEY_CC:
		return for_children("LEND_CC", arg);
	case ARGP_KEY_ARG:
		app_bad("%s: unexpected argument; see %s --help", arg, command);
	case ARGP_KEY_ERROR:
		app_bad(
		    "%s: unknown option, or its value is missing or not expected; see %s --help",
		    state->next > 0 ? state->argv[state->next - 1] : "", command);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_head(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = parse->input;
	state->child_inputs[1] = parse;
	return 0;
}

void app_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	static const struct argp_option common[] = {
	    {"capture", KEY_CAPTURE, "FILE", 0,
	     "Write every datagram to a pcapng FILE (further processes: FILE with their id)", -2},
	    {"capture-limit", KEY_CAPTURE_LIMIT, "BYTES", 0, "Then FILE becomes FILE.1", -2},
	    {"capture-snap", KEY_CAPTURE_SNAP, "BYTES", 0, "Keep the first of each datagram", -2},
	    {"cc", KEY_CC, "NAME", 0,
	     "Congestion control: none, timely, swift, dctcp or credit (as LEND_CC)", -2},
	    {"keys", KEY_KEYS, "FILE", 0,
	     "Keys that peers prove, from lend keygen (as LEND_KEYS; default ~/.config/lend/keys)",
	     -2},
	    {"help", KEY_HELP, NULL, 0, "Give this help", -1},
	    {0}};
	static const struct argp tail = {.options = common, .parser = parse_tail};
	const struct argp_child children[] = {{argp, 0, NULL, 0}, {&tail, 0, NULL, 0}, {0}};
	const struct argp whole = {.parser = parse_head, .children = children};
	struct parse parse = {&whole, input};

	if (argp_parse(&whole, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &parse))
		app_bad("these arguments do not fit together; see %s --help", command);
}

error_t app_arg_word(const char **word, const char *arg)
{
	if (*word)
		return ARGP_ERR_UNKNOWN;
	*word = arg;
	return 0;
}

error_t app_arg_flag(bool *flag)
{
	*flag = true;
	return 0;
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

static const char *const schedules[] = {[LEND_SHORTEST_FIRST] = "shortest",
					[LEND_EARLIEST_FIRST] = "deadline",
					[LEND_AS_THEY_COME] = "fifo"};

const char *app_schedule_name(uint32_t schedule)
{
	return schedules[schedule];
}

enum lend_schedule app_arg_schedule(const char *option, const char *text)
{
	for (unsigned i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++)
		if (!strcmp(text, schedules[i]))
			return (enum lend_schedule)i;
	app_bad("%s %s: write shortest, deadline or fifo", option, text);
}

enum { KEY_CONNECT = 0x7101, KEY_COUNT, KEY_ONE_THREAD, KEY_SLEEP, KEY_JSON };

static const struct argp_option load_options[] = {
    {"carrier", 'c', "C", 0,
     "shm (default), udp, dpdk:memif, dpdk:ring, or what to listen at: see apps/README.md", 0},
    {"connect", KEY_CONNECT, "ADDR", 0,
     "Use the server at ADDR (lend serve prints it) instead of starting one", 0},
    {"size", 's', "BYTES", 0, "Payload of a request: 64, 4K, 1M ...", 0},
    {"seconds", 't', "TIME", 0, "How long to measure: 2, 0.5, 500ms", 0},
    {"count", KEY_COUNT, "N", 0, "Number of calls to measure", 0},
    {"window", 'w', "N", 0, "Calls in flight per session", 0},
    {"sessions", 'n', "N", 0, "Sessions to the server", 0},
    {"one-thread", KEY_ONE_THREAD, NULL, 0, "Both ends in one thread, polled alternately", 0},
    {"sleep", KEY_SLEEP, NULL, 0, "Ends sleep while they wait instead of polling", 0},
    {"json", KEY_JSON, NULL, 0, "One JSON object on one line", 0},
    {0}};

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
	struct app_load_args *args = state->input;

	switch (key) {
	case 'c':
		if (!app_carrier_parse(arg, &args->carrier))
			app_bad("--carrier %s: give shm, udp, dpdk:memif, dpdk:ring or an address",
				arg);
		return 0;
	case KEY_CONNECT:
		if (!*arg)
			app_bad("--connect: no address; give the one that lend serve prints");
		args->connect = arg;
		return 0;
	case 's':
		args->size = app_arg_size("--size", arg, 0, 1 << 30);
		return 0;
	case 't':
		args->time = app_arg_ns("--seconds", arg);
		return 0;
	case KEY_COUNT:
		args->count = app_arg_u64("--count", arg, 1, UINT64_C(1) << 40);
		return 0;
	case 'w':
		args->window = (unsigned)app_arg_u64("--window", arg, 1, 1024);
		return 0;
	case 'n':
		args->sessions = (unsigned)app_arg_u64("--sessions", arg, 1, 1024);
		return 0;
	case KEY_ONE_THREAD:
		return app_arg_flag(&args->one_thread);
	case KEY_SLEEP:
		return app_arg_flag(&args->sleep);
	case KEY_JSON:
		return app_arg_flag(&args->json);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

enum app_carrier app_load_carrier(const struct app_load_args *args)
{
	return args->connect && args->carrier != APP_GIVEN ? app_carrier_of(args->connect)
							   : args->carrier;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

const struct argp *app_load_some(const char *names)
{
	static struct argp_option some[sizeof(load_options) / sizeof(load_options[0])];
	static const struct argp argp = {.options = some, .parser = parse_load};
	unsigned n = 0;

	for (const struct argp_option *o = load_options; o->name; o++)
		if (has_word(names, o->name))
			some[n++] = *o;
	return &argp;
}

void app_load_args_read(struct app_load_args *args, int argc, char **argv, const char *names,
			const char *doc)
{
	struct argp argp = *app_load_some(names);

	argp.doc = doc;
	app_parse(&argp, argc, argv, args);
}
