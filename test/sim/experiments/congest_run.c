#include <stdlib.h>
#include <string.h>

#include "sim/experiments/congest.h"
#include "sim/net/net_state.h"
#include "sim/experiments/traffic.h"
#include "util/bits.h"

/* Ends by index: the receiver, the senders, the bystanders, the server of the second bystander. */
enum { RECEIVER = 0 };
#define VICTIM_NS UINT64_C(2000) /* time between a bystander's calls */
#define LIMIT_NS  UINT64_C(60000000000)

struct bench {
	struct traffic t;
	const struct congest_plan *plan;
	struct congest_result *result;
	uint64_t *left; /* by sender: messages that have not ended */
	lend_ns *done_at;
	uint32_t done;
	uint32_t open; /* open calls of the bystanders */
};

static bool is_sender(const struct bench *b, uint32_t flow)
{
	return flow < b->plan->senders;
}

static void send_message(struct bench *b, uint32_t flow)
{
	traffic_add(&b->t, b->t.sim.now, flow, (uint32_t)b->plan->bytes, 0);
}

static void ask_victim(struct bench *b, lend_ns at, uint32_t flow)
{
	traffic_add(&b->t, at, flow, TRAFFIC_SMALL, TRAFFIC_SMALL);
	b->open++;
}

static void on_begun(struct traffic *t, uint32_t m)
{
	struct bench *b = t->owner;

	if (!is_sender(b, t->message[m].flow) && b->done < b->plan->senders)
		ask_victim(b, t->sim.now + VICTIM_NS, t->message[m].flow);
}

static void on_ended(struct traffic *t, uint32_t m)
{
	struct bench *b = t->owner;
	const struct traffic_message *i = &t->message[m];

	lend_hist_add(is_sender(b, i->flow) ? &b->result->message
					    : &b->result->victim[i->flow - b->plan->senders],
		      i->ended - i->at);
	if (!is_sender(b, i->flow)) {
		b->open--;
	} else if (--b->left[i->flow]) {
		if (b->left[i->flow] >= b->plan->depth)
			send_message(b, i->flow);
	} else {
		b->done_at[i->flow] = i->ended;
		b->done++;
	}
}

static void on_tick(struct traffic *t)
{
	struct bench *b = t->owner;
	struct congest_result *r = b->result;
	uint64_t bytes = net_queue(t->sim.net, RECEIVER, t->sim.now);

	lend_hist_add(&r->queue, bytes);
	if (lend_is_pow2(r->samples) || !r->samples) {
		r->series = realloc(r->series, (2 * r->samples + 1) * sizeof(*r->series));
		LEND_CHECK(r->series);
	}
	r->series[r->samples++] = bytes;
}

/* The last session is the only one with another end than the receiver. */
static void open_bench(struct bench *b)
{
	const struct congest_plan *p = b->plan;
	uint32_t ends = (uint32_t)p->senders + CONGEST_VICTIMS + 2, flows = ends - 2;
	struct traffic_config config = {
	    .bytes_max = (uint32_t)p->bytes,
	    .calls = CONGEST_CALLS,
	    .inflight = CONGEST_CALLS,
	    .records =
		(uint32_t)(p->records ? p->records : CONGEST_CALLS + p->senders * (p->depth + 2))};
	struct sim_plan plan = p->net;

	plan.nodes = ends;
	traffic_open(&b->t, &plan);
	for (uint32_t i = 0; i < flows; i++)
		traffic_flow(&b->t, i + 1, i == flows - 1 ? ends - 1 : RECEIVER);
	traffic_connect(&b->t, &config);
	b->left = calloc(p->senders, sizeof(*b->left));
	b->done_at = calloc(p->senders, sizeof(*b->done_at));
	LEND_CHECK(b->left && b->done_at);
	while (b->t.sim.heap.n && b->t.sim.heap.e[0].at < b->t.begin)
		traffic_step(&b->t);
	b->t.sim.now = b->t.begin;
	sim_net_foreign(&b->t.sim, RECEIVER);
	for (uint32_t i = 0; i < p->senders; i++) {
		b->left[i] = p->messages;
		for (uint64_t k = 0; k < lend_min_u64(p->depth, p->messages); k++)
			send_message(b, i);
	}
	ask_victim(b, b->t.begin, flows - 2);
	ask_victim(b, b->t.begin, flows - 1);
}

static void judge_run(struct bench *b)
{
	const struct congest_plan *p = b->plan;
	struct congest_result *r = b->result;
	struct traffic_count count = traffic_count(&b->t);
	double *rate = calloc(p->senders, sizeof(*rate));
	lend_ns last = 0;

	LEND_CHECK(rate);
	for (uint32_t i = 0; i < p->senders; i++) {
		last = lend_max_u64(last, b->done_at[i]);
		rate[i] = 1e9 / (double)(b->done_at[i] - b->t.begin);
	}
	r->fairness = traffic_jain(rate, p->senders);
	free(rate);
	r->completion = last - b->t.begin;
	r->repeats = count.repeats;
	r->no_memory = count.no_memory;
	r->drops = count.drops;
	r->marks = count.marks;
	r->datagrams = count.datagrams;
	SIM_CHECK(&b->t.sim, r->completion >= r->ideal, "faster than the link allows: %llu ns",
		  (unsigned long long)r->completion);
	SIM_CHECK(&b->t.sim, r->queue.max <= p->net.buffer_kb * 1024, "the switch held %llu bytes",
		  (unsigned long long)r->queue.max);
	r->ok = true;
}

/* Returns a lower bound of the completion time: the receiver's link carries every byte, and of a
 * sender's messages, only depth are in flight in one round trip. */
static lend_ns ideal_time(const struct congest_plan *p)
{
	uint64_t trip = 2 * p->net.delay_ns, message_ps = p->bytes * 8000000 / p->net.mbps;

	return lend_max_u64(trip + p->senders * p->messages * message_ps / 1000,
			    p->messages / p->depth * (trip + message_ps / 1000));
}

static void run_bench(struct bench *b)
{
	open_bench(b);
	while (b->done < b->plan->senders || b->open) {
		traffic_step(&b->t);
		SIM_CHECK(&b->t.sim, b->t.sim.now < b->t.begin + LIMIT_NS,
			  "%u of %llu senders are done after a minute", b->done,
			  (unsigned long long)b->plan->senders);
	}
	judge_run(b);
}

void congest_run(const struct congest_plan *plan, struct congest_result *result)
{
	struct bench *b = calloc(1, sizeof(*b));

	LEND_CHECK(b);
	memset(result, 0, sizeof(*result));
	lend_hist_init(&result->queue);
	lend_hist_init(&result->message);
	for (int i = 0; i < CONGEST_VICTIMS; i++)
		lend_hist_init(&result->victim[i]);
	result->ideal = ideal_time(plan);
	result->every = lend_max_u64(result->ideal / 1000, 100);
	b->plan = plan;
	b->result = result;
	b->t.owner = b;
	b->t.every = result->every;
	b->t.hooks = (struct traffic_hooks){on_begun, NULL, on_ended, on_tick, NULL};
	if (setjmp(b->t.sim.out) == 0)
		run_bench(b);
	memcpy(result->why, b->t.sim.why, sizeof(result->why));
	traffic_close(&b->t);
	free(b->left);
	free(b->done_at);
	free(b);
}
