#include "sys/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_HELP = 0x7101, KEY_USAGE, KEY_VERSION };

struct usage {
	const struct argp *whole;
	const char *program, *version;
	void *input;
};

void lend_cli_bad(const char *program, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(LEND_EXIT_USAGE);
}

static void print_help(const struct usage *u, unsigned flags)
{
	static char name[64];

	(void)snprintf(name, sizeof(name), "%s", u->program);
	argp_help(u->whole, stdout, flags, name);
	exit(EXIT_SUCCESS);
}

/* Handles --help, --usage and --version. It is the last parser: no other has accepted an argument
 * that gets here. */
static error_t parse_tail(int key, char *arg, struct argp_state *state)
{
	const struct usage *u = state->input;

	switch (key) {
	case KEY_HELP:
		print_help(u, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK);
		return 0;
	case KEY_USAGE:
		print_help(u, ARGP_HELP_USAGE);
		return 0;
	case KEY_VERSION:
		puts(u->version);
		exit(EXIT_SUCCESS);
	case ARGP_KEY_ARG:
		lend_cli_bad(u->program, "%s: unexpected argument; see %s --help", arg, u->program);
	case ARGP_KEY_ERROR:
		lend_cli_bad(
		    u->program,
		    "%s: unknown option, or its value is missing or not expected; see %s --help",
		    state->next > 0 ? state->argv[state->next - 1] : "", u->program);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_head(int key, char *arg, struct argp_state *state)
{
	struct usage *u = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = u->input;
	state->child_inputs[1] = u;
	return 0;
}

void lend_cli_parse(const struct argp *argp, const char *program, const char *version, int argc,
		    char **argv, void *input)
{
	static const struct argp_option common[] = {
	    {"help", KEY_HELP, NULL, 0, "Give this help", -1},
	    {"usage", KEY_USAGE, NULL, 0, "Give a short usage message", -1},
	    {"version", KEY_VERSION, NULL, 0, "Print its version", -1},
	    {0}};
	static const struct argp tail = {.options = common, .parser = parse_tail};
	const struct argp_child children[] = {{argp, 0, NULL, 0}, {&tail, 0, NULL, 0}, {0}};
	const struct argp whole = {.parser = parse_head, .children = children};
	struct usage u = {&whole, program, version, input};

	if (argp_parse(&whole, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &u))
		lend_cli_bad(program, "these arguments do not fit together; see %s --help",
			     program);
}
