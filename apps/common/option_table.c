/* option_table - see option_table.h. */
#include "apps/common/option_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/check.h"

enum { KEY_HELP = 0x5fff, KEY_FIRST, OPTIONS_MAX = 40 };

struct parse {
	const struct argp *argp;
	const struct app_syntax *syntax;
	void *args;
	unsigned n, shown;
	struct {
		const struct app_option *option;
		char *args;
	} entry[OPTIONS_MAX];
	struct argp_option option[OPTIONS_MAX + 1]; /* ends with zeros */
};

/* What all commands take. In the environment it also reaches the processes that they start. */
struct common {
	const char *capture, *cc, *keys;
	uint64_t limit, snap;
};
static const struct app_option common_options[] = {
    APP_TEXT(struct common, capture, "capture", "FILE",
	     "Write every datagram to a pcapng FILE (further processes: FILE with their id)"),
    APP_SIZE(struct common, limit, "capture-limit", 65536, UINT64_C(1) << 40,
	     "Then FILE becomes FILE.1"),
    APP_SIZE(struct common, snap, "capture-snap", 1, 1 << 30, "Keep the first of each datagram"),
    APP_TEXT(struct common, cc, "cc", "NAME",
	     "Congestion control: none, timely, swift, dctcp or credit (as LEND_CC)"),
    APP_TEXT(struct common, keys, "keys", "FILE",
	     "Keys that peers prove, from lend keygen (as LEND_KEYS; default "
	     "~/.config/lend/keys)"),
    {.name = NULL}};

static void export_text(const char *name, const char *value)
{
	if (value && setenv(name, value, 1) != 0)
		app_die("%s=%s: %s", name, value, strerror(errno));
}

static void export_common(const struct common *c)
{
	char limit[24], snap[24];

	(void)snprintf(limit, sizeof(limit), "%" PRIu64, c->limit);
	(void)snprintf(snap, sizeof(snap), "%" PRIu64, c->snap);
	export_text("LEND_CAPTURE", c->capture);
	export_text("LEND_CAPTURE_LIMIT", c->limit ? limit : NULL);
	export_text("LEND_CAPTURE_SNAP", c->snap ? snap : NULL);
	export_text("LEND_KEYS", c->keys);
	export_text("LEND_CC", c->cc);
}

static void store(const struct app_option *o, void *field, uint64_t value)
{
	if (o->width == sizeof(uint64_t))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
}

/* Returns the number of the choice with that name. */
static unsigned find_choice(const struct app_option *o, const char *arg)
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
	app_bad("--%s %s: give %s", o->name, arg, names);
}

static enum app_carrier find_carrier(const char *arg)
{
	enum app_carrier carrier;

	if (!app_carrier_parse(arg, &carrier))
		app_bad("--carrier %s: give shm, udp, dpdk:memif, dpdk:ring or an address", arg);
	return carrier;
}

static void set(const struct app_option *o, char *args, char *arg)
{
	void *field = args + o->at;
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
	case APP_IS_CHOICE:
		store(o, field, find_choice(o, arg));
		break;
	case APP_IS_CARRIER:
		store(o, field, find_carrier(arg));
		break;
	case APP_IS_TAKEN:
		o->take(args, arg);
		break;
	}
}

/* Sets the first positional argument that has no value yet. */
static void take_word(const struct parse *p, char *arg)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct app_option *o = p->entry[i].option;
		char *args = p->entry[i].args;

		if (!*o->name && (o->take || !*(const char **)(void *)(args + o->at))) {
			set(o, args, arg);
			return;
		}
	}
	app_bad("%s: unexpected argument; see %s --help", arg, app_name());
}

static void check_fields(const struct app_syntax *syntax, char *args)
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

static error_t parse(int key, char *arg, struct argp_state *state)
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
		app_bad(
		    "%s: unknown option, or its value is missing or not expected; see %s --help",
		    state->next > 0 ? state->argv[state->next - 1] : "", app_name());
	case KEY_HELP:
		argp_help(p->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
			  (char *)(uintptr_t)app_name());
		exit(APP_EXIT_OK);
	default:
		break;
	}
	for (unsigned i = 0; i < p->n; i++)
		if (key == key_of(p, i)) {
			set(p->entry[i].option, p->entry[i].args, arg);
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
static void add_options(struct parse *p, const struct app_option *o, char *args, const char *some,
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

void app_options_read(const struct app_syntax *syntax, int argc, char **argv, void *args)
{
	struct parse p = {.syntax = syntax, .args = args};
	struct argp argp = {p.option, parse, syntax->words, syntax->doc, NULL, NULL, NULL};
	struct common common = {.capture = NULL};
	char *at = args;

	p.argp = &argp;
	for (const struct app_syntax *s = syntax; s; at += s->child_at, s = s->child)
		add_options(&p, s->option, at, s->child ? NULL : syntax->some, 0);
	add_options(&p, common_options, (char *)&common, NULL, -2);
	p.option[p.shown] = (struct argp_option){"help", KEY_HELP, NULL, 0, "Give this help", -1};
	if (argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &p))
		app_bad("these arguments do not fit together; see %s --help", app_name());
	export_common(&common);
}
