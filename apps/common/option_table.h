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

enum app_option_kind { APP_IS_FLAG, APP_IS_TEXT, APP_IS_TIME, APP_IS_SIZE, APP_IS_NUMBER };

struct app_option {
	const char *name; /* without dashes; "": a positional argument, in the order of the table */
	enum app_option_kind kind;
	bool hidden;
	char key; /* letter of the short option; 0: none */
	size_t at, width;
	uint64_t min, max; /* limits of sizes and numbers */
	const char *value, *help;
};

#define APP_OPTION(TYPE, FIELD, ...)                                                               \
	{                                                                                          \
		.at = offsetof(TYPE, FIELD), .width = sizeof(((TYPE *)0)->FIELD), __VA_ARGS__      \
	}
/* Fields: const char * (word, text), bool (flag), lend_ns (time), uint64_t or uint32_t (size,
 * number). */
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
#define APP_JSON(TYPE, FIELD) APP_FLAG(TYPE, FIELD, "json", "One JSON object on one line")

struct app_syntax {
	const struct app_option *option; /* ends with a NULL name */
	const struct argp *child;        /* further options, for the field at child_at; or NULL */
	size_t child_at;
	const char *words, *doc; /* argp's args_doc and doc */
};

/* Parses a command line into the fields of args, which hold their defaults. app_bad() when it makes
 * no sense. */
void app_options_read(const struct app_syntax *syntax, int argc, char **argv, void *args);

#endif
