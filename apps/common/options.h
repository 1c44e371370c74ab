/* common/options - options that subcommands share, and how subcommands report failure.
 * Layer: apps. Threads: the main one. Texts live as long as argv. */
#ifndef APPS_COMMON_OPTIONS_H
#define APPS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/common/topology.h"
#include "cli/option_table.h"
#include "lend/rpc.h"

/* lend's exit codes: success, failure during the run; LEND_EXIT_USAGE. */
enum { APP_EXIT_OK = 0, APP_EXIT_FAILED = 1 };

/* Prints one line "lend lat: ..." on stderr that names the fix, and exits with 2 (bad input) or 1
 * (failure). Children started by spawn.h end with their parent. When a signal killed one of them,
 * app_die() reports that signal instead of its text: the failure is a consequence of it. */
_Noreturn void app_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void app_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the end of a message about a child that this signal killed: likely cause and fix. */
const char *app_why_killed(int signal);
/* Prints the same line and continues, for what the user should know. */
void app_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names of enum lend_schedule, and NULL. */
extern const char *const app_schedule_names[];

/* The server that a measuring command calls, the shape of its calls, and how long it measures. */
struct app_load_args {
	enum app_carrier carrier;
	const char *connect; /* NULL: starts a server process */
	uint64_t size;       /* bytes of a request's payload */
	lend_ns time;
	uint64_t count;    /* number of calls, without a time limit; 0: measures for time */
	unsigned window;   /* calls in flight per session */
	unsigned sessions; /* number of sessions to one server */
	bool one_thread;   /* both ends in this thread */
	bool sleep;        /* waiting ends sleep instead of polling */
	bool json;
};
#define APP_LOAD_ARGS_INIT                                                                         \
	{                                                                                          \
		.carrier = APP_SHM, .size = 64, .time = 2000000000ull, .window = 1, .sessions = 1  \
	}
#define APP_LOAD_ALL "carrier connect size seconds count window sessions one-thread sleep json"
/* Returns the carrier to the server: the given one, or that of --connect's address. */
enum app_carrier app_load_carrier(const struct app_load_args *args);
extern const struct lend_syntax app_load_syntax;
#define APP_CARRIER(TYPE, FIELD, HELP)                                                             \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = "carrier", .key = 'c', .kind = OPT_IS_TAKEN,       \
					.take = app_take_carrier, .value = "C", .help = HELP       \
	}
#define APP_WORKERS(TYPE, FIELD)                                                                   \
	OPT_NUMBER(TYPE, FIELD, "workers", 1, 64, "Threads of the memory node (1)")
void app_take_carrier(const struct lend_option *option, void *field, char *value);
/* Parses a command line, in which the options of all commands may be: --capture, --cc, --keys. */
void app_options_read(const struct lend_syntax *syntax, int argc, char **argv, void *args);

#endif
