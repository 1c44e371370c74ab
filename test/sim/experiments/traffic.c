#include "sim/experiments/traffic.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/net/net_state.h"
#include "util/bits.h"
#include "util/traffic_class.h"

enum { HEAD = 64, WHOLE = 256 << 10, NONE = UINT32_MAX };
#define APART     UINT64_C(100)    /* time between the connects of two ends */
#define SETTLE_NS UINT64_C(200000) /* time from the last session to the first message */
#define SETUP_NS  UINT64_C(2000000000)

static struct traffic *traffic_of(struct sim *sim)
{
	return (struct traffic *)(void *)((char *)sim - offsetof(struct traffic, sim));
}

/* Makes room for one more element; arrays double. */
static void *one_more(void *array, uint32_t n, size_t each)
{
	if (n != 0 && !lend_is_pow2(n))
		return array;
	array = realloc(array, (n ? 2 * (size_t)n : 1) * each);
	LEND_CHECK(array);
	return array;
}

static uint64_t message_key(struct traffic *t, uint32_t m)
{
	return sim_bytes_key(t->sim.plan.seed, m, false);
}

/* Composes a message: a few bytes of its own, then memory that all messages share. */
static uint32_t compose_message(struct traffic *t, struct congest_end *e, uint32_t m)
{
	uint32_t bytes = t->message[m].bytes, len = lend_min_u32(bytes, HEAD);
	uint32_t head = congest_buf(&t->sim, e, len);

	sim_bytes_fill(e->bufs.seg[head].data, 0, len, message_key(t, m));
	if (bytes > HEAD)
		e->bufs.seg[head].next = congest_wrap(&t->sim, e, t->tail, bytes - HEAD);
	return head;
}

/* Makes the call of message m. False: no slot is free. */
static bool start_call(struct traffic *t, uint32_t m)
{
	const struct traffic_flow *flow = &t->flow[t->message[m].flow];
	struct congest_end *e = &t->end[flow->from];
	struct lend_core_call c = {
	    .class = LEND_CLASS_NORMAL, .method = m, .deadline = LEND_NEVER, .tag = m};
	uint64_t handle;
	int rc;

	c.request = compose_message(t, e, m);
	rc = lend_core_call(e->core, t->sim.now, flow->session, &e->bufs, &c, &handle);
	if (rc != 0)
		congest_unbuf(e, c.request);
	SIM_CHECK(&t->sim, rc == 0 || rc == -11, "end %u cannot call: %d", flow->from, rc);
	congest_kick(&t->sim, flow->from, e);
	return rc == 0;
}

static void begin_message(struct traffic *t, uint32_t m)
{
	struct congest_end *e = &t->end[t->flow[t->message[m].flow].from];

	if (e->held != NONE || !start_call(t, m)) {
		t->held++;
		t->message[m].next = NONE;
		if (e->held == NONE)
			e->held = m;
		else
			t->message[e->held_last].next = m;
		e->held_last = m;
	}
	if (t->hooks.begun)
		t->hooks.begun(t, m);
}

static void retry_held(struct traffic *t, struct congest_end *e)
{
	while (e->held != NONE && start_call(t, e->held))
		e->held = t->message[e->held].next;
}

static void check_message(struct traffic *t, const struct congest_end *end,
			  const struct lend_event *e)
{
	uint32_t m = e->method, bytes, len;
	const uint8_t *at = e->data ? e->data : end->bufs.seg[e->buf].data;

	SIM_CHECK(&t->sim, m < t->messages && !t->message[m].delivered, "message %u arrives twice",
		  m);
	bytes = t->message[m].bytes;
	len = lend_min_u32(bytes, HEAD);
	SIM_CHECK(&t->sim, e->len == bytes, "a message of %llu bytes, not %u",
		  (unsigned long long)e->len, bytes);
	if (bytes == 0 || at == t->sink)
		return;
	SIM_CHECK(&t->sim,
		  sim_bytes_same(at, 0, len, message_key(t, m)) &&
		      memcmp(at + len, t->tail, bytes - len) == 0,
		  "message %u arrived with other bytes", m);
}

