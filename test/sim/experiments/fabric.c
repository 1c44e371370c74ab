#include "sim/experiments/fabric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/chart.h"
#include "sim/command.h"
#include "sim/sim_args.h"
#include "sim/experiments/traffic.h"

enum { HOSTS_MAX = 1024, MIXES = 5 };

/* By mix, load and algorithm, in this order; the ideal is the first algorithm of each load. */
struct sweep {
	struct fabric_plan plan;
	struct options_common o;
	const struct mix *mix[MIXES];
	uint32_t mixes, ways; /* ways: number of algorithms, with the ideal */
	struct option_list load;
	const char *mix_words;
	bool sizes;
	struct table table;
	struct fabric_result *result;
};

static const char *way_name(const struct sweep *s, uint32_t way)
{
	return way ? sim_cc_name(s->o.cc.value[way - 1]) : "ideal";
}

static struct fabric_result *result_at(const struct sweep *s, uint32_t mix, uint32_t load,
				       uint32_t way)
{
	return &s->result[(mix * s->load.n + load) * s->ways + way];
}

static void print_row(struct sweep *s, const struct fabric_plan *p, const char *cc,
		      const struct fabric_result *r, const struct fabric_result *ideal)
{
	const struct table_cell cell[] = {
	    {"cc", "cc", cc, 0, 0},
	    {"hosts", "hosts", NULL, (double)p->net.nodes, 0},
	    {"mix", "mix", mix_name(p->mix), 0, 0},
	    {"load_percent", "load %", NULL, (double)p->load, 0},
	    {"span_us", "span us", NULL, (double)r->span / 1e3, 0},
	    {"measured", "measured", NULL, r->measured, 0},
	    {"unfinished", "unended", NULL, r->unfinished, 0},
	    {"small_p50", "small p50", NULL, r->small.p50, 2},
	    {"small_p99", "p99", NULL, r->small.p99, 2},
	    {"small_p99_over_ideal", "/ ideal", NULL, r->small.p99 / ideal->small.p99, 2},
	    {"large_p50", NULL, NULL, r->large.p50, 2},
	    {"large_p99", "large p99", NULL, r->large.p99, 2},
	    {"all_p50", NULL, NULL, r->all.p50, 2},
	    {"all_p99", "all p99", NULL, r->all.p99, 2},
	    {"all_p999", "p99.9", NULL, r->all.p999, 2},
	    {"all_mean", "mean", NULL, r->all.mean, 2},
	    {"goodput_percent", "goodput %", NULL, r->goodput, 1},
	    {"drops", "drops", NULL, (double)r->drops, 0},
	    {"cut", "cut", NULL, (double)r->cut, 0},
	    {"repeats", "repeats", NULL, (double)r->repeats, 0},
	    {"marks", NULL, NULL, (double)r->marks, 0},
	    {"held", NULL, NULL, r->held, 0},
	    {"queue_host_kb", "q host", NULL, r->queue_host_kb, 0},
	    {"queue_spine_kb", "q spine", NULL, r->queue_spine_kb, 0},
	    {"datagrams", "datagrams", NULL, (double)r->datagrams, 0},
	};

	table_row(&s->table, cell, sizeof(cell) / sizeof(cell[0]));
}

/* Prints a row for each size of messages and one for all, instead of the summary. */
static void print_sizes(struct sweep *s, const struct fabric_plan *p, const char *cc,
			const struct fabric_result *r)
{
	static const char *const name[] = {"datagram", "64 KiB", "1 MiB", "longer", "all"};

	for (uint32_t i = 0; i <= FABRIC_SIZES; i++) {
		const struct fabric_slowdown *d = i < FABRIC_SIZES ? &r->size[i] : &r->all;
		const struct table_cell cell[] = {
		    {"cc", "cc", cc, 0, 0},
		    {"mix", "mix", mix_name(p->mix), 0, 0},
		    {"load_percent", "load %", NULL, (double)p->load, 0},
		    {"size", "up to", name[i], 0, 0},
		    {"measured", "measured", NULL, d->n, 0},
		    {"mean", "mean", NULL, d->mean, 2},
		    {"p50", "p50", NULL, d->p50, 2},
		    {"p99", "p99", NULL, d->p99, 2},
		    {"p999", "p99.9", NULL, d->p999, 2},
		    {"goodput_percent", NULL, NULL, r->goodput, 1},
		    {"drops", NULL, NULL, (double)r->drops, 0},
		};

		if (d->n > 0)
			table_row(&s->table, cell, sizeof(cell) / sizeof(cell[0]));
	}
}

