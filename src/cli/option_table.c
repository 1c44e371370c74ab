#include "cli/option_table.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/check.h"

enum { KEY_HELP = 0x5fff, KEY_VERSION, KEY_FIRST, OPTIONS_MAX = 48 };

struct parse {
	const struct argp *argp;
	const struct lend_syntax *syntax;
	void *args;
	unsigned n, shown;
	struct {
		const struct lend_option *option;
		char *args;
	} entry[OPTIONS_MAX];
	struct argp_option option[OPTIONS_MAX + 1]; /* ends with zeros */
};

static void store_value(const struct lend_option *o, void *field, uint64_t value)
{
	if (o->width == sizeof(uint64_t))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
}

/* Returns the number of the choice with that name. */
static unsigned find_choice(const struct lend_option *o, const char *arg)
{
	char names[160] = "";
	unsigned n = 0;

	for (unsigned i = 0; o->names[i]; i++)
		if (!strcmp(arg, o->names[i]))
			return (unsigned)o->min + i;
	for (unsigned i = 0; o->names[i]; i++)
		n += (unsigned)snprintf(names + n, sizeof(names) - n, "%s%s",
					!i                ? ""
					: o->names[i + 1] ? ", "
							  : " or ",
					o->names[i]);
	lend_cli_bad("--%s %s: give %s", o->name, arg, names);
}

void lend_option_set(const struct lend_option *o, void *args, char *arg)
{
	void *field = (char *)args + o->at;

	switch (o->kind) {
	case OPT_IS_FLAG:
		*(bool *)field = true;
		break;
	case OPT_IS_TEXT:
		*(const char **)field = arg;
		break;
	case OPT_IS_TIME:
		store_value(o, field, lend_cli_ns(o->name, arg));
		break;
	case OPT_IS_SIZE:
		store_value(o, field, lend_cli_size(o->name, arg, o->min, o->max));
		break;
	case OPT_IS_NUMBER:
		store_value(o, field, lend_cli_u64(o->name, arg, o->min, o->max));
		break;
	case OPT_IS_CHOICE:
		store_value(o, field, find_choice(o, arg));
		break;
	case OPT_IS_TAKEN:
		o->take(o, field, arg);
		break;
	}
}

/* Sets the first positional argument that has no value yet. */
static void take_word(const struct parse *p, char *arg)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct lend_option *o = p->entry[i].option;
		char *args = p->entry[i].args;

		if (!*o->name && (o->take || !*(const char **)(void *)(args + o->at))) {
			lend_option_set(o, args, arg);
			return;
		}
	}
	lend_cli_bad("%s: unexpected argument; see %s --help", arg, lend_cli_name());
}

static void check_fields(const struct lend_syntax *syntax, char *args)
{
	if (syntax->child)
		check_fields(syntax->child, args + syntax->child_at);
	if (syntax->check)
		syntax->check(args);
}

static int key_of(const struct parse *p, unsigned i)
{
	return p->entry[i].option->key ? p->entry[i].option->key : KEY_FIRST + (int)i;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	const struct parse *p = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		take_word(p, arg);
		return 0;
	case ARGP_KEY_END:
		check_fields(p->syntax, p->args);
		return 0;
	case ARGP_KEY_ERROR:
		lend_cli_bad(
		    "%s: unknown option, or its value is missing or not expected; see %s --help",
		    state->next > 0 ? state->argv[state->next - 1] : "", lend_cli_name());
	case KEY_HELP:
		argp_help(p->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
			  (char *)(uintptr_t)lend_cli_name());
		exit(EXIT_SUCCESS);
	case KEY_VERSION:
		puts(p->syntax->version);
		exit(EXIT_SUCCESS);
	default:
		break;
	}
	for (unsigned i = 0; i < p->n; i++)
		if (key == key_of(p, i)) {
			lend_option_set(p->entry[i].option, p->entry[i].args, arg);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* Adds the options of a table, or those of them in some; argp shows the groups -2 and -1 last. */
static void add_options(struct parse *p, const struct lend_option *o, char *args, const char *some,
			int group)
{
	for (; o && o->name; o++) {
		if (some && !has_word(some, o->name))
			continue;
		LEND_CHECK(p->n < OPTIONS_MAX);
		p->entry[p->n].option = o;
		p->entry[p->n++].args = args;
		if (*o->name)
			p->option[p->shown++] =
			    (struct argp_option){.name = o->name,
						 .key = key_of(p, p->n - 1),
						 .arg = o->value,
						 .flags = o->hidden ? OPTION_HIDDEN : 0,
						 .doc = o->help,
						 .group = group};
	}
}

void lend_options_read(const struct lend_syntax *syntax, const struct lend_option *common, int argc,
		       char **argv, void *args)
{
	struct parse p = {.syntax = syntax, .args = args};
	struct argp argp = {p.option, parse_option, syntax->words, syntax->doc, NULL, NULL, NULL};
	char *at = args;

	p.argp = &argp;
	for (const struct lend_syntax *s = syntax; s; at += s->child_at, s = s->child)
		add_options(&p, s->option, at, s->child ? NULL : syntax->some, 0);
	add_options(&p, common, args, NULL, -2);
	if (syntax->version)
		p.option[p.shown++] =
		    (struct argp_option){"version", KEY_VERSION, NULL, 0, "Print its version", -1};
	p.option[p.shown] = (struct argp_option){"help", KEY_HELP, NULL, 0, "Give this help", -1};
	if (argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &p))
		lend_cli_bad("these arguments do not fit together; see %s --help", lend_cli_name());
}
