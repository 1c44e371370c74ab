/* netkit - fixture of the network's tests: nodes that only count arrivals. Layer: test/sim. */
#ifndef TEST_SIM_NETKIT_H
#define TEST_SIM_NETKIT_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>

#include "sim/net/net_state.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum { NODES = 4, MANY = 20000 };

static struct {
	uint32_t n, genuine, forged, sound, gone, ecn, strange;
	uint32_t times[MANY + 1]; /* by number */
	lend_ns when[MANY + 1];   /* by number: time of the last arrival */
	bool marked[MANY + 1];
	uint64_t last, swaps;
	lend_ns at;
	uint8_t lost[MANY / 8 + 1];
} got;
static struct sim sim;
static struct sim_node nodes[64];
static uint8_t sending; /* class of the datagrams to send */

_Noreturn void sim_fail(struct sim *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->why, sizeof(s->why), format, args);
	va_end(args);
	longjmp(s->out, 1);
}

void sim_node_arrive(struct sim *s, uint32_t node, uint32_t flight)
{
	struct sim_flight *f = sim_net_flight(s, flight);
	uint64_t number = f->len >= 48 ? lend_load_u64(f->data + 16) : 0;
	struct lend_pkt_view v;
	uint32_t len = f->len - (s->plan.checked ? 0 : (uint32_t)sizeof(struct lend_pkt_trailer));
	bool good = (s->plan.checked ||
		     (f->len >= sizeof(struct lend_pkt_trailer) && lend_pkt_whole(f->data, len))) &&
		    lend_pkt_decode(&v, f->data, len) == LEND_PKT_OK;

	cr_assert_eq(f->to, node);
	got.n++;
	got.gone += f->gone;
	got.ecn += f->ecn;
	got.strange += f->from >= s->net->nodes;
	got.at = s->now;
	if (!f->forged && !f->gone) {
		cr_assert(good, "a genuine datagram of %u bytes does not decode", f->len);
		got.genuine++;
		got.swaps += number < got.last;
		got.last = number;
		if (number <= MANY) {
			got.times[number]++;
			got.when[number] = s->now;
			got.marked[number] = f->ecn;
		}
	}
	got.forged += f->forged;
	got.sound += f->forged && good; /* only the content shows that it is forged */
	sim_net_free(s, flight);
}

static void begin(const struct sim_plan *plan)
{
	memset(&sim, 0, sizeof(sim));
	memset(&got, 0, sizeof(got));
	memset(nodes, 0, sizeof(nodes));
	sim.plan = *plan;
	sim.node = nodes;
	for (uint32_t i = 0; i < SIM_STREAMS; i++)
		lend_rng_seed(&sim.rng[i], plan->seed * SIM_STREAMS + i);
	for (uint32_t i = 0; i < plan->nodes; i++)
		nodes[i].up = true;
	sim_net_open(&sim);
}

static struct sim_plan calm(void)
{
	static const struct sim_plan p = {
#define X(name, calm, text) .name = calm,
	    SIM_PLAN(X)
#undef X
	};
	struct sim_plan plan = p;

	plan.nodes = NODES;
	return plan;
}

/* Sends a PING with a payload, which no decoder accepts, as a REQUEST of the same length. */
static enum lend_sent send(uint32_t from, uint32_t to, uint64_t number, uint32_t len)
{
	static uint8_t bytes[9000];
	struct lend_seg seg[2] = {{0}, {.data = bytes, .len = len, .cap = len}};
	struct lend_bufs bufs = {seg, 2};
	struct lend_pkt head = {
	    LEND_PKT_MAGIC, LEND_PKT_VERSION, LEND_PKT_REQUEST, 0, 0, 77, number, 0, len};
	struct lend_pkt_request block = {.method = 1};
	struct lend_pkt_trailer tail = {0};
	uint8_t h[sizeof(head) + sizeof(block)];
	struct lend_out out = {.head = h,
			       .head_len = sizeof(h),
			       .peer = LEND_PEER(0, to),
			       .class = sending,
			       .n = len > 0,
			       .piece = {{1, 0, len}}};

	memcpy(h, &head, sizeof(head));
	memcpy(h + sizeof(head), &block, sizeof(block));
	if (!sim.plan.checked) {
		tail.crc = lend_crc32c(lend_crc32c(0, h, sizeof(h)), bytes, len);
		out.tail = &tail;
		out.tail_len = sizeof(tail);
	}
	return sim_net_send(&sim, from, &bufs, &out);
}

static void run_until(lend_ns end)
{
	while (sim.heap.n && sim.heap.e[0].at <= end) {
		struct sim_event e = sim_heap_pop(&sim.heap);

		cr_assert_geq(e.at, sim.now);
		sim.now = e.at;
		sim_net_event(&sim, (enum sim_what)(e.order & 0xff), e.a, e.b);
	}
	sim.now = end;
}

static void finish(void)
{
	struct net_ledger l;

	sim_net_heal(&sim);
	run_until(sim.now + UINT64_C(20000000000));
	l = sim.net->ledger;
	cr_assert(sim_net_idle(&sim), "%u flights out; begun %llu ended %llu", sim.net->out,
		  (unsigned long long)(l.sent + l.copied + l.replayed + l.forged + l.gone),
		  (unsigned long long)(l.arrived + l.lost));
	cr_assert_eq(got.n, l.arrived);
	sim_net_close(&sim);
	free(sim.heap.e);
}

/* Sends n datagrams from 0 to 1, numbered from 1, a microsecond apart. */
static inline void stream(uint32_t n)
{
	for (uint32_t i = 1; i <= n; i++) {
		cr_assert_eq(send(0, 1, i, 64), LEND_SENT);
		run_until(sim.now + 1000);
	}
}

static inline void near(uint64_t have, double share, const char *what)
{
	double want = MANY * share;

	cr_assert(have > 0.9 * want && have < 1.1 * want, "%s: %llu, not about %.0f", what,
		  (unsigned long long)have, want);
}

#endif
