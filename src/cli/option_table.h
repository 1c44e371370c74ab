/* option_table - a program's options as a table of the fields that they set.
 *
 *	static const struct lend_option options[] = {
 *	    OPT_WORD(struct args, file),
 *	    OPT_TIME(struct args, ttl, "ttl", "How long it can be read", .key = 't'),
 *	    OPT_FLAG(struct args, json, "json", "One JSON object on one line"),
 *	    {.name = NULL}};
 *	static const struct lend_syntax syntax = {.option = options, .words = "FILE", .doc = doc};
 *
 *	lend_options_read(&syntax, NULL, argc, argv, &args);
 *
 * Layer: cli. Threads: the main one. Texts live as long as argv. */
#ifndef LEND_CLI_OPTION_TABLE_H
#define LEND_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

enum lend_option_kind {
	OPT_IS_FLAG,
	OPT_IS_TEXT,
	OPT_IS_TIME,
	OPT_IS_SIZE,
	OPT_IS_NUMBER,
	OPT_IS_CHOICE,
	OPT_IS_TAKEN
};

struct lend_option {
	const char *name; /* without dashes; "": a positional argument, in the order of the table */
	enum lend_option_kind kind;
	bool hidden;
	char key; /* letter of the short option; 0: none */
	size_t at, width;
	uint64_t min, max;        /* limits of sizes and numbers; min: the first choice */
	const char *const *names; /* a choice: its names in the order of the enum, then NULL */
	/* Stores a value in the field; lend_cli_bad() for one that makes no sense. */
	void (*take)(const struct lend_option *option, void *field, char *value);
	const char *value, *help;
};

#define OPT_FIELD(TYPE, FIELD) .at = offsetof(TYPE, FIELD), .width = sizeof(((TYPE *)0)->FIELD)
/* Fields: const char * (word, text), bool (flag), lend_ns (time), uint64_t or uint32_t (size,
 * number), an enum (choice). Members of struct lend_option may follow the help text. */
#define OPT_WORD(TYPE, FIELD)                                                                      \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = "", .kind = OPT_IS_TEXT, .hidden = true            \
	}
/* An old spelling of another option or word. */
#define OPT_ALIAS(TYPE, FIELD, NAME) OPT_TEXT(TYPE, FIELD, NAME, "", NULL, .hidden = true)
#define OPT_FLAG(TYPE, FIELD, NAME, ...)                                                           \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = NAME, .kind = OPT_IS_FLAG, .help = __VA_ARGS__     \
	}
#define OPT_VALUE(TYPE, FIELD, KIND, NAME, VALUE, ...)                                             \
	{                                                                                          \
		OPT_FIELD(TYPE, FIELD), .name = NAME, .kind = OPT_IS_##KIND, .value = VALUE,       \
					.help = __VA_ARGS__                                        \
	}
#define OPT_TEXT(TYPE, FIELD, NAME, VALUE, ...)                                                    \
	OPT_VALUE(TYPE, FIELD, TEXT, NAME, VALUE, __VA_ARGS__)
#define OPT_TIME(TYPE, FIELD, NAME, ...) OPT_VALUE(TYPE, FIELD, TIME, NAME, "TIME", __VA_ARGS__)
#define OPT_SIZE(TYPE, FIELD, NAME, MIN, MAX, ...)                                                 \
	OPT_VALUE(TYPE, FIELD, SIZE, NAME, "BYTES", __VA_ARGS__, .min = MIN, .max = MAX)
#define OPT_NUMBER(TYPE, FIELD, NAME, MIN, MAX, ...)                                               \
	OPT_VALUE(TYPE, FIELD, NUMBER, NAME, "N", __VA_ARGS__, .min = MIN, .max = MAX)
/* 0, if a field has the size of an enum; else it does not compile. */
#define OPT_IS_ENUM(TYPE, FIELD)                                                                   \
	(0 * sizeof(char[sizeof(((TYPE *)0)->FIELD) == sizeof(enum lend_option_kind) ? 1 : -1]))
#define OPT_CHOICE(TYPE, FIELD, NAME, VALUE, NAMES, ...)                                           \
	OPT_VALUE(TYPE, FIELD, CHOICE, NAME, VALUE, __VA_ARGS__,                                   \
		  .names = (NAMES) + OPT_IS_ENUM(TYPE, FIELD))
/* Options and positional arguments (NAME "") that a function stores; VALUE NULL: without a value.
 * Without a field, it gets all arguments. */
#define OPT_TAKEN(NAME, VALUE, TAKE, ...)                                                          \
	{                                                                                          \
		.name = NAME, .kind = OPT_IS_TAKEN, .value = VALUE, .take = TAKE,                  \
		.help = __VA_ARGS__                                                                \
	}
#define OPT_JSON(TYPE, FIELD) OPT_FLAG(TYPE, FIELD, "json", "One JSON object on one line")

struct lend_syntax {
	const struct lend_option *option; /* ends with a NULL name; NULL: none */
	const struct lend_syntax *child;  /* further options, for the field at child_at; or NULL */
	size_t child_at;
	const char *some;          /* names of the last child's options that there are; NULL: all */
	void (*check)(void *args); /* lend_cli_bad() for fields that do not fit together; or NULL */
	const char *words, *doc;   /* argp's args_doc and doc */
	const char *version;       /* what --version prints; NULL: no such option */
};

/* Parses a command line into the fields of args, which hold their defaults, and then checks them,
 * children first. common: functions that take options of all commands, shown last; or NULL.
 * lend_cli_bad() with one line when the command line makes no sense. Exits after --help. */
void lend_options_read(const struct lend_syntax *syntax, const struct lend_option *common, int argc,
		       char **argv, void *args);
/* Sets the field of one option in args. value: ignored for a flag. */
void lend_option_set(const struct lend_option *option, void *args, char *value);

#endif
