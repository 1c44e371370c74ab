/* sharing - senders that start one after the other and stop in the same order, each with endless
 * messages to one receiver. Measures how fairly they share its link over time. Layer: test/sim. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/chart.h"
#include "sim/command.h"
#include "sim/sim_args.h"
#include "sim/net/net_state.h"
#include "sim/experiments/traffic.h"

enum { SENDERS_MAX = 64, TICKS = 20, CALLS = 16, RECEIVER = 0 };

struct sharing_plan {
	uint64_t senders, step_us, bytes, depth;
	struct sim_plan net;
};
/* By tick. */
struct course {
	double *us, *active, *jain, *goodput;
	double queued;    /* bytes in the queue before the receiver, summed over ticks */
	double host;      /* the same in the first sender's own queue */
	double data, ack; /* bytes that reached the receiver, and the senders */
	uint32_t acks;    /* datagrams that reached the senders */
	uint32_t n;
	struct traffic_count count;
};
struct sharing {
	struct traffic t;
	const struct sharing_plan *plan;
	struct course *course;
	double got[SENDERS_MAX]; /* by session: bytes since the last tick */
};

static lend_ns step_ns(const struct sharing_plan *p)
{
	return p->step_us * 1000;
}

/* True between the sender's start and its stop. */
static bool is_active(const struct sharing *s, uint32_t flow, lend_ns at)
{
	lend_ns since = at - s->t.begin, step = step_ns(s->plan);

	return since >= flow * step && since < (s->plan->senders + flow) * step;
}

static void on_ended(struct traffic *t, uint32_t m)
{
	struct sharing *s = t->owner;
	uint32_t flow = t->message[m].flow;

	if (is_active(s, flow, t->sim.now))
		traffic_add(t, t->sim.now, flow, (uint32_t)s->plan->bytes, 0);
}

static void on_came(struct traffic *t, uint32_t to, uint32_t from, uint32_t len)
{
	struct sharing *s = t->owner;

	if (to != RECEIVER) {
		s->course->ack += len;
		s->course->acks++;
		return;
	}
	s->course->data += len;
	s->got[from - 1] += len;
}

static void on_tick(struct traffic *t)
{
	struct sharing *s = t->owner;
	struct course *c = s->course;
	double rate[SENDERS_MAX], sum = 0;
	uint32_t n = 0;

	/* The middle of the tick decides whether a sender is active in it. */
	for (uint32_t i = 0; i < s->plan->senders; i++) {
		sum += s->got[i];
		if (t->sim.now > t->begin && is_active(s, i, t->sim.now - t->every / 2))
			rate[n++] = s->got[i];
	}
	memset(s->got, 0, sizeof(s->got));
	if (!n || c->n == 2 * s->plan->senders * TICKS)
		return;
	c->queued += (double)net_queue(t->sim.net, RECEIVER, t->sim.now);
	c->host += (double)sim_net_queued(&t->sim, RECEIVER + 1);
	c->us[c->n] = (double)(t->sim.now - t->begin) / 1e3;
	c->active[c->n] = n;
	c->jain[c->n] = traffic_jain(rate, n);
	c->goodput[c->n++] = 800e3 * sum / ((double)t->every * (double)s->plan->net.mbps);
}

static void run_sharing(struct sharing *s)
{
	const struct sharing_plan *p = s->plan;
	struct traffic_config config = {
	    .bytes_max = (uint32_t)p->bytes, .calls = CALLS, .inflight = CALLS * SENDERS_MAX};
	struct sim_plan plan = p->net;
	lend_ns end;

	plan.nodes = p->senders + 1;
	traffic_open(&s->t, &plan);
	for (uint32_t i = 0; i < p->senders; i++)
		traffic_flow(&s->t, i + 1, RECEIVER);
	traffic_connect(&s->t, &config);
	sim_net_foreign(&s->t.sim, RECEIVER);
	for (uint32_t i = 0; i < p->senders * p->depth; i++)
		traffic_add(&s->t, s->t.begin + i / p->depth * step_ns(p), (uint32_t)(i / p->depth),
			    (uint32_t)p->bytes, 0);
	end = s->t.begin + (2 * p->senders - 1) * step_ns(p);
	while (s->t.sim.now < end)
		traffic_step(&s->t);
}

static bool sharing_run(const struct sharing_plan *plan, struct course *c, char why[256])
{
	struct sharing *s = calloc(1, sizeof(*s));
	size_t n = 2 * plan->senders * TICKS;
	bool ok;

	c->us = calloc(4 * n, sizeof(double));
	LEND_CHECK(s && c->us);
	c->active = c->us + n;
	c->jain = c->us + 2 * n;
	c->goodput = c->us + 3 * n;
	s->plan = plan;
	s->course = c;
	s->t.owner = s;
	s->t.every = step_ns(plan) / TICKS;
	s->t.hooks = (struct traffic_hooks){NULL, NULL, on_ended, on_tick, on_came};
	if (setjmp(s->t.sim.out) == 0)
		run_sharing(s);
	ok = !s->t.sim.why[0];
	if (ok)
		c->count = traffic_count(&s->t);
	memcpy(why, s->t.sim.why, sizeof(s->t.sim.why));
	traffic_close(&s->t);
	free(s);
	return ok;
}

