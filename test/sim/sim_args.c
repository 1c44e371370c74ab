#include "sim/sim_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cc.h"
#include "sim/net/net_state.h"

static bool parse_number(const struct option *o, const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text && !*end && !errno && *out >= !o->zero && *out <= o->max;
}

/* Splits a list at its commas; each item goes to take. */
static bool parse_words(const char *text, struct option_list *list, const struct option *o,
			bool (*take)(const struct option *, const char *, uint64_t *))
{
	char copy[512], *at = copy, *word;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	for (list->n = 0; (word = strsep(&at, ",")); list->n++)
		if (list->n == OPTION_LIST || !take(o, word, &list->value[list->n]))
			return false;
	return true;
}

static bool parse_algorithm(const struct option *o, const char *word, uint64_t *out)
{
	(void)o;
	*out = lend_cc_named(word);
	return *out < LEND_CC_KINDS;
}

static bool set_value(const struct option *o, const char *value)
{
	if (o->word)
		*o->word = value;
	else if (o->list)
		return parse_words(value, o->list, o, parse_number);
	else
		return parse_number(o, value, o->number);
	return true;
}

static bool find_option(const struct option *known, uint32_t n, const char *name, const char *value,
			bool *fits)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(name, known[i].name) == 0) {
			*fits = set_value(&known[i], value);
			return true;
		}
	return false;
}

static bool takes_value(struct options_common *c, const struct option *known, uint32_t n,
			const char *name, const char *value)
{
	uint64_t gbps = c->net.mbps / 1000;
	const struct option common[] = {
	    {"--plot", NULL, 0, NULL, &c->plot, false},
	    {"--gbps", &gbps, 800, NULL, NULL, false},
	    {"--delay-ns", &c->net.delay_ns, 100000000, NULL, NULL, false},
	    {"--buffer-kb", &c->net.buffer_kb, 1 << 20, NULL, NULL, false},
	    {"--mark-kb", &c->net.mark_kb, 1 << 20, NULL, NULL, true},
	    {"--queues", &c->net.queues, NET_QUEUES, NULL, NULL, false},
	    {"--share", &c->net.share, 1 << 10, NULL, NULL, true},
	    {"--seed", &c->net.seed, UINT64_MAX, NULL, NULL, false},
	};
	bool fits = false;

	if (strcmp(name, "--cc") == 0)
		return parse_words(value, &c->cc, NULL, parse_algorithm);
	if (!find_option(known, n, name, value, &fits))
		find_option(common, sizeof(common) / sizeof(common[0]), name, value, &fits);
	c->net.mbps = gbps * 1000;
	return fits;
}

void options_default(struct options_common *c, uint64_t delay_ns)
{
	c->net = sim_plan_calm();
	c->net.delay_ns = delay_ns;
	c->net.share = 8;
	c->net.queues = NET_QUEUES;
	c->net.mark_kb = 96;
	c->net.checked = 1; /* saves a fifth of the time */
	for (c->cc.n = 0; c->cc.n < LEND_CC_KINDS; c->cc.n++)
		c->cc.value[c->cc.n] = c->cc.n;
}

static bool parse_options(struct options_common *c, const struct option *known, uint32_t n,
			  int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--csv") == 0) {
			c->form = TABLE_CSV;
		} else if (strcmp(argv[i], "--json") == 0) {
			c->form = TABLE_JSON;
		} else if (i + 1 == argc || !takes_value(c, known, n, argv[i], argv[i + 1])) {
			fprintf(stderr, "%s: unknown, or without a valid value\n", argv[i]);
			return false;
		} else {
			i++;
		}
	}
	return true;
}

bool options_parse(struct options_common *c, const struct option *known, uint32_t n, int argc,
		   char **argv, const char *usage)
{
	if (parse_options(c, known, n, argc, argv))
		return true;
	fprintf(
	    stderr,
	    "usage: lend-sim %s %s\n  [--cc NAME,...] [--gbps G] [--delay-ns D] [--buffer-kb K] "
	    "[--share EIGHTHS] [--mark-kb K]\n  [--queues N] [--seed S] [--csv | --json] [--plot "
	    "FILE.svg]\n",
	    argv[0], usage);
	return false;
}
