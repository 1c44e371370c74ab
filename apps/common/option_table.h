/* option_table - a command's options as a table of the fields that they set.
 *
 *	static const struct app_option options[] = {
 *	    APP_WORD(struct args, file),
 *	    APP_TIME(struct args, ttl, "ttl", "How long it can be read"),
 *	    APP_FLAG(struct args, json, "json", "One JSON object on one line"),
 *	    {.name = NULL}};
 *	static const struct app_syntax syntax = {.option = options, .words = "FILE", .doc = doc};
 *
 *	app_options_read(&syntax, argc, argv, &args);
 *
 * Layer: apps. Threads: the main one. Texts live as long as argv. */
#ifndef APPS_COMMON_OPTION_TABLE_H
#define APPS_COMMON_OPTION_TABLE_H

#include <argp.h>
#include <stddef.h>

#include "apps/common/options.h"

enum app_option_kind {
	APP_IS_FLAG,
	APP_IS_TEXT,
	APP_IS_TIME,
	APP_IS_SIZE,
	APP_IS_NUMBER,
	APP_IS_CHOICE,
	APP_IS_CARRIER,
	APP_IS_TAKEN
};

struct app_option {
	const char *name; /* without dashes; "": a positional argument, in the order of the table */
	enum app_option_kind kind;
	bool hidden;
	char key; /* letter of the short option; 0: none */
	size_t at, width;
	uint64_t min, max;        /* limits of sizes and numbers; min: the first choice */
	const char *const *names; /* of choices, in the order of their enum; ends with NULL */
	void (*take)(void *args, char *value); /* app_bad() for a value that makes no sense */
	const char *value, *help;
};

#define APP_OPTION(TYPE, FIELD, ...)                                                               \
	{                                                                                          \
		.at = offsetof(TYPE, FIELD), .width = sizeof(((TYPE *)0)->FIELD), __VA_ARGS__      \
	}
/* Fields: const char * (word, text), bool (flag), lend_ns (time), uint64_t or uint32_t (size,
 * number), an enum (choice, carrier). */
#define APP_WORD(TYPE, FIELD)                                                                      \
	APP_OPTION(TYPE, FIELD, .name = "", .kind = APP_IS_TEXT, .hidden = true)
#define APP_TEXT(TYPE, FIELD, NAME, VALUE, HELP)                                                   \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_TEXT, .value = VALUE, .help = HELP)
/* An old spelling of another option or word. */
#define APP_ALIAS(TYPE, FIELD, NAME)                                                               \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_TEXT, .value = "", .hidden = true)
#define APP_FLAG(TYPE, FIELD, NAME, HELP)                                                          \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_FLAG, .help = HELP)
#define APP_TIME(TYPE, FIELD, NAME, HELP)                                                          \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_TIME, .value = "TIME", .help = HELP)
#define APP_SIZE(TYPE, FIELD, NAME, MIN, MAX, HELP)                                                \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_SIZE, .min = MIN, .max = MAX,         \
		   .value = "BYTES", .help = HELP)
#define APP_NUMBER(TYPE, FIELD, NAME, MIN, MAX, HELP)                                              \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_NUMBER, .min = MIN, .max = MAX,       \
		   .value = "N", .help = HELP)
#define APP_CHOICE(TYPE, FIELD, NAME, VALUE, NAMES, HELP)                                          \
	APP_OPTION(TYPE, FIELD, .name = NAME, .kind = APP_IS_CHOICE, .names = NAMES,               \
		   .value = VALUE, .help = HELP)
#define APP_CARRIER(TYPE, FIELD, HELP)                                                             \
	APP_OPTION(TYPE, FIELD, .name = "carrier", .key = 'c', .kind = APP_IS_CARRIER,             \
		   .value = "C", .help = HELP)
/* Options and positional arguments (NAME "") that a function stores; VALUE NULL: without a value.
 */
#define APP_TAKEN(NAME, VALUE, TAKE, HELP)                                                         \
	{                                                                                          \
		.name = NAME, .kind = APP_IS_TAKEN, .value = VALUE, .take = TAKE, .help = HELP     \
	}
#define APP_JSON(TYPE, FIELD) APP_FLAG(TYPE, FIELD, "json", "One JSON object on one line")

struct app_syntax {
	const struct app_option *option; /* ends with a NULL name; NULL: none */
	const struct app_syntax *child;  /* further options, for the field at child_at; or NULL */
	size_t child_at;
	const char *some;          /* names of the last child's options that there are; NULL: all */
	void (*check)(void *args); /* app_bad() for fields that do not fit together; or NULL */
	const char *words, *doc;   /* argp's args_doc and doc */
};

/* Parses a command line into the fields of args, which hold their defaults, and then checks them,
 * children first. Further options are those of all commands: --help, --capture, --cc, --keys.
 * app_bad() with one line when the command line makes no sense. */
void app_options_read(const struct app_syntax *syntax, int argc, char **argv, void *args);

#endif
