#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/congest.h"
#include "sim/congest_end.h"
#include "sim/net_state.h"
#include "util/bits.h"

/* Ends by index: the receiver, then senders, then bystanders, then the second one's server. */
enum { RECEIVER = 0, HEAD = 64, SMALL = 64, CALLS = 256 };
#define START     UINT64_C(1000000)
#define INCAST    (2 * START)
#define VICTIM_NS UINT64_C(2000) /* between a bystander's calls */
#define LIMIT_NS  UINT64_C(60000000000)

struct bench {
	const struct congest_plan *plan;
	struct congest_result *result;
	struct sim sim;
	struct congest_end *end;
	uint32_t ends;
	uint64_t *left;   /* by sender: messages still to send */
	lend_ns *done_at; /* by sender */
	uint32_t done;    /* senders that are */
	uint8_t *tail;    /* of every message, behind its first bytes */
	uint8_t small[SMALL];
	struct {
		uint32_t open;
		lend_ns asked[CALLS];
	} victim[CONGEST_VICTIMS];
};

static struct bench *bench_of(struct sim *sim)
{
	return (struct bench *)(void *)((char *)sim - offsetof(struct bench, sim));
}

static bool is_sender(const struct bench *b, uint32_t end)
{
	return end > RECEIVER && end <= b->plan->senders;
}

static uint32_t victim_end(const struct bench *b, uint32_t victim)
{
	return b->plan->senders + 1 + victim;
}

static void call(struct bench *b, uint32_t from, uint32_t request, uint64_t tag)
{
	struct congest_end *e = &b->end[from];
	struct lend_core_call c = {
	    .method = from, .deadline = LEND_NEVER, .request = request, .tag = tag};
	uint64_t handle;
	int rc = lend_core_call(e->core, b->sim.now, e->session, &e->bufs, &c, &handle);

	SIM_CHECK(&b->sim, rc == 0, "end %u cannot call: %d", from, rc);
	congest_kick(&b->sim, from, e);
}

/* A few bytes that are its own, then the same memory for all. */
static void send_message(struct bench *b, uint32_t from)
{
	struct congest_end *e = &b->end[from];
	uint32_t len = (uint32_t)lend_min_u64(b->plan->bytes, HEAD), head, tail;

	head = congest_buf(&b->sim, e, len);
	sim_bytes_fill(e->bufs.seg[head].data, 0, len, sim_bytes_key(b->plan->seed, from, false));
	if (b->plan->bytes > HEAD) {
		tail = congest_wrap(&b->sim, e, b->tail, (uint32_t)(b->plan->bytes - HEAD));
		e->bufs.seg[head].next = tail;
	}
	call(b, from, head, 0);
}

static void ask(struct bench *b, uint32_t victim)
{
	uint32_t from = victim_end(b, victim), slot = 0;
	struct congest_end *e = &b->end[from];

	if (b->done == b->plan->senders)
		return;
	while (slot < CALLS && b->victim[victim].asked[slot])
		slot++;
	if (slot < CALLS) {
		b->victim[victim].asked[slot] = b->sim.now;
		b->victim[victim].open++;
		call(b, from, congest_wrap(&b->sim, e, b->small, SMALL), slot);
	}
	sim_at(&b->sim, b->sim.now + VICTIM_NS, SIM_WORK, from, 0);
}

static void check_message(struct bench *b, const struct lend_event *e)
{
	uint64_t want = is_sender(b, e->method) ? b->plan->bytes : SMALL;
	const uint8_t *at = e->data ? e->data : b->end[RECEIVER].bufs.seg[e->buf].data;
	uint64_t len = lend_min_u64(want, HEAD);

	SIM_CHECK(&b->sim, e->len == want, "a message of %llu bytes, not %llu",
		  (unsigned long long)e->len, (unsigned long long)want);
	if (want == SMALL && !is_sender(b, e->method))
		return;
	SIM_CHECK(&b->sim,
		  sim_bytes_same(at, 0, len, sim_bytes_key(b->plan->seed, e->method, false)) &&
		      memcmp(at + len, b->tail, want - len) == 0,
		  "the message of sender %u arrived with other bytes", e->method);
}

static void on_request(struct bench *b, uint32_t id, const struct lend_event *e)
{
	struct congest_end *end = &b->end[id];
	uint32_t reply = 0;

	check_message(b, e);
	congest_unbuf(end, e->buf);
	if (!is_sender(b, e->method))
		reply = congest_wrap(&b->sim, end, b->small, SMALL);
	lend_core_reply(end->core, b->sim.now, e->call, &end->bufs, 0, reply);
}

