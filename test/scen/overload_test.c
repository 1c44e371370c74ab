/* Goal: a server under more short calls than it can answer keeps its full rate, shares it among all
 * sessions, and waiting calls are not retransmitted. A server that stops is probed by one call per
 * session, not by all. Method: two cores in steps of 32 us; the receive queues hold QUEUE datagrams
 * and drop the rest, the server takes 32 per step. An open loop of empty calls over many sessions,
 * from a seed. Covers: src/core/request_window.c, src/core/client_call.c, src/core/sent_ring.c */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/arena.h"
#include "core/request_window.h"
#include "util/rng.h"
#include "one_line_test.h"

#define MS UINT64_C(1000000)

enum {
	SESSIONS = 64,
	STEP_NS = 32000,
	SERVED = 32, /* per step */
	QUEUE = 512,
	DEEP = 2048, /* never full */
	SETTLE = 1000,
	STEPS = 5000
};

struct end {
	struct lend_core *core;
	uint8_t (*queue)[1472];
	uint32_t len[DEEP], n, dropped;
};

struct world {
	struct end end[2];
	lend_ns now;
	uint64_t session[SESSIONS];
	uint32_t done[SESSIONS], expired, refused, other;
	uint32_t cap[2];        /* datagrams that their receive queues hold */
	uint32_t every, number; /* the client receives in one of `every` steps */
	bool silent;            /* the server does not run */
	struct lend_rng rng;
};

static void open_end(struct world *w, int i, uint32_t room)
{
	struct lend_core_config c = {.sessions = SESSIONS + SESSIONS / 8 + 1, /* of one peer */
				     .calls = 128,
				     .inflight = 2048,
				     .reassemblies = 4,
				     .message_max = 1 << 20,
				     .receive_budget = 1 << 20,
				     .unscheduled = 65536,
				     .probe = 500 * MS,
				     .dead = 5000 * MS,
				     .congestion = LEND_CC_CREDIT,
				     .seed = {(uint8_t)(i + 1)}};
	size_t size;
	void *arena;

	c.path[0] = (struct lend_path){.mtu = 1456, .joins = true, .room = room};
	size = lend_core_size(&c);
	arena = aligned_alloc(64, (size + 63) / 64 * 64);
	cr_assert(arena);
	memset(arena, 0, size);
	w->end[i].core = lend_core_init(arena, &c, w->now);
	w->end[i].queue = calloc(DEEP, sizeof(*w->end[i].queue));
	cr_assert(w->end[i].queue);
}

static void handle_events(struct world *w, int i)
{
	struct lend_bufs none = {.seg = NULL};
	const struct lend_event *e;

	while ((e = lend_core_next(w->end[i].core))) {
		if (e->kind == LEND_EV_REQUEST)
			(void)lend_core_reply(w->end[1].core, w->now, e->call, &none, 0, 0);
		if (e->kind != LEND_EV_CALL_END)
			continue;
		w->done[e->tag] += e->status == 0;
		w->expired += e->status == 4;
		w->other += e->status != 0 && e->status != 4;
	}
}

/* Moves the datagrams of one end into the other's queue. */
static void send_all(struct world *w, int i)
{
	struct lend_bufs none = {.seg = NULL};
	struct end *to = &w->end[!i];
	struct lend_out out[32];
	uint32_t n;

	do {
		n = lend_core_output(w->end[i].core, w->now, &none, out, 32);
		for (uint32_t k = 0; k < n; k++) {
			out[k].sent = LEND_SENT;
			if (to->n >= w->cap[!i]) {
				to->dropped++;
				continue;
			}
			memcpy(to->queue[to->n], out[k].head, out[k].head_len);
			if (out[k].tail_len)
				memcpy(to->queue[to->n] + out[k].head_len, out[k].tail,
				       out[k].tail_len);
			to->len[to->n++] = (uint32_t)out[k].head_len + out[k].tail_len;
		}
		lend_core_sent(w->end[i].core, out, n);
		handle_events(w, i);
	} while (n == 32);
}

