#include "sim/explore/explore.h"

#include <stdlib.h>
#include <string.h>

#include "cli/option_table.h"
#include "sim/explore/explore_search.h"
#include "sim/planted/plants.h"
#include "util/check.h"

/* Only lend-sim-planted has these. */
extern const struct lend_plant lend_plants[] __attribute__((weak));
extern const unsigned lend_plants_n __attribute__((weak));
extern unsigned lend_planted __attribute__((weak));

enum { STATES_MAX = 4000000 };

struct options {
	uint64_t ns;
	uint32_t states;
	const char *scope, *replay;
	bool json;
	int budget[4]; /* replaces the scope's; negative: unchanged */
};

/* Result of the widest round of a scope. */
struct result {
	uint64_t states;
	bool whole;
};

struct totals {
	uint64_t moves, steps, drained;
	uint32_t violations, rounds;
	double left; /* seconds */
};

enum { ROUNDS_MAX = 27, SCOPES_MAX = 32 };
static struct result results[SCOPES_MAX];

static void list_scopes(const struct lend_option *option, void *args, char *value)
{
	(void)option, (void)args, (void)value;
	for (uint32_t i = 0; i < ex_n_scopes; i++)
		printf("%-10s %s\n", ex_scopes[i].name, ex_scopes[i].what);
	exit(EXIT_SUCCESS);
}

static void choose_plant(const struct lend_option *option, void *args, char *name)
{
	(void)args;
	for (unsigned i = 0; lend_plants && i < lend_plants_n; i++)
		if (!strcmp(lend_plants[i].name, name)) {
			lend_planted = i + 1;
			return;
		}
	lend_cli_bad("--%s %s: no such bug in this build", option->name, name);
}

/* Returns the scope in a round, with the budgets of the command line or larger ones than its own.
 * Three rounds have the same budgets, and one path of short messages each. */
static struct ex_scope chosen_scope(const struct options *o, uint32_t i, uint32_t round)
{
	struct ex_scope s = ex_scopes[i];
	uint8_t *at[] = {&s.drops, &s.dups, &s.ticks, &s.window};
	uint32_t more = round / 3;

	s.fast = round % 3;
	s.drops = (uint8_t)(s.drops + (s.lossless ? 0 : more));
	s.dups = (uint8_t)(s.dups + (s.lossless ? 0 : more));
	s.ticks = (uint8_t)(s.ticks + more);
	for (uint32_t k = 0; k < 4; k++)
		if (o->budget[k] >= 0)
			*at[k] = (uint8_t)o->budget[k];
	return s;
}

static const struct lend_option options[] = {
    OPT_TIME(struct options, ns, "seconds", "Of CPU time, for all scopes together (45)"),
    OPT_NUMBER(struct options, states, "states", 1, UINT32_MAX, "Per scope, at most"),
    OPT_TEXT(struct options, scope, "scope", "NAME", "This one only"),
    OPT_TEXT(struct options, replay, "replay", "TEXT",
	     "Choices that a violation printed: prints each step"),
    OPT_TAKEN("list", NULL, list_scopes, "Print the scopes"),
    OPT_TAKEN("plant", "NAME", choose_plant, "Explore with this bug (lend-sim-planted)"),
    OPT_NUMBER(struct options, budget[0], "drops", 0, UINT8_MAX, "In place of the scope's"),
    OPT_NUMBER(struct options, budget[1], "dups", 0, UINT8_MAX, "In place of the scope's"),
    OPT_NUMBER(struct options, budget[2], "ticks", 0, UINT8_MAX, "In place of the scope's"),
    OPT_NUMBER(struct options, budget[3], "window", 0, UINT8_MAX, "In place of the scope's"),
    OPT_JSON(struct options, json),
    {.name = NULL}};
static const char doc[] = "Explores every order of deliveries, losses, retransmissions, timeouts "
			  "and crashes within small scopes.";

/* Returns ex_n_scopes when there is no scope of this name. */
static uint32_t find_scope(const char *name, size_t len)
{
	uint32_t i = 0;

	while (i < ex_n_scopes &&
	       (strlen(ex_scopes[i].name) != len || memcmp(ex_scopes[i].name, name, len)))
		i++;
	return i;
}

