/* Goal: no hostile datagram stops a core, makes it read out of bounds, leak or send more than it
 * may; and each reason to drop one is counted. Method: two cores exchange datagrams, all of which
 * are recorded. 200,000 hostile ones are put in between: half of them mutations of recorded traffic
 * with a valid session, the others random bytes, truncations, other
 * versions, unknown sessions, earlier generations, false lengths and offsets. Sessions that the
 * hostile traffic ends are opened again. LEND_SEED=n repeats a run. Covers: src/core/input.c,
 * src/core/handshake.c, src/core/rx.c, src/core/server_call.c, src/wire/pkt.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/cc.h"
#include "core/core.h"
#include "fuzz/replay_bad.h"

enum { HOSTILE = 200000, BUFS = 2048, TAPE = 512 };

struct side {
	struct lend_core *core;
	struct lend_seg seg[BUFS];
	bool taken[BUFS];
	struct lend_bufs bufs;
	uint64_t session;
	uint64_t running[64];
	uint32_t running_n;
};

static struct side sides[2];
static struct dgram tape[2][TAPE]; /* by receiver */
static uint32_t tape_n[2];
static struct dgram greeting; /* the first datagram: a client's hello */
static struct lend_rng rng;
static uint64_t seed;
static lend_ns now;
static bool full_now;
static uint64_t ends, starts;

static uint32_t pick_below(uint32_t n)
{
	return bad_pick(&rng, n);
}

static uint32_t take_buf(int side, uint32_t cap)
{
	struct side *s = &sides[side];

	for (uint32_t b = 1; b < BUFS; b++)
		if (!s->taken[b]) {
			s->taken[b] = true;
			s->seg[b] = (struct lend_seg){malloc(cap), cap, cap, 0, 0};
			memset(s->seg[b].data, 7, cap);
			return b;
		}
	cr_assert_fail("seed %llu: buffers leak", (unsigned long long)seed);
	return 0;
}

static void give_buf(int side, uint32_t b)
{
	if (!b)
		return;
	cr_assert(sides[side].taken[b], "seed %llu: twice", (unsigned long long)seed);
	sides[side].taken[b] = false;
	free(sides[side].seg[b].data);
}

static void on_event(int side, const struct lend_event *e)
{
	struct side *s = &sides[side];

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
		if (e->tag)
			s->session = e->session;
		return;
	case LEND_EV_NEED:
		if (pick_below(4)) {
			uint32_t b = e->len <= 1 << 20 ? take_buf(side, (uint32_t)e->len) : 0;

			cr_assert_eq(lend_core_attach(s->core, e->call, &s->bufs, b), 0);
		}
		return;
	case LEND_EV_REQUEST:
		give_buf(side, e->buf);
		if (s->running_n < 64)
			s->running[s->running_n++] = e->call;
		else
			lend_core_reply(s->core, now, e->call, &s->bufs, 0, 0);
		return;
	case LEND_EV_CALL_END:
		ends++;
		give_buf(side, e->buf);
		give_buf(side, e->reply);
		return;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		give_buf(side, e->buf);
		return;
	case LEND_EV_SESSION_DOWN:
	case LEND_EV_CANCELLED:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
	case LEND_EV_PROVE:
		return;
	}
}

static void poll_events(int side)
{
	const struct lend_event *ev;

	while ((ev = lend_core_next(sides[side].core)))
		on_event(side, ev);
	while (!full_now && lend_core_supply_wanted(sides[side].core))
		lend_core_supply(sides[side].core, take_buf(side, 65536));
}

static void input_datagram(int side, const uint8_t *data, uint32_t len, uint32_t peer)
{
	struct lend_in in = {.len = len,
			     .peer = LEND_PEER(0, peer),
			     .ecn = (uint8_t)pick_below(2),
			     .addr = &peer,
			     .addr_len = sizeof(peer)};
	uint8_t *exact = malloc(len ? len : 1);

	memcpy(exact, data, len);
	in.data = exact;
	lend_core_input(sides[side].core, now, &sides[side].bufs, &in, 1);
	poll_events(side);
	free(exact);
}

