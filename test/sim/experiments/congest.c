#include "sim/experiments/congest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/chart.h"
#include "sim/command.h"
#include "sim/sim_args.h"
#include "sim/experiments/traffic.h"

enum { SENDERS_MAX = 4096, RUNS_MAX = OPTION_LIST * 8 };

/* One run per algorithm and number of senders, in this order. */
struct sweep {
	struct congest_plan plan;
	struct options_common o;
	struct option_list senders;
	struct table table;
	struct congest_result *result;
	uint32_t n;
};

static double victim_quantile(const struct congest_result *r, int victim, double q)
{
	return (double)lend_hist_quantile(&r->victim[victim], q) / 1e3;
}

static double ideal_ratio(const struct congest_result *r)
{
	return (double)r->completion / (double)r->ideal;
}

/* Returns the goodput in percent of the receiver's link: payload bytes of the messages. */
static double receiver_goodput(const struct congest_plan *p, const struct congest_result *r)
{
	return 800e3 * (double)(p->bytes * p->messages * p->senders) /
	       ((double)r->completion * (double)p->net.mbps);
}

static void print_row(struct sweep *s, const struct congest_plan *p, const struct congest_result *r)
{
	const struct table_cell cell[] = {
	    {"cc", "cc", sim_cc_name(p->net.cc), 0, 0},
	    {"senders", "senders", NULL, (double)p->senders, 0},
	    {"bytes", "bytes", NULL, (double)p->bytes, 0},
	    {"buffer_kb", NULL, NULL, (double)p->net.buffer_kb, 0},
	    {"completion_us", "done us", NULL, (double)r->completion / 1e3, 1},
	    {"ideal_us", "ideal us", NULL, (double)r->ideal / 1e3, 1},
	    {"completion_over_ideal", "ratio", NULL, ideal_ratio(r), 2},
	    {"goodput_percent", "goodput %", NULL, receiver_goodput(p, r), 1},
	    {"queue_max_kb", "q max", NULL, (double)r->queue.max / 1024, 0},
	    {"queue_mean_kb", "q mean", NULL, lend_hist_mean(&r->queue) / 1024, 0},
	    {"queue_p99_kb", "q p99", NULL, (double)lend_hist_quantile(&r->queue, 0.99) / 1024, 0},
	    {"drops", "drops", NULL, (double)r->drops, 0},
	    {"marks", NULL, NULL, (double)r->marks, 0},
	    {"no_memory", "nomem", NULL, (double)r->no_memory, 0},
	    {"repeats", "repeats", NULL, (double)r->repeats, 0},
	    {"victim_p50_us", "same p50", NULL, victim_quantile(r, CONGEST_SAME, 0.5), 1},
	    {"victim_p99_us", "p99", NULL, victim_quantile(r, CONGEST_SAME, 0.99), 1},
	    {"victim_p999_us", "p99.9", NULL, victim_quantile(r, CONGEST_SAME, 0.999), 1},
	    {"other_p50_us", NULL, NULL, victim_quantile(r, CONGEST_OTHER, 0.5), 1},
	    {"other_p99_us", NULL, NULL, victim_quantile(r, CONGEST_OTHER, 0.99), 1},
	    {"other_p999_us", "other p99.9", NULL, victim_quantile(r, CONGEST_OTHER, 0.999), 1},
	    {"jain", "jain", NULL, r->fairness, 3},
	    {"datagrams", "datagrams", NULL, (double)r->datagrams, 0},
	    {"message_p50_us", NULL, NULL, (double)lend_hist_quantile(&r->message, 0.5) / 1e3, 1},
	    {"message_p99_us", NULL, NULL, (double)lend_hist_quantile(&r->message, 0.99) / 1e3, 1},
	};

	table_row(&s->table, cell, sizeof(cell) / sizeof(cell[0]));
}

static bool run_all(struct sweep *s)
{
	for (uint32_t c = 0; c < s->o.cc.n; c++)
		for (uint32_t i = 0; i < s->senders.n; i++) {
			struct congest_plan p = s->plan;
			struct congest_result *r = &s->result[s->n++];

			p.net.cc = s->o.cc.value[c];
			p.senders = s->senders.value[i];
			congest_run(&p, r);
			if (!r->ok) {
				fprintf(stderr, "%s, %llu senders: %s\n", sim_cc_name(p.net.cc),
					(unsigned long long)p.senders, r->why);
				return false;
			}
			print_row(s, &p, r);
		}
	return true;
}