/* Prints the throughput over time while links fail, instead of the summary. */
static void print_course(struct sweep *s, const char *cc, const struct fabric_result *r)
{
	for (uint32_t i = 0; i + 1 < FABRIC_TICKS; i++)
		table_row(
		    &s->table,
		    (const struct table_cell[]){{"cc", "cc", cc, 0, 0},
						{"us", "us", NULL, (double)(i * r->every) / 1e3, 1},
						{"moved_percent", "line %", NULL, r->moved[i], 2}},
		    3);
}

static bool run_way(const struct sweep *s, struct fabric_plan *p, struct fabric_load *messages,
		    uint32_t way, struct fabric_result *r)
{
	if (way) {
		p->net.cc = s->o.cc.value[way - 1];
		fabric_run(p, messages, r);
	} else {
		fabric_ideal(p, messages, r);
	}
	if (!r->ok)
		fprintf(stderr, "%s, %s at %llu %%: %s\n", way_name(s, way), mix_name(p->mix),
			(unsigned long long)p->load, r->why);
	return r->ok;
}

static void print_way(struct sweep *s, const struct fabric_plan *p, uint32_t way,
		      const struct fabric_result *ideal)
{
	const struct fabric_result *r = ideal + way;

	if (s->sizes)
		print_sizes(s, p, way_name(s, way), r);
	else if (!p->fail || s->o.form != TABLE_CSV)
		print_row(s, p, way_name(s, way), r, ideal);
	else if (way)
		print_course(s, way_name(s, way), r);
}

/* Runs all algorithms with the same messages, and prints the best first. */
static bool run_load(struct sweep *s, uint32_t mix, uint32_t load)
{
	struct fabric_result *r = result_at(s, mix, load, 0);
	struct fabric_plan p = s->plan;
	struct fabric_load *messages;
	uint32_t order[OPTION_LIST + 1], n = 0, at;
	bool ok = true;

	p.mix = s->mix[mix];
	p.load = s->load.value[load];
	messages = fabric_load_open(&p);
	for (uint32_t way = 0; ok && way < s->ways; way++) {
		ok = run_way(s, &p, messages, way, &r[way]);
		for (at = n++; at > 0 && r[order[at - 1]].all.p99 > r[way].all.p99; at--)
			order[at] = order[at - 1];
		order[at] = way;
	}
	fabric_load_close(messages);
	for (at = 0; ok && at < n; at++)
		print_way(s, &p, order[at], r);
	return ok;
}

enum plotted { BY_TIME, BY_LOAD, BY_SIZE };

static struct chart_line collect_points(const struct sweep *s, enum plotted what, uint32_t mix,
					uint32_t way, double *x, double *y)
{
	uint32_t n = what == BY_TIME   ? FABRIC_TICKS - 1
		     : what == BY_LOAD ? s->load.n
				       : FABRIC_PARTS;

	for (uint32_t i = 0; i < n; i++) {
		const struct fabric_result *r = result_at(s, mix, what == BY_LOAD ? i : 0, way);

		x[i] = what == BY_TIME   ? (double)(i * r->every) / 1e3
		       : what == BY_LOAD ? (double)s->load.value[i]
					 : 10.0 * (i + 1);
		y[i] = what == BY_TIME   ? r->moved[i]
		       : what == BY_LOAD ? r->small.p99
					 : r->part[i].p99;
	}
	return way ? sim_cc_line(s->o.cc.value[way - 1], x, y, n)
		   : (struct chart_line){way_name(s, way), x, y, n, CHART_REFERENCE};
}

static bool plot_results(const struct sweep *s)
{
	enum plotted what = s->plan.fail ? BY_TIME : s->load.n > 1 ? BY_LOAD : BY_SIZE;
	static const char *const by[] = {"time", "load", "messages, by size"};
	static char title[MIXES][96];
	struct chart panel[MIXES];
	uint32_t skip = what == BY_TIME; /* the ideal has no figures over time */
	double *room = calloc(2 * FABRIC_TICKS * (size_t)s->ways * s->mixes, sizeof(*room));
	double *free_at = room;
	bool ok;

	if (!room)
		return false;
	for (uint32_t m = 0; m < s->mixes; m++) {
		panel[m] = (struct chart){
		    title[m], by[what], .x = {.unit = what == BY_TIME ? PAGE_US : PAGE_PERCENT},
		    .y = {what == BY_TIME ? PAGE_PERCENT : PAGE_COUNT, .log = what != BY_TIME},
		    .lines = s->ways - skip};
		snprintf(title[m], sizeof(title[m]),
			 what == BY_TIME
			     ? "%s at %llu %%: load of all hosts' links while some are down"
			 : what == BY_LOAD
			     ? "%s: p99 slowdown of the shorter half against an idle network"
			     : "%s at %llu %%: p99 slowdown against an idle network",
			 mix_name(s->mix[m]), (unsigned long long)s->load.value[0]);
		for (uint32_t l = 0; l < panel[m].lines; l++, free_at += 2 * FABRIC_TICKS)
			panel[m].line[l] =
			    collect_points(s, what, m, l + skip, free_at, free_at + FABRIC_TICKS);
	}
	ok = chart_write(s->o.plot, panel, s->mixes);
	free(room);
	return ok;
}