static void on_request(struct traffic *t, struct congest_end *end, const struct lend_event *e)
{
	struct traffic_message *m;
	uint32_t reply = 0;

	check_message(t, end, e);
	congest_unbuf(end, e->buf);
	m = &t->message[e->method];
	m->delivered = t->sim.now;
	t->delivered++;
	if (m->reply)
		reply = congest_wrap(&t->sim, end, t->tail, m->reply);
	lend_core_reply(end->core, t->sim.now, e->call, &end->bufs, 0, reply);
	if (t->hooks.delivered)
		t->hooks.delivered(t, e->method);
}

static void on_call_end(struct traffic *t, uint32_t id, const struct lend_event *e)
{
	SIM_CHECK(&t->sim, e->status == 0, "a call of end %u ended with status %u", id, e->status);
	congest_unbuf(&t->end[id], e->buf);
	t->message[e->tag].ended = t->sim.now;
	t->ended++;
	retry_held(t, &t->end[id]);
	if (t->hooks.ended)
		t->hooks.ended(t, (uint32_t)e->tag);
}

/* Provides memory for a long message. The longest ones share theirs, and only their length is
 * checked. */
static uint32_t message_memory(struct traffic *t, struct congest_end *end, uint32_t len)
{
	return len > WHOLE ? congest_wrap(&t->sim, end, t->sink, len)
			   : congest_buf(&t->sim, end, len);
}

static void on_event(struct sim *sim, uint32_t id, const struct lend_event *e)
{
	struct traffic *t = traffic_of(sim);
	struct congest_end *end = &t->end[id];
	int rc;

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_NEED:
		rc = lend_core_attach(end->core, e->call, &end->bufs,
				      message_memory(t, end, (uint32_t)e->len));
		SIM_CHECK(sim, rc == 0, "attach returns %d", rc);
		return;
	case LEND_EV_REQUEST:
		on_request(t, end, e);
		return;
	case LEND_EV_CALL_END:
		on_call_end(t, id, e);
		return;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		congest_unbuf(end, e->buf);
		return;
	case LEND_EV_SESSION_DOWN:
		sim_fail(sim, "a session of end %u is down", id);
	case LEND_EV_SESSION_UP:
		t->up += e->tag != 0;
		return;
	case LEND_EV_CANCELLED:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
	case LEND_EV_PROVE:
		return;
	}
}

static void handle_arrival(struct sim *sim, uint32_t node, uint32_t flight)
{
	struct traffic *t = traffic_of(sim);
	const struct sim_flight *f = sim_net_flight(sim, flight);

	if (t->hooks.came)
		t->hooks.came(t, node, f->from, f->len);
	congest_arrive(sim, node, &t->end[node], flight);
}