static void on_call_end(struct bench *b, uint32_t id, const struct lend_event *e)
{
	uint32_t victim = id - b->plan->senders - 1;
	struct sim *sim = &b->sim;

	SIM_CHECK(sim, e->status == 0, "a call of end %u ended with status %u", id, e->status);
	congest_unbuf(&b->end[id], e->buf);
	if (!is_sender(b, id)) {
		lend_hist_add(&b->result->victim[victim],
			      sim->now - b->victim[victim].asked[e->tag]);
		b->victim[victim].asked[e->tag] = 0;
		b->victim[victim].open--;
	} else if (--b->left[id]) {
		send_message(b, id);
	} else {
		b->done_at[id] = sim->now;
		b->done++;
	}
}

static void on_event(struct sim *sim, uint32_t id, const struct lend_event *e)
{
	struct bench *b = bench_of(sim);
	struct congest_end *end = &b->end[id];
	int rc;

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_NEED:
		rc = lend_core_attach(end->core, e->call, &end->bufs,
				      congest_buf(sim, end, (uint32_t)e->len));
		SIM_CHECK(sim, rc == 0, "attach says %d", rc);
		return;
	case LEND_EV_REQUEST:
		on_request(b, id, e);
		return;
	case LEND_EV_CALL_END:
		on_call_end(b, id, e);
		return;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		congest_unbuf(end, e->buf);
		return;
	case LEND_EV_SESSION_DOWN:
		sim_fail(sim, "a session of end %u is down", id);
	case LEND_EV_SESSION_UP:
	case LEND_EV_CANCELLED:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
		return;
	}
}

static void arrive(struct sim *sim, uint32_t node, uint32_t flight)
{
	congest_arrive(sim, node, &bench_of(sim)->end[node], flight);
}

/* Everybody connects, a little apart; then all begin at once. */
static void on_work(struct bench *b, uint32_t id)
{
	struct sim *sim = &b->sim;
	struct congest_end *e = &b->end[id];
	uint32_t to = id == victim_end(b, CONGEST_OTHER) ? b->ends - 1 : RECEIVER;
	int rc;

	if (!e->session) {
		rc = lend_core_connect(e->core, sim->now, LEND_PEER(0, to), 0, &e->session);
		SIM_CHECK(sim, rc == 0, "end %u cannot connect: %d", id, rc);
		congest_kick(sim, id, e);
		sim_at(sim, INCAST, SIM_WORK, id, 0);
	} else if (is_sender(b, id)) {
		send_message(b, id);
	} else {
		ask(b, id - b->plan->senders - 1);
	}
}

static void sample(struct bench *b)
{
	struct congest_result *r = b->result;
	uint64_t bytes = net_queue(b->sim.net, RECEIVER, b->sim.now);

	lend_hist_add(&r->queue, bytes);
	if (lend_is_pow2(r->samples) || !r->samples) {
		r->series = realloc(r->series, (2 * r->samples + 1) * sizeof(*r->series));
		LEND_CHECK(r->series);
	}
	r->series[r->samples++] = bytes;
	sim_at(&b->sim, b->sim.now + r->every, SIM_AUDIT, 0, 0);
}

static struct lend_core_config config(const struct congest_plan *p, uint32_t peers)
{
	return (struct lend_core_config){.sessions = 2 * peers,
					 .calls = CALLS,
					 .inflight = 2 * peers + CALLS,
					 .reassemblies = peers,
					 .message_max = lend_max_u64(p->bytes, 1 << 20),
					 .receive_budget = 64 << 20,
					 .unscheduled = 65536,
					 .probe = 500000000,
					 .dead = UINT64_C(5000000000)};
}

static void open_bench(struct bench *b)
{
	const struct congest_plan *p = b->plan;
	struct sim *sim = &b->sim;

	b->ends = p->senders + CONGEST_VICTIMS + 2;
	sim->plan.nodes = b->ends;
	sim->plan.mtu = 1472;
	sim->plan.mbps = 1000 * p->gbps;
	sim->plan.delay_ns = p->delay_ns;
	sim->plan.buffer_kb = p->buffer_kb;
	sim->plan.share = p->share;
	sim->plan.mark_kb = p->mark_kb;
	sim->plan.seed = p->seed;
	sim->node = calloc(b->ends, sizeof(*sim->node));
	b->end = calloc(b->ends, sizeof(*b->end));
	b->left = calloc(b->ends, sizeof(*b->left));
	b->done_at = calloc(b->ends, sizeof(*b->done_at));
	b->tail = malloc(p->bytes);
	LEND_CHECK(sim->node && b->end && b->left && b->done_at && b->tail);
	sim_bytes_fill(b->tail, 0, p->bytes, p->seed);
	sim_net_open(sim);
	sim_net_deliver(sim, arrive);
	for (uint32_t i = 0; i < b->ends; i++) {
		bool serves = i == RECEIVER;

		sim->node[i].up = true;
		b->left[i] = p->messages;
		b->end[i].cfg = config(p, serves ? b->ends : 4);
		congest_end_open(sim, i, &b->end[i], serves ? 4 * b->ends + 1024 : 1024);
		if (i != RECEIVER && i != b->ends - 1)
			sim_at(sim, START * i / b->ends, SIM_WORK, i, 0);
	}
}