static bool parse_mixes(struct sweep *s)
{
	char copy[64], *at = copy, *word;

	if (strlen(s->mix_words) >= sizeof(copy))
		return false;
	strcpy(copy, s->mix_words);
	for (; s->mixes < MIXES && (word = strsep(&at, ",")); s->mixes++)
		if (!(s->mix[s->mixes] = mix_named(word)))
			return false;
	return s->mixes > 0 && !at;
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct sweep, o.net.nodes, "hosts", 2, HOSTS_MAX, "Hosts (144)"),
    OPT_NUMBER(struct sweep, o.net.racks, "racks", 1, HOSTS_MAX,
	       "Racks (one for 16 hosts; for 32 from 256 hosts)"),
    OPT_NUMBER(struct sweep, o.net.spines, "spines", 1, 64,
	       "Spines (as many uplinks as downlinks)"),
    OPT_NUMBER(struct sweep, o.net.speed, "speed", 1, 16, "Of an uplink, in downlinks (4)"),
    OPT_NUMBER(struct sweep, o.net.skew_ns, "skew-ns", 0, 100000000,
	       "Additional delay of each spine over the one before (0)"),
    OPT_NUMBER(struct sweep, o.net.spread, "spread", 0, 1,
	       "1: datagrams of a flow take all spines (1)"),
    OPT_NUMBER(struct sweep, plan.peers, "peers", 0, HOSTS_MAX, "Receivers of each host; 0: all"),
    OPT_TEXT(struct sweep, mix_words, "mix", "w1..w5,...", "Message lengths (w4)"),
    OPT_LIST(struct sweep, load, "load", 100, "Percent of the links (80)"),
    OPT_NUMBER(struct sweep, plan.messages, "messages", 1, 20000000, "At most (100000)"),
    OPT_NUMBER(struct sweep, plan.us, "us", 1, 10000000, "Simulated microseconds (5000)"),
    OPT_FLAG(struct sweep, sizes, "sizes", "Print slowdowns by size of the messages"),
    OPT_NUMBER(struct sweep, plan.fail, "fail", 0, HOSTS_MAX,
	       "Links that fail; --csv is then the course"),
    OPT_NUMBER(struct sweep, plan.detect_us, "detect-us", 0, 1000000,
	       "Until switches route around them (200)"),
    {.name = NULL}};

/* By default there are as many uplinks as downlinks. */
static void check_options(void *args)
{
	struct sweep *s = args;
	struct sim_plan *net = &s->o.net;

	if (!net->racks)
		net->racks = net->nodes > 256 ? net->nodes / 32 : (net->nodes + 15) / 16;
	if (!net->spines)
		net->spines =
		    (net->nodes + net->racks * net->speed - 1) / (net->racks * net->speed);
	s->plan.net = *net;
	if (!parse_mixes(s))
		lend_cli_bad("--mix %s: give w1 to w5, with commas between them", s->mix_words);
	if (net->racks > net->nodes || net->spines > 64 || s->plan.fail > net->racks)
		lend_cli_bad("give at most as many --racks as --hosts, 64 --spines, and as many "
			     "--fail as racks");
}

static const struct lend_syntax syntax = {.option = options,
					  .child = &options_common,
					  .child_at = offsetof(struct sweep, o),
					  .check = check_options};

int sim_cmd_fabric(int argc, char **argv)
{
	struct sweep s = {.plan = {.us = 5000, .messages = 100000, .detect_us = 200},
			  .mix_words = "w4",
			  .load = {1, {80}}};
	bool ok = true;

	options_default(&s.o, 1000);
	s.o.net.nodes = 144;
	s.o.net.speed = 4;
	s.o.net.spread = 1;
	lend_options_read(&syntax, NULL, argc, argv, &s);
	s.ways = s.o.cc.n + 1;
	s.table.form = s.o.form;
	s.result = calloc((size_t)s.mixes * s.load.n * s.ways, sizeof(*s.result));
	if (!s.result)
		return 1;
	for (uint32_t m = 0; ok && m < s.mixes; m++)
		for (uint32_t l = 0; ok && l < s.load.n; l++)
			ok = run_load(&s, m, l);
	table_end(&s.table);
	if (ok && s.o.plot && !plot_results(&s)) {
		perror(s.o.plot);
		ok = false;
	}
	free(s.result);
	return ok ? 0 : 1;
}
