#include "sim/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cc.h"

static bool number(const struct option *o, const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text && !*end && !errno && *out >= !o->zero && *out <= o->max;
}

/* Words with commas between them; each goes to take. */
static bool words(const char *text, struct option_list *list, const struct option *o,
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

static bool algorithm(const struct option *o, const char *word, uint64_t *out)
{
	(void)o;
	*out = lend_cc_named(word);
	return *out < LEND_CC_KINDS;
}

static void all_algorithms(struct options_common *c)
{
	for (c->cc.n = 0; c->cc.n < LEND_CC_KINDS; c->cc.n++)
		c->cc.value[c->cc.n] = c->cc.n;
}

static bool set(const struct option *o, const char *value)
{
	if (o->word)
		*o->word = value;
	else if (o->list)
		return words(value, o->list, o, number);
	else
		return number(o, value, o->number);
	return true;
}

static bool takes(struct options_common *c, const struct option *known, uint32_t n,
		  const char *name, const char *value)
{
	if (strcmp(name, "--cc") == 0)
		return words(value, &c->cc, NULL, algorithm);
	if (strcmp(name, "--plot") == 0) {
		c->plot = value;
		return true;
	}
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(name, known[i].name) == 0)
			return set(&known[i], value);
	return false;
}

bool options_parse(struct options_common *c, const struct option *known, uint32_t n, int argc,
		   char **argv)
{
	all_algorithms(c);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--csv") == 0) {
			c->form = TABLE_CSV;
		} else if (strcmp(argv[i], "--json") == 0) {
			c->form = TABLE_JSON;
		} else if (i + 1 == argc || !takes(c, known, n, argv[i], argv[i + 1])) {
			fprintf(stderr, "%s: unknown, or without a value that fits\n", argv[i]);
			return false;
		} else {
			i++;
		}
	}
	return true;
}