void traffic_open(struct traffic *t, const struct sim_plan *plan)
{
	/* Freed blocks of any size are reused instead of returned to the kernel. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	t->sim.plan = *plan;
	for (uint64_t i = 0; i < SIM_STREAMS; i++)
		lend_rng_seed(&t->sim.rng[i], plan->seed * SIM_STREAMS + i);
	t->sim.node = calloc(plan->nodes, sizeof(*t->sim.node));
	t->end = calloc(plan->nodes, sizeof(*t->end));
	LEND_CHECK(t->sim.node && t->end);
	sim_net_open(&t->sim);
	sim_net_deliver(&t->sim, handle_arrival);
}

uint32_t traffic_flow(struct traffic *t, uint32_t from, uint32_t to)
{
	t->flow = one_more(t->flow, t->flows, sizeof(*t->flow));
	t->flow[t->flows] = (struct traffic_flow){.from = from, .to = to};
	t->end[from].flows++;
	t->end[to].flows++;
	return t->flows++;
}

/* Twice as many sessions as needed, because a server reserves some for half-open ones. */
static void open_end(struct traffic *t, uint32_t id, const struct traffic_config *g)
{
	struct congest_end *e = &t->end[id];
	uint32_t records = id == 0 && g->records ? g->records : g->inflight + 2 * e->flows;

	t->sim.node[id].up = true;
	e->held = NONE;
	e->cfg = (struct lend_core_config){.sessions = 2 * e->flows + 2,
					   .calls = g->calls,
					   .inflight = records,
					   .reassemblies = g->inflight + e->flows,
					   .wide_rings = lend_min_u32(e->flows, 32),
					   .message_max = lend_max_u32(g->bytes_max, 1 << 20),
					   .receive_budget = 64 << 20,
					   .unscheduled = 65536,
					   .probe = 500000000,
					   .dead = UINT64_C(5000000000),
					   .congestion = (uint8_t)t->sim.plan.cc,
					   .order = (uint8_t)t->sim.plan.order,
					   .credits = (uint8_t)(t->sim.plan.cc >> 8)};
	congest_end_open(&t->sim, id, e, 4 * lend_max_u32(records, g->inflight) + 1024);
}

void traffic_connect(struct traffic *t, const struct traffic_config *config)
{
	struct sim *sim = &t->sim;
	struct congest_end *e;
	int rc;

	t->bytes_max = lend_max_u32(config->bytes_max, 2 * HEAD);
	t->tail = malloc(t->bytes_max);
	t->sink = malloc(t->bytes_max);
	LEND_CHECK(t->tail && t->sink);
	sim_bytes_fill(t->tail, 0, t->bytes_max, sim->plan.seed);
	for (uint32_t i = 0; i < sim->plan.nodes; i++)
		open_end(t, i, config);
	for (uint32_t i = 0; i < t->flows; i++) {
		struct traffic_flow *l = &t->flow[i];

		e = &t->end[l->from];
		while (sim->heap.n && sim->heap.e[0].at <= i * APART)
			traffic_step(t);
		sim->now = i * APART;
		rc = lend_core_connect(e->core, sim->now, LEND_PEER(0, l->to), i + 1, NULL,
				       &l->session);
		SIM_CHECK(sim, rc == 0, "end %u cannot connect: %d", l->from, rc);
		congest_kick(sim, l->from, e);
	}
	while (t->up < t->flows) {
		SIM_CHECK(sim, sim->now < t->flows * APART + SETUP_NS, "%u of %u sessions are up",
			  t->up, t->flows);
		traffic_step(t);
	}
	t->begin = sim->now + SETTLE_NS;
	t->before = traffic_count(t);
	if (t->every)
		sim_at(sim, t->begin, SIM_AUDIT, 0, 0);
}

uint32_t traffic_add(struct traffic *t, lend_ns at, uint32_t flow, uint32_t bytes, uint32_t reply)
{
	LEND_CHECK(flow < t->flows && bytes <= t->bytes_max && reply <= t->bytes_max);
	t->message = one_more(t->message, t->messages, sizeof(*t->message));
	t->message[t->messages] = (struct traffic_message){
	    .at = lend_max_u64(at, t->sim.now), .flow = flow, .bytes = bytes, .reply = reply};
	sim_at(&t->sim, at, SIM_WORK, t->messages, 0);
	return t->messages++;
}

void traffic_step(struct traffic *t)
{
	struct sim *sim = &t->sim;
	struct sim_event e;
	uint8_t what;

	SIM_CHECK(sim, sim->heap.n, "no event is left");
	e = sim_heap_pop(&sim->heap);
	what = (uint8_t)e.order;
	sim->now = e.at;
	if (what == SIM_TURN) {
		congest_wake(sim, e.a, &t->end[e.a], on_event);
	} else if (what == SIM_WORK) {
		begin_message(t, e.a);
	} else if (what == SIM_AUDIT) {
		t->hooks.tick(t);
		sim_at(sim, sim->now + t->every, SIM_AUDIT, 0, 0);
	} else {
		sim_net_event(sim, (enum sim_what)what, e.a, e.b);
	}
}

struct traffic_count traffic_count(struct traffic *t)
{
	struct traffic_count c = {.datagrams = t->sim.count.datagrams - t->before.datagrams,
				  .drops = t->sim.net->ledger.dropped - t->before.drops,
				  .cut = t->sim.net->ledger.cut - t->before.cut,
				  .marks = t->sim.marks.switch_marked - t->before.marks};

	for (uint32_t i = 0; i < t->sim.plan.nodes; i++) {
		c.repeats += lend_core_stats(t->end[i].core)->repeats;
		c.no_memory += lend_core_stats(t->end[i].core)->rx_memory;
	}
	c.repeats -= t->before.repeats;
	c.no_memory -= t->before.no_memory;
	return c;
}

void traffic_close(struct traffic *t)
{
	for (uint32_t i = 0; t->end && i < t->sim.plan.nodes; i++)
		if (t->end[i].core)
			congest_end_close(&t->end[i]);
	sim_net_close(&t->sim);
	free(t->sim.heap.e);
	free(t->sim.node);
	free(t->end);
	free(t->flow);
	free(t->message);
	free(t->tail);
	free(t->sink);
}

double traffic_jain(const double *rate, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += rate[i];
		squares += rate[i] * rate[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 1;
}