static void run_end(struct world *w, int i, uint32_t most)
{
	struct lend_bufs none = {.seg = NULL};
	struct end *e = &w->end[i];
	uint32_t n = e->n < most ? e->n : most;

	for (uint32_t k = 0; k < n; k++) {
		struct lend_in in = {
		    .data = e->queue[k], .len = e->len[k], .addr = &i, .addr_len = sizeof(i)};

		lend_core_input(e->core, w->now, &none, &in, 1);
		handle_events(w, i);
	}
	memmove(e->queue, e->queue + n, (e->n - n) * sizeof(*e->queue));
	memmove(e->len, e->len + n, (e->n - n) * sizeof(*e->len));
	e->n -= n;
	if (lend_core_deadline(e->core) <= w->now)
		lend_core_tick(e->core, w->now);
	handle_events(w, i);
	send_all(w, i);
}

static bool start_call(struct world *w, uint32_t s)
{
	struct lend_bufs none = {.seg = NULL};
	struct lend_core_call c = {
	    .method = 1, .class = 3, .deadline = w->now + 100 * MS, .tag = s};
	uint64_t handle;

	return lend_core_call(w->end[0].core, w->now, w->session[s], &none, &c, &handle) == 0;
}

/* Starts n calls, each over a random session. */
static void start_arrivals(struct world *w, uint32_t calls)
{
	for (uint32_t k = 0; k < calls; k++)
		w->refused += !start_call(w, (uint32_t)lend_rng_below(&w->rng, SESSIONS));
}

static void run_step(struct world *w, uint32_t calls)
{
	start_arrivals(w, calls);
	run_end(w, 0, ++w->number % w->every ? 0 : UINT32_MAX);
	if (!w->silent)
		run_end(w, 1, SERVED);
	w->now += STEP_NS;
}

/* With the sizes of both receive queues; the cores know a size unless it is DEEP. */
static void open_world(struct world *w, uint32_t client, uint32_t server, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->now = 1000 * MS;
	w->every = 1;
	w->cap[0] = client;
	w->cap[1] = server;
	lend_rng_seed(&w->rng, seed);
	open_end(w, 0, client < DEEP ? client : 0);
	open_end(w, 1, server < DEEP ? server : 0);
	for (uint32_t i = 0; i < SESSIONS; i++) {
		cr_assert_eq(lend_core_connect(w->end[0].core, w->now, 0, i, NULL, &w->session[i]),
			     0);
		run_step(w, 0);
		run_step(w, 0);
	}
}

static void close_world(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		free((void *)w->end[i].core);
		free(w->end[i].queue);
	}
}

struct result {
	double per_step, least; /* answered per step; the session with the fewest, over the mean */
	uint32_t dropped, repeats;
};

static struct result run_world(uint32_t per_step, uint32_t client, uint32_t server, uint64_t seed)
{
	static struct world w;
	struct result r = {.least = 1e9};
	const struct lend_core_stats *s[2];
	uint32_t all = 0;

	open_world(&w, client, server, seed);
	w.every = client < QUEUE ? 8 : 1;
	for (uint32_t i = 0; i < SETTLE; i++)
		run_step(&w, per_step);
	memset(w.done, 0, sizeof(w.done));
	for (int i = 0; i < 2; i++) {
		s[i] = lend_core_stats(w.end[i].core);
		r.repeats -= (uint32_t)s[i]->repeats;
	}
	r.dropped = w.end[0].dropped + w.end[1].dropped;
	for (uint32_t i = 0; i < STEPS; i++)
		run_step(&w, per_step);
	for (uint32_t i = 0; i < SESSIONS; i++)
		all += w.done[i];
	for (uint32_t i = 0; i < SESSIONS; i++)
		r.least = w.done[i] * (double)SESSIONS / all < r.least
			      ? w.done[i] * (double)SESSIONS / all
			      : r.least;
	r.per_step = (double)all / STEPS;
	r.repeats += (uint32_t)(s[0]->repeats + s[1]->repeats);
	r.dropped = w.end[0].dropped + w.end[1].dropped - r.dropped;
	cr_assert_eq(w.other, 0, "seed %llu: a call ended neither OK nor by its deadline",
		     (unsigned long long)seed);
	close_world(&w);
	return r;
}