/* Prints means of the settled times: the second half of each step with at least two senders. */
static void print_summary(struct table *t, const struct sharing_plan *p, const struct course *c)
{
	double jain = 0, settled = 0, least = 1, goodput = 0;
	uint32_t shared = 0, halves = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		goodput += c->goodput[i] / c->n;
		if (c->active[i] < 2)
			continue;
		shared++;
		jain += c->jain[i];
		if (i % TICKS < TICKS / 2)
			continue;
		halves++;
		settled += c->jain[i];
		least = fmin(least, c->jain[i]);
	}
	const struct table_cell cell[] = {
	    {"cc", "cc", sim_cc_name(p->net.cc), 0, 0},
	    {"senders", "senders", NULL, (double)p->senders, 0},
	    {"step_us", "step us", NULL, (double)p->step_us, 0},
	    {"jain", "jain", NULL, shared ? jain / shared : 1, 3},
	    {"jain_settled", "settled", NULL, halves ? settled / halves : 1, 3},
	    {"jain_settled_min", "least", NULL, least, 3},
	    {"carried_percent", "line %", NULL, goodput, 1},
	    {"queue_kb", "queue KB", NULL, c->n ? c->queued / c->n / 1024 : 0, 1},
	    {"drops", "drops", NULL, (double)c->count.drops, 0},
	    {"repeats", "repeats", NULL, (double)c->count.repeats, 0},
	    {"datagrams", "datagrams", NULL, (double)c->count.datagrams, 0},
	    {"host_kb", "host KB", NULL, c->n ? c->host / c->n / 1024 : 0, 1},
	    {"data_kb", NULL, NULL, c->data / 1024, 0},
	    {"ack_kb", NULL, NULL, c->ack / 1024, 0},
	    {"acks", NULL, NULL, c->acks, 0},
	};

	table_row(t, cell, sizeof(cell) / sizeof(cell[0]));
}

static void course_rows(struct table *t, const struct sharing_plan *p, const struct course *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		table_row(t,
			  (const struct table_cell[]){
			      {"cc", "cc", sim_cc_name(p->net.cc), 0, 0},
			      {"us", "us", NULL, c->us[i], 1},
			      {"active", "active", NULL, c->active[i], 0},
			      {"jain", "jain", NULL, c->jain[i], 4},
			      {"carried_percent", "line %", NULL, c->goodput[i], 2}},
			  5);
}

static bool plot_results(const char *path, const struct option_list *cc, const struct course *c)
{
	struct chart panel[2] = {
	    {"Senders start and stop: Jain's index of their shares (1: all equal)", "time",
	     .x = {.unit = PAGE_US}, .y = {.unit = PAGE_COUNT, .high = 1}, .lines = cc->n},
	    {"Load of the receiver's link", "time", .x = {.unit = PAGE_US},
	     .y = {PAGE_PERCENT, .high = 100}, .lines = cc->n}};

	for (uint32_t i = 0; i < cc->n; i++) {
		panel[0].line[i] = sim_cc_line(cc->value[i], c[i].us, c[i].jain, c[i].n);
		panel[1].line[i] = sim_cc_line(cc->value[i], c[i].us, c[i].goodput, c[i].n);
	}
	return chart_write(path, panel, 2);
}

static int run_all(struct sharing_plan *p, const struct options_common *o)
{
	struct course course[OPTION_LIST] = {0};
	struct table table = {o->form, o->cc.n == 1, 0};
	char why[256];
	bool ok = true;

	for (uint32_t i = 0; ok && i < o->cc.n; i++) {
		p->net.cc = o->cc.value[i];
		ok = sharing_run(p, &course[i], why);
		if (!ok)
			fprintf(stderr, "%s: %s\n", sim_cc_name(p->net.cc), why);
		else if (o->form == TABLE_CSV)
			course_rows(&table, p, &course[i]);
		else
			print_summary(&table, p, &course[i]);
	}
	table_end(&table);
	if (ok && o->plot && !plot_results(o->plot, &o->cc, course)) {
		perror(o->plot);
		ok = false;
	}
	for (uint32_t i = 0; i < o->cc.n; i++)
		free(course[i].us);
	return ok ? 0 : 1;
}

struct sharing_args {
	struct sharing_plan plan;
	struct options_common common;
};

static const struct lend_option options[] = {
    OPT_NUMBER(struct sharing_args, plan.senders, "senders", 1, SENDERS_MAX,
	       "They start one by one (8)"),
    OPT_NUMBER(struct sharing_args, plan.step_us, "step-us", 1, 1000000,
	       "Time between two starts (1000)"),
    OPT_NUMBER(struct sharing_args, plan.bytes, "size", 1, 1 << 26, "Bytes of a message (1048576)"),
    OPT_NUMBER(struct sharing_args, plan.depth, "depth", 1, CALLS,
	       "Messages in flight per sender (2)"),
    OPT_NUMBER(struct sharing_args, common.net.order, "order", 0, LEND_ORDER_FAIR,
	       "Of grants: 0 shortest first, 1 deadline, 2 FIFO, 3 fair shares (0)"),
    {.name = NULL}};
static const struct lend_syntax syntax = {.option = options,
					  .child = &options_common,
					  .child_at = offsetof(struct sharing_args, common),
					  .doc = "With --csv: the course."};

int sim_cmd_sharing(int argc, char **argv)
{
	struct sharing_args s = {
	    .plan = {.senders = 8, .step_us = 1000, .bytes = 1 << 20, .depth = 2}};

	options_default(&s.common, 2500);
	lend_options_read(&syntax, NULL, argc, argv, &s);
	s.plan.net = s.common.net;
	return run_all(&s.plan, &s.common);
}