enum { RATIO, VICTIM, QUEUE, PANELS };

/* Returns the figure of a run that the panel shows. */
static double panel_value(int panel, const struct congest_result *r)
{
	return panel == RATIO ? ideal_ratio(r) : victim_quantile(r, CONGEST_SAME, 0.999);
}

static bool plot_results(const struct sweep *s)
{
	uint32_t k = s->senders.n, samples = 0, used = 0;
	struct chart panel[PANELS] = {
	    {"Completion time of all senders, as a multiple of the link's", "senders",
	     .x = {PAGE_COUNT, .log = true}, .y = {PAGE_COUNT, .log = true}, .lines = s->o.cc.n},
	    {"Bystander's call of 64 bytes to the same receiver, p99.9", "senders",
	     .x = {PAGE_COUNT, .log = true}, .y = {PAGE_US, .log = true}, .lines = s->o.cc.n},
	    {"Queue to the receiver, most senders", "time", .x = {.unit = PAGE_US},
	     .y = {.unit = PAGE_BYTES}, .lines = s->o.cc.n}};
	double *room;
	bool ok;

	for (uint32_t c = 0; c < s->o.cc.n; c++)
		samples += s->result[(c + 1) * k - 1].samples;
	room = malloc((2 * samples + 4 * s->o.cc.n * k) * sizeof(*room));
	if (!room)
		return false;
	for (uint32_t c = 0; c < s->o.cc.n; c++) {
		const struct congest_result *last = &s->result[(c + 1) * k - 1];

		for (int p = 0; p < PANELS; p++) {
			uint32_t n = p == QUEUE ? last->samples : k;
			double *x = room + used, *y = x + n;

			used += 2 * n;
			for (uint32_t i = 0; i < n; i++) {
				x[i] = p == QUEUE ? (double)(i * last->every) / 1e3
						  : (double)s->senders.value[i];
				y[i] = p == QUEUE ? (double)last->series[i]
						  : panel_value(p, &s->result[c * k + i]);
			}
			panel[p].line[c] = sim_cc_line(s->o.cc.value[c], x, y, n);
		}
	}
	ok = chart_write(s->o.plot, panel, PANELS);
	free(room);
	return ok;
}

static const struct lend_option options[] = {
    OPT_LIST(struct sweep, senders, "senders", SENDERS_MAX, "How many send at once"),
    OPT_NUMBER(struct sweep, plan.bytes, "size", 1, 1 << 26, "Bytes of a message (65536)"),
    OPT_NUMBER(struct sweep, plan.messages, "messages", 1, 1000000, "Of each sender (1)"),
    OPT_NUMBER(struct sweep, plan.depth, "depth", 1, CONGEST_CALLS,
	       "Messages that a sender has in flight (1)"),
    OPT_NUMBER(struct sweep, plan.records, "records", 0, 1 << 20,
	       "Calls that the receiver serves at once; 0: all (0)"),
    {.name = NULL}};
static const struct lend_syntax syntax = {
    .option = options, .child = &options_common, .child_at = offsetof(struct sweep, o)};

int sim_cmd_congestion(int argc, char **argv)
{
	struct sweep s = {.plan = {.bytes = 65536, .messages = 1, .depth = 1},
			  .senders = {7, {8, 16, 32, 64, 128, 256, 512}}};
	bool ok;

	options_default(&s.o, 2500);
	lend_options_read(&syntax, NULL, argc, argv, &s);
	s.plan.net = s.o.net;
	s.table = (struct table){s.o.form, s.senders.n * s.o.cc.n == 1, 0};
	s.result = calloc(s.senders.n * s.o.cc.n, sizeof(*s.result));
	if (!s.result)
		return 1;
	ok = run_all(&s);
	table_end(&s.table);
	if (ok && s.o.plot && !plot_results(&s)) {
		perror(s.o.plot);
		ok = false;
	}
	for (uint32_t i = 0; i < s.n; i++)
		free(s.result[i].series);
	free(s.result);
	return ok ? 0 : 1;
}