static void expect_rate(double per_step, uint32_t client, uint32_t server)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct result r = run_world(4 * SERVED, client, server, seed);

		cr_expect_geq(r.per_step, 0.9 * per_step, "seed %llu: %.1f answers per step",
			      (unsigned long long)seed, r.per_step);
		cr_expect_geq(r.least, 0.5, "seed %llu: a session got %.2f of its share",
			      (unsigned long long)seed, r.least);
		cr_expect_leq(r.dropped, STEPS * SERVED / 100, "seed %llu: %u dropped",
			      (unsigned long long)seed, r.dropped);
		cr_expect_leq(r.repeats, STEPS * SERVED / 100, "seed %llu: %u repeats",
			      (unsigned long long)seed, r.repeats);
	}
}

TestRuns(overload, four_times_the_peak__full_rate_for_all, expect_rate(SERVED, QUEUE, QUEUE));

/* Replies fill the client's queue as requests fill the server's: it may have 128 in flight, and
 * reads them every eighth step. */
TestRuns(overload, a_small_queue_at_the_client__no_reply_lost, expect_rate(128 / 8, 128, QUEUE));

/* The server has records for 24 calls of each session. Replies that wait for their acknowledgement
 * must not push each other out of a session's few ring entries. */
TestRuns(overload, no_queue_overflows__no_reply_resent, expect_rate(SERVED, DEEP, DEEP));

Test(overload, half_of_the_peak__no_call_waits)
{
	struct result r = run_world(SERVED / 2, QUEUE, QUEUE, 1);

	cr_assert_geq(r.per_step, 0.99 * SERVED / 2);
	cr_assert_eq(r.dropped + r.repeats, 0);
}

/* Runs steps in which session 0 always has as many calls as it may, and each other session as many
 * as given. Returns the calls of session 0 that ended per step; in *mean, those of a session. */
static double run_busy(struct world *w, uint32_t others, uint32_t steps, double *mean)
{
	uint32_t begun[SESSIONS] = {0}, all = 0;

	memset(w->done, 0, sizeof(w->done));
	for (uint32_t i = 0; i < steps; i++) {
		while (start_call(w, 0))
			continue;
		for (uint32_t s = 1; s < SESSIONS; s++)
			for (; begun[s] < w->done[s] + others; begun[s]++)
				cr_assert(start_call(w, s));
		run_step(w, 0);
	}
	for (uint32_t s = 0; s < SESSIONS; s++)
		all += w->done[s];
	*mean = (double)all / steps / SESSIONS;
	for (uint32_t s = 1; s < SESSIONS; s++)
		while (w->done[s] < begun[s])
			run_step(w, 0);
	return (double)w->done[0] / steps;
}

/* The equal share of a session is 8 calls. Sessions that use one each leave the rest to the busy
 * one, until they need it. */
Test(overload, others_use_little__busy_session_has_the_rest)
{
	static struct world w;
	double alone, crowded, again, mean, equal;

	open_world(&w, QUEUE, QUEUE, 1);
	(void)run_busy(&w, 1, SETTLE, &mean);
	alone = run_busy(&w, 1, SETTLE, &mean);
	(void)run_busy(&w, 24, SETTLE, &mean);
	crowded = run_busy(&w, 24, SETTLE, &equal);
	(void)run_busy(&w, 1, 8 * SETTLE, &mean);
	again = run_busy(&w, 1, SETTLE, &mean);
	cr_expect_geq(alone, SERVED, "%.1f calls per step", alone);
	cr_expect_leq(crowded, 2 * equal, "%.1f calls per step, a session %.1f", crowded, equal);
	/* Calls that wait share datagrams, of which the server takes SERVED per step. */
	cr_expect_geq(SESSIONS * equal, 4 * SERVED, "%.1f calls per step of a session", equal);
	cr_expect_geq(again, SERVED, "%.1f calls per step", again);
	/* When the round trip grows from two steps to 50, a session probes once or twice. */
	cr_expect_leq(w.end[0].dropped + w.end[1].dropped, 2 * SESSIONS);
	close_world(&w);
}