static void record_datagram(int to, const struct dgram *d)
{
	if (greeting.len == 0)
		greeting = *d;
	tape[to][tape_n[to]++ % TAPE] = *d;
}

static void gather_datagram(int side, const struct lend_out *out, struct dgram *d)
{
	d->len = out->head_len;
	memcpy(d->data, out->head, d->len);
	for (int p = 0; p < out->n; p++) {
		const struct lend_piece *w = &out->piece[p];

		memcpy(d->data + d->len, (uint8_t *)sides[side].seg[w->buf].data + w->offset,
		       w->len);
		d->len += w->len;
	}
	if (out->tail_len)
		memcpy(d->data + d->len, out->tail, out->tail_len);
	d->len += out->tail_len;
}

/* Delivers half of them, so that the tape holds datagrams that are still valid. */
static void flush_output(int side)
{
	struct lend_out out[32];
	uint32_t n;

	while ((n = lend_core_output(sides[side].core, now, &sides[side].bufs, out, 32)) > 0) {
		for (uint32_t i = 0; i < n; i++)
			out[i].sent = pick_below(50) ? LEND_SENT : LEND_SENT_FULL;
		for (uint32_t i = 0; i < n; i++) {
			struct dgram d;

			if (out[i].sent != LEND_SENT)
				continue;
			gather_datagram(side, &out[i], &d);
			record_datagram(!side, &d);
			if (pick_below(2))
				input_datagram(!side, d.data, d.len, 1);
		}
		lend_core_sent(sides[side].core, out, n);
	}
}

static void live_turn(void)
{
	static const uint32_t len[] = {0, 10, 1376, 3000, 60000, 200000};
	struct side *s = &sides[0];
	struct lend_core_call call = {.method = 1, .zero_rtt = 1, .tag = 1};
	uint64_t handle;

	now += 1000 + pick_below(300000);
	if (pick_below(400) == 0)
		now += 6000000000;
	call.deadline = now + pick_below(50000000);
	call.request = take_buf(0, len[pick_below(6)]);
	if (lend_core_call(s->core, now, s->session, &s->bufs, &call, &handle) == 0) {
		starts++;
		if (pick_below(6) == 0)
			lend_core_cancel(s->core, handle, 1);
	} else {
		give_buf(0, call.request);
		if (pick_below(8) == 0 &&
		    lend_core_connect(s->core, now, LEND_PEER(0, 1), 9, NULL, &s->session) == 0)
			lend_core_set_server(s->core, s->session, 1);
	}
	for (int i = 0; i < 2; i++) {
		lend_core_tick(sides[i].core, now);
		poll_events(i);
		flush_output(i);
	}
	while (sides[1].running_n > 8 || (sides[1].running_n && pick_below(2))) {
		uint64_t r = sides[1].running[--sides[1].running_n];
		uint32_t b = pick_below(2) ? take_buf(1, len[pick_below(6)]) : 0;

		if (lend_core_reply(sides[1].core, now, r, &sides[1].bufs, (uint8_t)pick_below(17),
				    b) < 0)
			give_buf(1, b);
	}
}

static void hostile_turn(int to, struct dgram *d, bool recorded)
{
	if (pick_below(100) == 0) {
		*d = greeting;
		bad_greet(&rng, d);
	} else if (recorded && tape_n[to]) {
		*d = tape[to][pick_below(tape_n[to] < TAPE ? tape_n[to] : TAPE)];
		bad_mutate(&rng, d);
	} else {
		bad_invent(&rng, d);
	}
}

static void open_side(int side)
{
	struct lend_core_config c = {.sessions = 6,
				     .calls = 8,
				     .inflight = 24,
				     .reassemblies = 4,
				     .message_max = 1 << 20,
				     .receive_budget = 1 << 20,
				     .unscheduled = 65536,
				     .probe = 500000000,
				     .dead = 5000000000,
				     .ticket_ns = 30000000000,
				     .attempts = 16,
				     .congestion = side ? LEND_CC_NONE : LEND_CC_CREDIT};
	struct side *s = &sides[side];

	c.path[0] = (struct lend_path){.mtu = MTU};
	memset(c.incarnation, side + 1, 16);
	memset(c.seed, (int)seed + side, 32);
	s->core = aligned_alloc(64, lend_core_size(&c));
	memset(s->core, 0, lend_core_size(&c));
	lend_core_init(s->core, &c, now);
	s->bufs = (struct lend_bufs){s->seg, BUFS};
	poll_events(side);
}

