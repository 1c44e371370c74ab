#include <stdlib.h>
#include <string.h>

#include "sim/experiments/fabric_load.h"
#include "sim/net/net_state.h"
#include "sim/experiments/traffic.h"
#include "util/bits.h"

enum { CALLS = 64, INFLIGHT = 1024, NONE = UINT32_MAX };
#define AFTER_NS                                                                                   \
	UINT64_C(20000000) /* time that messages have to end, beyond four times the span           \
			    */

struct fabric {
	struct traffic t;
	const struct fabric_plan *plan;
	const struct fabric_load *load;
	struct fabric_result *result;
	uint32_t *flow; /* session by from * hosts + to */
	double asked, arrived;
	uint64_t moved; /* bytes that reached hosts since the last tick */
	uint32_t ticks;
};

static uint32_t *line_of(struct fabric *f, const struct fabric_message *m)
{
	return &f->flow[(size_t)m->from * f->plan->net.nodes + m->to];
}

/* Adds message i of the load, which becomes message i of the traffic. */
static void add_message(struct fabric *f, uint32_t i)
{
	const struct fabric_message *m = &f->load->message[i];

	traffic_add(&f->t, f->t.begin + m->at, *line_of(f, m), m->bytes, 0);
}

static void on_begun(struct traffic *t, uint32_t m)
{
	struct fabric *f = t->owner;

	f->asked += t->message[m].bytes;
	if (m + 1 < f->load->n)
		add_message(f, m + 1);
}

static void on_delivered(struct traffic *t, uint32_t m)
{
	struct fabric *f = t->owner;

	if (t->sim.now <= t->begin + f->load->span)
		f->arrived += t->message[m].bytes;
}

static void on_came(struct traffic *t, uint32_t to, uint32_t from, uint32_t len)
{
	struct fabric *f = t->owner;

	(void)to;
	(void)from;
	f->moved += len;
}

static void break_links(struct fabric *f, bool work, bool known)
{
	for (uint32_t i = 0; i < f->plan->fail; i++)
		sim_net_link(&f->t.sim, i % (uint32_t)f->plan->net.racks, 0, work, known);
}

/* Breaks links after a third of the time and repairs them after two. Leaves learn of the repair
 * with the same delay as of the failure. */
static void run_breaches(struct fabric *f, lend_ns now)
{
	lend_ns third = f->load->span / 3, known = f->plan->detect_us * 1000;

	if (!f->plan->fail)
		return;
	break_links(f, now < third || now >= 2 * third, false);
	break_links(f, now < third + known || now >= 2 * third + known, true);
}

static void on_tick(struct traffic *t)
{
	struct fabric *f = t->owner;
	double all =
	    (double)t->every * (double)f->plan->net.mbps / 8e3 * (double)f->plan->net.nodes;

	if (f->ticks > 0 && f->ticks <= FABRIC_TICKS)
		f->result->moved[f->ticks - 1] = 100 * (double)f->moved / all;
	f->ticks++;
	f->moved = 0;
	run_breaches(f, t->sim.now - t->begin);
}

static void open_fabric(struct fabric *f)
{
	const struct fabric_plan *p = f->plan;
	struct traffic_config config = {
	    .bytes_max = mix_max(p->mix), .calls = CALLS, .inflight = INFLIGHT};

	traffic_open(&f->t, &p->net);
	f->flow = malloc(p->net.nodes * p->net.nodes * sizeof(*f->flow));
	LEND_CHECK(f->flow);
	memset(f->flow, 0xff, p->net.nodes * p->net.nodes * sizeof(*f->flow));
	for (uint32_t i = 0; i < f->load->n; i++) {
		const struct fabric_message *m = &f->load->message[i];

		if (*line_of(f, m) == NONE)
			*line_of(f, m) = traffic_flow(&f->t, m->from, m->to);
	}
	traffic_connect(&f->t, &config);
	for (uint32_t i = 0; i < p->net.nodes; i++)
		sim_net_foreign(&f->t.sim, i);
}

static void judge_run(struct fabric *f)
{
	struct fabric_result *r = f->result;
	struct traffic_count count = traffic_count(&f->t);
	double *ns = calloc(f->load->n, sizeof(*ns)), kb = 1024 * (double)f->t.sim.net->byte_ps;

	LEND_CHECK(ns);
	for (uint32_t i = 0; i < f->t.messages; i++) {
		const struct traffic_message *m = &f->t.message[i];

		if (m->delivered)
			ns[i] = (double)(m->delivered - m->at);
		SIM_CHECK(&f->t.sim,
			  !m->delivered ||
			      ns[i] > 0.999 * fabric_least_ns(f->plan, &f->load->message[i]) - 3,
			  "message %u is faster than the link allows", i);
	}
	fabric_judge(f->plan, f->load, ns, (double)(f->t.sim.now - f->t.begin), r);
	free(ns);
	r->goodput = 100 * f->arrived / f->asked;
	r->datagrams = count.datagrams;
	r->drops = count.drops;
	r->cut = count.cut;
	r->repeats = count.repeats;
	r->marks = count.marks;
	r->held = f->t.held;
	r->queue_host_kb = (double)f->t.sim.net->deepest[0] / kb;
	r->queue_spine_kb = (double)f->t.sim.net->deepest[1] / kb;
	r->ok = true;
}

static void run_fabric(struct fabric *f)
{
	lend_ns until;

	open_fabric(f);
	until = f->t.begin + 5 * f->load->span + AFTER_NS;
	add_message(f, 0);
	while (f->t.ended < f->load->n && f->t.sim.now < until)
		traffic_step(&f->t);
	judge_run(f);
}

void fabric_run(const struct fabric_plan *plan, const struct fabric_load *load,
		struct fabric_result *result)
{
	struct fabric *f = calloc(1, sizeof(*f));

	LEND_CHECK(f);
	memset(result, 0, sizeof(*result));
	f->plan = plan;
	f->load = load;
	f->result = result;
	f->t.owner = f;
	f->t.every = result->every = lend_max_u64(load->span / FABRIC_TICKS, 1);
	result->span = load->span;
	f->t.hooks = (struct traffic_hooks){on_begun, on_delivered, NULL, on_tick, on_came};
	if (setjmp(f->t.sim.out) == 0)
		run_fabric(f);
	memcpy(result->why, f->t.sim.why, sizeof(result->why));
	traffic_close(&f->t);
	free(f->flow);
	free(f);
}