static void close_bench(struct bench *b)
{
	for (uint32_t i = 0; b->end && i < b->ends; i++)
		if (b->end[i].core)
			congest_end_close(&b->end[i]);
	sim_net_close(&b->sim);
	free(b->sim.heap.e);
	free(b->sim.node);
	free(b->end);
	free(b->left);
	free(b->done_at);
	free(b->tail);
}

static void step(struct bench *b)
{
	struct sim *sim = &b->sim;
	struct sim_event e = sim_heap_pop(&sim->heap);
	uint8_t what = (uint8_t)e.order;

	sim->now = e.at;
	if (what == SIM_TURN)
		congest_wake(sim, e.a, &b->end[e.a], on_event);
	else if (what == SIM_WORK)
		on_work(b, e.a);
	else if (what == SIM_AUDIT)
		sample(b);
	else
		sim_net_event(sim, (enum sim_what)what, e.a, e.b);
	SIM_CHECK(sim, sim->now < INCAST + LIMIT_NS, "%u of %u senders are done after a minute",
		  b->done, b->plan->senders);
}

static void judge(struct bench *b)
{
	const struct congest_plan *p = b->plan;
	struct congest_result *r = b->result;
	double sum = 0, squares = 0, rate;
	lend_ns last = 0;

	for (uint32_t i = 1; i <= p->senders; i++) {
		last = lend_max_u64(last, b->done_at[i]);
		rate = 1e9 / (double)(b->done_at[i] - INCAST);
		sum += rate;
		squares += rate * rate;
	}
	for (uint32_t i = 0; i < b->ends; i++)
		r->repeats += lend_core_stats(b->end[i].core)->repeats;
	r->no_memory = lend_core_stats(b->end[RECEIVER].core)->rx_memory;
	r->completion = last - INCAST;
	r->fairness = sum * sum / (p->senders * squares);
	r->drops = b->sim.net->ledger.dropped;
	r->marks = b->sim.marks.switch_marked;
	r->datagrams = b->sim.count.datagrams;
	SIM_CHECK(&b->sim, r->completion >= r->ideal, "faster than the wire: %llu ns",
		  (unsigned long long)r->completion);
	SIM_CHECK(&b->sim, r->queue.max <= p->buffer_kb * 1024, "the switch held %llu bytes",
		  (unsigned long long)r->queue.max);
	r->ok = true;
}

/* Nobody is done before: the receiver's line carries every byte, and of each sender's messages one
 * waits for the answer to the other. */
static lend_ns ideal(const struct congest_plan *p)
{
	uint64_t trip = 2 * p->delay_ns, message_ps = p->bytes * (8000 / p->gbps);

	return lend_max_u64(trip + p->senders * p->messages * message_ps / 1000,
			    p->messages * (trip + message_ps / 1000));
}

void congest_run(const struct congest_plan *plan, struct congest_result *result)
{
	struct bench *b = calloc(1, sizeof(*b));

	LEND_CHECK(b);
	memset(result, 0, sizeof(*result));
	lend_hist_init(&result->queue);
	for (int i = 0; i < CONGEST_VICTIMS; i++)
		lend_hist_init(&result->victim[i]);
	result->ideal = ideal(plan);
	result->every = lend_max_u64(result->ideal / 1000, 100);
	b->plan = plan;
	b->result = result;
	if (setjmp(b->sim.out) == 0) {
		open_bench(b);
		sim_at(&b->sim, INCAST, SIM_AUDIT, 0, 0);
		while (b->done < plan->senders || b->victim[CONGEST_SAME].open ||
		       b->victim[CONGEST_OTHER].open)
			step(b);
		judge(b);
	}
	memcpy(result->why, b->sim.why, sizeof(result->why));
	close_bench(b);
	free(b);
}
