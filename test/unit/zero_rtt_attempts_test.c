/* Goal: the server runs the 0-RTT call of a CONNECT with a valid ticket once, however many copies
 * arrive, and never when it has no room to remember the attempt. Method: seeded attempts, copies
 * and times against a list of all that arrived. Covers: src/core/zero_rtt.c */
#include <criterion/criterion.h>

#include "core/zero_rtt.h"
#include "core/sess.h"
#include "unit/wheelkit.h"
#include "util/rng.h"

enum { LIFE = 1000, STEPS = 4000, ATTEMPTS = 2000 };

/* The model's entry of one attempt. */
static struct {
	struct lend_pkt_ticket ticket;
	lend_ns spent; /* time of its first accepted copy; 0: none yet */
} model[ATTEMPTS];

static struct lend_core *early_open(void)
{
	struct lend_core_config cfg = {.sessions = 2,
				       .calls = 1,
				       .inflight = 1,
				       .reassemblies = 1,
				       .message_max = 1 << 20,
				       .unscheduled = 65536,
				       .probe = 5,
				       .dead = 10,
				       .path = {{.mtu = 1472}},
				       .ticket_ns = LIFE,
				       .attempts = 32};
	size_t size = lend_align_up(lend_core_size(&cfg), 64);
	void *arena = aligned_alloc(64, size);

	return lend_core_init(memset(arena, 0, size), &cfg, 1);
}

static uint32_t judge(struct lend_core *c, uint32_t attempt, uint32_t address)
{
	struct lend_in in = {.addr = &address, .addr_len = sizeof(address)};
	struct lend_pkt_view v = {.head = {.call = 1025, .length = 8},
				  .connect = {.ticket = model[attempt].ticket}};
	struct lend_sess *s = lend_sess_at(c, 0);

	s->connect = attempt;
	s->payload = 64;
	return lend_zero_rtt_admit(c, s, &in, &v, true);
}

/* Issues a ticket for the attempt at the current time. */
static void give(struct lend_core *c, uint32_t attempt)
{
	const uint32_t address = 7;
	struct lend_in in = {.addr = &address, .addr_len = sizeof(address)};
	struct lend_pkt_view v = {.head = {.length = 0}};
	struct lend_sess *s = lend_sess_at(c, 0);

	cr_assert_eq(lend_zero_rtt_admit(c, s, &in, &v, true), LEND_PKT_NO_ZERO_RTT);
	model[attempt].ticket = lend_zero_rtt_ticket(c, s);
	model[attempt].spent = 0;
}

static uint32_t remembered(lend_ns now)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ATTEMPTS; i++)
		n += model[i].spent && now < model[i].spent + LIFE;
	return n;
}

static void story(uint64_t seed)
{
	struct lend_core *c = early_open();
	struct lend_rng r;
	lend_ns paused = 0;
	uint32_t next = 0, runs = 0, full = 0;

	lend_rng_seed(&r, seed);
	memset(model, 0, sizeof(model));
	for (uint32_t step = 0; step < STEPS && next < ATTEMPTS; step++) {
		bool fresh = next == 0 || lend_rng_below(&r, 2);
		uint32_t at = fresh ? next++ : (uint32_t)lend_rng_below(&r, next);
		uint32_t want = LEND_PKT_ZERO_RTT_RUNS;

		c->now += lend_rng_below(&r, step / 500 % 2 ? 20 : 200);
		if (fresh)
			give(c, at);
		if (c->now >= model[at].ticket.until ||
		    (model[at].spent && c->now < model[at].spent + LIFE)) {
			want = LEND_PKT_ZERO_RTT;
		} else if (remembered(c->now) == 32) {
			want = LEND_PKT_ZERO_RTT_NOT;
			paused = c->now + LIFE;
			full++;
		} else {
			model[at].spent = c->now;
			want = c->now < paused ? LEND_PKT_ZERO_RTT_NOT : LEND_PKT_ZERO_RTT_RUNS;
		}
		cr_assert_eq(judge(c, at, 7), want, "seed %llu: step %u, attempt %u",
			     (unsigned long long)seed, step, at);
		cr_assert_eq(judge(c, at, 8), LEND_PKT_ZERO_RTT, "from another address");
		cr_assert_null(lend_zero_rtt_audit(c));
		runs += want == LEND_PKT_ZERO_RTT_RUNS;
	}
	cr_assert(runs > 50 && full > 0, "seed %llu: %u ran, %u times full",
		  (unsigned long long)seed, runs, full);
	free(c);
}

Test(zero_rtt_attempts, an_attempt_runs_once)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		story(seed);
}