/* Answers all requests, and drops all that is sent. */
static void fall_silent(struct side *s)
{
	struct lend_out out[32];
	uint32_t n;

	while ((n = lend_core_output(s->core, now, &s->bufs, out, 32)) > 0) {
		for (uint32_t i = 0; i < n; i++)
			out[i].sent = LEND_SENT;
		lend_core_sent(s->core, out, n);
	}
	while (s->running_n)
		lend_core_reply(s->core, now, s->running[--s->running_n], &s->bufs, 0, 0);
}

/* True: hostile datagrams alone do not move this counter; test/scen has a case for each. */
static bool takes_a_story(const char *name)
{
	static const char *const all[] = {
	    "greedy",        "credit_back",      "zero_rtt", "zero_rtt_replayed",
	    "zero_rtt_full", "zero_rtt_unknown", "refused",  "rx_unproven",
	    "rx_full",       "no_record",        "released", "cut",
	    "idle_evicted",  "rx_level",         "rx_own",   "host_waits"};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(name, all[i]) == 0)
			return true;
	return false;
}

/* Longer than any lifetime. */
static void drain_all(void)
{
	for (int n = 0; n < 100; n++) {
		now += 500000000;
		for (int i = 0; i < 2; i++) {
			lend_core_tick(sides[i].core, now);
			poll_events(i);
			fall_silent(&sides[i]);
			poll_events(i);
		}
	}
}

Test(replay, hostile_datagrams_change_nothing_but_counters, .timeout = 200)
{
	uint64_t total[2][64];
	const char *name[64];
	uint32_t names = 0;

	seed = getenv("LEND_SEED") ? strtoull(getenv("LEND_SEED"), NULL, 0) : 20261120;
	lend_rng_seed(&rng, seed);
	now = 1000000000;
	open_side(0);
	open_side(1);
	cr_assert_eq(
	    lend_core_connect(sides[0].core, now, LEND_PEER(0, 1), 9, NULL, &sides[0].session), 0);
	for (int i = 0; i < 20; i++)
		live_turn();
	for (uint32_t i = 0; i < HOSTILE; i++) {
		struct dgram d;
		int to = (int)pick_below(2);

		if (pick_below(6) == 0)
			live_turn();
		full_now = pick_below(1000) < 300;
		hostile_turn(to, &d, i % 2);
		input_datagram(to, d.data, d.len, pick_below(30) ? 1 : 2 + pick_below(5));
	}
	full_now = false;
	for (int w = 0; w < 2; w++) {
		names = 0;
#define X(field, text)                                                                             \
	total[w][names] = lend_core_stats(sides[w].core)->field;                                   \
	name[names++] = #field;
		LEND_CORE_STATS(X)
#undef X
	}
	for (uint32_t i = 0; i < names; i++)
		cr_expect(takes_a_story(name[i]) || total[0][i] + total[1][i] > 0,
			  "seed %llu: never counted: %s", (unsigned long long)seed, name[i]);
	drain_all();
	cr_expect_eq(ends, starts, "seed %llu: %llu calls started, %llu ended",
		     (unsigned long long)seed, (unsigned long long)starts,
		     (unsigned long long)ends);
	for (int w = 0; w < 2; w++) {
		uint32_t out = 0;

		for (uint32_t b = 1; b < BUFS; b++)
			out += sides[w].taken[b];
		cr_expect_eq(out, 4, "seed %llu: side %d holds %u buffers, 4 of them supplied",
			     (unsigned long long)seed, w, out);
		cr_expect_eq(lend_core_deadline(sides[w].core), LEND_NEVER);
	}
}