Test(overload, stopped_server__one_probe_per_session_and_timeout)
{
	static struct world w;
	const struct lend_core_stats *s;
	uint32_t all = 0;

	open_world(&w, QUEUE, QUEUE, 1);
	for (uint32_t i = 0; i < SETTLE; i++)
		run_step(&w, 4 * SERVED);
	s = lend_core_stats(w.end[0].core);
	w.silent = true;
	all = (uint32_t)s->repeats;
	for (uint32_t i = 0; i < 20 * MS / STEP_NS; i++)
		run_step(&w, 4 * SERVED);
	/* Each session's probe at 1, 3, 7 and 15 ms, and calls that were due before the loss was
	 * noticed. Retransmitting all in flight would be eight per session and timeout. */
	cr_assert_leq(s->repeats - all, 8 * SESSIONS, "%u", (uint32_t)s->repeats - all);
	cr_assert_geq(s->repeats - all, SESSIONS);
	w.silent = false;
	memset(w.done, 0, sizeof(w.done));
	for (uint32_t i = 0; i < SETTLE; i++)
		run_step(&w, 4 * SERVED);
	all = 0;
	for (uint32_t i = 0; i < SESSIONS; i++)
		all += w.done[i];
	cr_assert_geq(all, SETTLE * SERVED * 9 / 10, "%u", all);
	close_world(&w);
}

/* Calls that were lost together are not retransmitted together: the retransmissions of calls from
 * one turn are spread over several turns. */
Test(overload, resends__spread_over_a_quarter_of_the_timeout)
{
	static struct world w;
	uint64_t handle;
	uint32_t most = 0, last, all = 0;
	const struct lend_core_stats *s;
	struct lend_bufs none = {.seg = NULL};

	open_world(&w, QUEUE, QUEUE, 1);
	s = lend_core_stats(w.end[0].core);
	w.silent = true;
	for (uint32_t i = 0; i < SESSIONS; i++) {
		struct lend_core_call c = {.method = 1, .class = 3, .deadline = LEND_NEVER};

		cr_assert_eq(lend_core_call(w.end[0].core, w.now, w.session[i], &none, &c, &handle),
			     0);
	}
	for (uint32_t i = 0; i < 50 * MS / STEP_NS; i++) {
		last = (uint32_t)s->repeats;
		run_step(&w, 0);
		last = (uint32_t)s->repeats - last;
		/* The first retransmission of all calls is due at one time. */
		if (all >= SESSIONS && last > most)
			most = last;
		all += last;
	}
	cr_assert_geq(all, 3 * SESSIONS);
	cr_assert_leq(most, SESSIONS / 4, "%u of %u sessions retransmitted at once", most,
		      SESSIONS);
	close_world(&w);
}

/* Two calls of each session are made one after the other: they share a datagram. With one datagram
 * each, and the report only in the first, the lengths would alternate, and GSO could not batch
 * them. */
Test(overload, gso_carrier__batch_of_equal_lengths)
{
	struct lend_bufs none = {.seg = NULL};
	static struct world w;
	struct lend_out out[32];
	uint32_t n, changes = 0;

	open_world(&w, QUEUE, QUEUE, 1);
	for (uint32_t round = 0; round < 10; round++) {
		for (uint32_t k = 0; k < 32; k++) {
			struct lend_core_call c = {.method = 1, .class = 3, .deadline = LEND_NEVER};
			uint64_t handle;

			cr_assert_eq(lend_core_call(w.end[0].core, w.now, w.session[k / 2], &none,
						    &c, &handle),
				     0);
		}
		if (round == 9)
			break;
		for (int i = 0; i < 4; i++)
			run_step(&w, 0);
	}
	n = lend_core_output(w.end[0].core, w.now, &none, out, 32);
	for (uint32_t i = 1; i < n; i++)
		changes += out[i].head_len != out[i - 1].head_len;
	cr_assert_eq(n, 16);
	cr_assert_eq(changes, 0, "%u neighbours differ in length", changes);
	close_world(&w);
}

Test(overload, window__code__round_trip)
{
	for (uint32_t n = 1; n < 2048; n++) {
		uint32_t w = lend_window_of(lend_window_code(n));

		cr_assert(n >= LEND_CALLS_MAX ? w == LEND_CALLS_MAX : w <= n && w > n - n / 8 - 1,
			  "%u: %u", n, w);
	}
	for (uint32_t code = 0; code < 256; code++)
		cr_assert(lend_window_of((uint8_t)code) >= 1 &&
			  lend_window_of((uint8_t)code) <= LEND_CALLS_MAX);
}
