/* common/options - what the command lines of all subcommands have in common, and how they fail.
 * Layer: apps. Threads: the main one. Texts live as long as argv. */
#ifndef APPS_COMMON_OPTIONS_H
#define APPS_COMMON_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "apps/common/topology.h"
#include "lend/rpc.h"

/* How lend ends: done, failed on the way, or asked for something that makes no sense. */
enum { APP_EXIT_OK = 0, APP_EXIT_FAILED = 1, APP_EXIT_USAGE = 2 };

/* One subcommand; main.c holds the table of them. */
struct app_command {
	const char *name;
	const char *summary; /* one line for lend --help; NULL: hidden */
	int (*run)(int argc, char **argv);
};

/* What stands in front of every message: "lend " "lat", or "peer-" "ucx". */
void app_name_set(const char *program, const char *name);
const char *app_name(void);

/* Prints one line "lend lat: ..." on stderr that names the fix, and exits with 2 (bad input) or 1
 * (failure). Children started by spawn.h end with their parent. When a signal killed one of them,
 * app_die() reports that signal instead of its text: the failure is a consequence of it. */
_Noreturn void app_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void app_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the end of a message about a child that this signal killed: likely cause and fix. */
const char *app_why_killed(int signal);
/* The same line without exit, for what the user should know. */
void app_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* argp_parse with --help, and one line for whatever it does not understand. Parsers refuse values
 * by app_bad() and surplus arguments by ARGP_ERR_UNKNOWN. */
void app_parse(const struct argp *argp, int argc, char **argv, void *input);

/* What a parser returns for the one word that a command takes beside its options (ARGP_KEY_ARG),
 * and for an option without a value. */
error_t app_arg_word(const char **word, const char *arg);
error_t app_arg_flag(bool *flag);

/* Values, or app_bad() naming the option, the text and the range. Sizes: 64, 4K, 1M, 1G (powers of
 * 1024). Durations: 2 (seconds), 0.5, 200ms, 10m, 1h. */
uint64_t app_arg_u64(const char *option, const char *text, uint64_t min, uint64_t max);
uint64_t app_arg_size(const char *option, const char *text, uint64_t min, uint64_t max);
lend_ns app_arg_ns(const char *option, const char *text);
/* shortest, deadline, fifo; and back. */
enum lend_schedule app_arg_schedule(const char *option, const char *text);
const char *app_schedule_name(uint32_t schedule);

/* How a measuring command talks, to whom and for how long. */
struct app_load_args {
	enum app_carrier carrier;
	const char *connect; /* NULL: starts a server of its own */
	uint64_t size;       /* bytes of a request's payload */
	lend_ns time;
	uint64_t count;    /* how many calls, however long; 0: for that time */
	unsigned window;   /* calls in flight per session */
	unsigned sessions; /* to one server */
	bool one_thread;   /* both ends in this thread */
	bool sleep;        /* waiting ends sleep instead of polling */
	bool json;
};
#define APP_LOAD_ARGS_INIT                                                                         \
	{                                                                                          \
		.carrier = APP_SHM, .size = 64, .time = 2000000000ull, .window = 1, .sessions = 1  \
	}
#define APP_LOAD_ALL "carrier connect size seconds count window sessions one-thread sleep json"
/* What reaches the server: the carrier given, or that of --connect's address. */
enum app_carrier app_load_carrier(const struct app_load_args *args);
/* A child parser with those of them that are named, with blanks between: one such set in a process,
 * valid for good. input: struct app_load_args. */
const struct argp *app_load_some(const char *names);
/* The whole command line of a command that has some of them and no others; doc is argp's. */
void app_load_args_read(struct app_load_args *args, int argc, char **argv, const char *names,
			const char *doc);

#endif