/* SCOPE+ROUND:CHOICES */
static int replay_choices(const struct options *o)
{
	uint32_t i = find_scope(o->replay, strcspn(o->replay, "+:"));
	const char *round = strchr(o->replay, '+'), *choices = strchr(o->replay, ':'), *bad;
	struct ex_scope scope;

	if (i == ex_n_scopes || !choices || !round)
		lend_cli_bad("--replay %s: no such scope; --list prints them", o->replay);
	scope = chosen_scope(o, i, (uint32_t)atoi(round));
	bad = ex_search_replay(&scope, choices + 1, stdout);
	printf("%s\n", bad ? bad : "no violation");
	return bad != NULL;
}

static void print_report(const struct ex_scope *scope, uint32_t round, const struct ex_found *f)
{
	fprintf(stderr,
		"%-10s +%u %9llu states %10llu moves  depth %2u  %s  %5.1f s  %4.0f MB  "
		"%llu steps of nodes\n",
		scope->name, round, (unsigned long long)f->states, (unsigned long long)f->moves,
		f->depth, f->whole ? "whole" : "part ", f->seconds, (double)f->nodes.bytes / 1e6,
		(unsigned long long)f->nodes.steps);
	if (f->bad)
		fprintf(stderr, "%s: %s\n  lend-sim explore --replay %s+%u:%s\n", scope->name,
			f->bad, scope->name, round, f->replay);
}

static void run_scope(const struct options *o, uint32_t i, uint32_t round, double limit,
		      struct totals *t)
{
	struct ex_scope scope = chosen_scope(o, i, round);
	struct result *best = &results[i];
	struct ex_found f;

	ex_search(&scope, (struct ex_limits){limit, o->states}, &f);
	print_report(&scope, round, &f);
	best->states = f.states > best->states ? f.states : best->states;
	best->whole |= f.whole;
	t->moves += f.moves;
	t->steps += f.nodes.steps;
	t->drained += f.drained;
	t->violations += f.bad != NULL;
	t->left -= f.seconds;
}

/* Runs rounds until the time is over. After three, one more fault of each kind and one more timeout
 * are allowed. */
static void run_all(const struct options *o, uint32_t first, uint32_t end, struct totals *t)
{
	uint32_t others; /* scopes of the paths that were not explored yet */

	for (; t->rounds < ROUNDS_MAX && t->left > 0.1 && !t->violations; t->rounds++)
		for (uint32_t i = first; i < end && t->left > 0.1 && !t->violations; i++) {
			others = t->rounds < 2 ? (2 - t->rounds) * (end - first) : 0;
			run_scope(o, i, t->rounds, t->left / (end - i + others), t);
		}
}

static void print_json(const struct totals *t)
{
	uint64_t states = 0;
	uint32_t scopes = 0, whole = 0;

	for (uint32_t i = 0; i < ex_n_scopes; i++) {
		scopes += results[i].states > 0;
		states += results[i].states;
		whole += results[i].whole;
	}
	printf("{\"scopes\":%u,\"whole\":%u,\"rounds\":%u,\"states\":%llu,\"transitions\":%llu,"
	       "\"steps\":%llu,\"drained\":%llu,\"violations\":%u}\n",
	       scopes, whole, t->rounds, (unsigned long long)states, (unsigned long long)t->moves,
	       (unsigned long long)t->steps, (unsigned long long)t->drained, t->violations);
}

int sim_explore(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	struct options o = {
	    .ns = UINT64_C(45000000000), .states = STATES_MAX, .budget = {-1, -1, -1, -1}};
	struct totals t = {.rounds = 0};
	uint32_t one;

	lend_options_read(&syntax, NULL, argc, argv, &o);
	if (o.replay)
		return replay_choices(&o);
	one = o.scope ? find_scope(o.scope, strlen(o.scope)) : 0;
	if (one == ex_n_scopes)
		lend_cli_bad("--scope %s: no such scope; --list prints them", o.scope);
	LEND_CHECK(ex_n_scopes <= SCOPES_MAX);
	t.left = (double)o.ns / 1e9;
	run_all(&o, one, o.scope ? one + 1 : ex_n_scopes, &t);
	if (o.json)
		print_json(&t);
	return t.violations > 0;
}
