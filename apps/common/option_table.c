/* option_table - see option_table.h. */
#include "apps/common/option_table.h"

#include <stdio.h>
#include <string.h>

#include "util/check.h"

enum { KEY_FIRST = 0x6000, OPTIONS_MAX = 24 };

struct parse {
	const struct app_syntax *syntax;
	char *args;
};

static void store(const struct app_option *o, void *field, uint64_t value)
{
	if (o->width == sizeof(uint64_t))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
}

static void set(const struct app_option *o, void *field, const char *arg)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "--%s", o->name);
	switch (o->kind) {
	case APP_IS_FLAG:
		*(bool *)field = true;
		break;
	case APP_IS_TEXT:
		*(const char **)field = arg;
		break;
	case APP_IS_TIME:
		store(o, field, app_arg_ns(name, arg));
		break;
	case APP_IS_SIZE:
		store(o, field, app_arg_size(name, arg, o->min, o->max));
		break;
	case APP_IS_NUMBER:
		store(o, field, app_arg_u64(name, arg, o->min, o->max));
		break;
	}
}

/* Sets the first positional argument that has no value yet. */
static error_t take_word(const struct parse *p, const char *arg)
{
	for (const struct app_option *o = p->syntax->option; o->name; o++)
		if (!*o->name && !*(const char **)(void *)(p->args + o->at)) {
			set(o, p->args + o->at, arg);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const struct parse *p = state->input;

	if (key == ARGP_KEY_INIT && p->syntax->child)
		state->child_inputs[0] = p->args + p->syntax->child_at;
	if (key == ARGP_KEY_ARG)
		return take_word(p, arg);
	for (unsigned i = 0; p->syntax->option[i].name; i++) {
		const struct app_option *o = &p->syntax->option[i];

		if (key == (o->key ? o->key : KEY_FIRST + (int)i)) {
			set(o, p->args + o->at, arg);
			return 0;
		}
	}
	return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

void app_options_read(const struct app_syntax *syntax, int argc, char **argv, void *args)
{
	struct argp_option options[OPTIONS_MAX] = {{.name = NULL}};
	const struct argp_child children[] = {{syntax->child, 0, NULL, 0}, {NULL, 0, NULL, 0}};
	struct argp argp = {.parser = parse,
			    .children = syntax->child ? children : NULL,
			    .args_doc = syntax->words,
			    .doc = syntax->doc};
	struct parse p = {syntax, args};
	unsigned n = 0;

	for (unsigned i = 0; syntax->option[i].name; i++) {
		const struct app_option *o = &syntax->option[i];

		LEND_CHECK(n + 1 < OPTIONS_MAX);
		if (*o->name)
			options[n++] =
			    (struct argp_option){.name = o->name,
						 .key = o->key ? o->key : KEY_FIRST + (int)i,
						 .arg = o->value,
						 .flags = o->hidden ? OPTION_HIDDEN : 0,
						 .doc = o->help};
	}
	argp.options = n ? options : NULL; /* argp leaks for a table without entries */
	app_parse(&argp, argc, argv, &p);
}
