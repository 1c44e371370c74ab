/* Goal: under loss, duplication and reordering every call ends once, with its own bytes, its
 * handler having run at most once, and all buffers, credits and slots come back once the network
 * heals. Method: seeded weather over two cores, calls of boundary sizes both named and pooled,
 * cancels and deadlines among them; then calm, and an audit. LEND_SEED=n runs one seed; the seed of
 * a failure is printed. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "util/rng.h"

enum { BUFS = 512, CALLS = 60, NET = 4096, MTU = 1472 };

struct flight {
	uint8_t data[MTU];
	uint32_t len;
	int to;
	lend_ns at;
};

struct ask {
	uint64_t handle;
	uint32_t len, reply_len;
	int ends, runs;
	bool cancelled, refused;
};

struct peer {
	struct lend_core *core;
	struct lend_seg seg[BUFS];
	bool taken[BUFS];
	struct lend_bufs bufs;
	uint64_t session;
};

struct storm {
	struct peer peer[2];
	struct flight net[NET];
	uint32_t n;
	struct ask ask[CALLS];
	uint32_t asked, ended;
	lend_ns now;
	struct lend_rng work, weather;
	uint64_t seed;
	uint32_t loss, dup, jitter_us; /* per mille; microseconds */
	bool lossless;
	uint64_t waiting[64]; /* requests the server has not answered yet */
	uint32_t waiting_ask[64], waiting_n;
	uint32_t runs;
};

#define SEED (unsigned long long)s->seed

static uint32_t buf(struct storm *s, int who, uint32_t cap, uint32_t len)
{
	struct peer *p = &s->peer[who];

	for (uint32_t b = 1; b < BUFS; b++)
		if (!p->taken[b]) {
			p->taken[b] = true;
			p->seg[b] = (struct lend_seg){calloc(1, cap + 1), len, cap, 0};
			return b;
		}
	cr_assert_fail("seed %llu: out of buffers", SEED);
	return 0;
}

static void put_back(struct storm *s, int who, uint32_t b)
{
	struct peer *p = &s->peer[who];

	for (; b; b = p->seg[b].next) {
		cr_assert(p->taken[b], "seed %llu: buffer twice", SEED);
		p->taken[b] = false;
		free(p->seg[b].data);
	}
}

static uint8_t byte_of(uint32_t ask, bool reply, uint32_t i)
{
	return (uint8_t)(ask * 31 + reply * 97 + i * 7 + i / 1376);
}

static void paint(struct storm *s, int who, uint32_t b, uint32_t ask, bool reply)
{
	uint8_t *data = s->peer[who].seg[b].data;

	for (uint32_t i = 4; i < s->peer[who].seg[b].len; i++)
		data[i] = byte_of(ask, reply, i);
	if (s->peer[who].seg[b].len >= 4)
		memcpy(data, &ask, 4);
}

static void inspect(struct storm *s, const uint8_t *data, uint32_t len, uint32_t ask, bool reply)
{
	for (uint32_t i = 4; i < len; i++)
		if (data[i] != byte_of(ask, reply, i))
			cr_assert_fail("seed %llu: call %u, byte %u of %u is wrong", SEED, ask, i,
				       len);
}

static uint32_t pick_len(struct storm *s)
{
	static const uint32_t edge[] = {4,     5,     100,   1375,  1376,  1377,   2752,
					40000, 65535, 65536, 65537, 90000, 300000, 8};

	return edge[lend_rng_below(&s->work, sizeof(edge) / sizeof(edge[0]))];
}

static void start(struct storm *s)
{
	struct peer *p = &s->peer[0];
	struct ask *a = &s->ask[s->asked];
	struct lend_core_call call = {.method = 1, .tag = s->asked, .deadline = LEND_NEVER};
	int rc;

	a->len = pick_len(s);
	a->reply_len = pick_len(s);
	call.request = buf(s, 0, a->len, a->len);
	paint(s, 0, call.request, s->asked, false);
	if (lend_rng_below(&s->work, 2))
		call.reply = buf(s, 0, a->reply_len, 0);
	if (lend_rng_below(&s->work, 8) == 0)
		call.deadline = s->now + lend_rng_below(&s->work, 20000000);
	rc = lend_core_call(p->core, s->now, p->session, &p->bufs, &call, &a->handle);
	if (rc < 0) {
		cr_assert_eq(rc, -11, "seed %llu: %d", SEED, rc);
		put_back(s, 0, call.request);
		put_back(s, 0, call.reply);
		return;
	}
	a->cancelled = call.deadline != LEND_NEVER;
	s->asked++;
}

static void on_request(struct storm *s, const struct lend_event *e)
{
	const uint8_t *data = e->data ? e->data : s->peer[1].seg[e->buf].data;
	uint32_t ask;

	memcpy(&ask, data, 4);
	cr_assert_lt(ask, s->asked, "seed %llu", SEED);
	cr_assert_eq(e->len, s->ask[ask].len, "seed %llu", SEED);
	cr_assert_eq(s->ask[ask].runs++, 0, "seed %llu: call %u ran twice", SEED, ask);
	inspect(s, data, (uint32_t)e->len, ask, false);
	put_back(s, 1, e->buf);
	s->waiting[s->waiting_n] = e->call;
	s->waiting_ask[s->waiting_n++] = ask;
}

static void on_call_end(struct storm *s, const struct lend_event *e)
{
	struct ask *a = &s->ask[e->tag];
	const uint8_t *data = e->data    ? e->data
			      : e->reply ? s->peer[0].seg[e->reply].data
					 : (const uint8_t *)"";

	cr_assert_eq(a->ends++, 0, "seed %llu: call %llu ended twice", SEED,
		     (unsigned long long)e->tag);
	s->ended++;
	if (e->status == 0) {
		cr_assert_eq(e->len, a->reply_len, "seed %llu", SEED);
		cr_assert_eq(a->runs, 1);
		inspect(s, data, a->reply_len, (uint32_t)e->tag, true);
	} else {
		cr_assert(a->cancelled, "seed %llu: status %d", SEED, e->status);
		cr_assert(e->ran != 0 || a->runs == 0, "seed %llu: ran, and said no", SEED);
	}
	put_back(s, 0, e->buf);
	put_back(s, 0, e->reply);
}

static void on_event(struct storm *s, int who, const struct lend_event *e)
{
	struct peer *p = &s->peer[who];

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
		p->session = e->session;
		return;
	case LEND_EV_SESSION_DOWN:
		cr_assert_fail("seed %llu: session down %d", SEED, e->status);
		return;
	case LEND_EV_NEED:
		cr_assert_eq(
		    lend_core_attach(p->core, e->call, &p->bufs, buf(s, who, (uint32_t)e->len, 0)),
		    0);
		return;
	case LEND_EV_REQUEST:
		on_request(s, e);
		return;
	case LEND_EV_CALL_END:
		on_call_end(s, e);
		return;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		put_back(s, who, e->buf);
		return;
	case LEND_EV_CANCELLED:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
		return;
	}
}

static void poll_events(struct storm *s, int who)
{
	struct lend_event ev[8];
	uint32_t n;

	while ((n = lend_core_poll(s->peer[who].core, ev, 8)) > 0)
		for (uint32_t i = 0; i < n; i++)
			on_event(s, who, &ev[i]);
	while (lend_core_supply_wanted(s->peer[who].core))
		lend_core_supply(s->peer[who].core, buf(s, who, 65536, 0));
}

static void fly(struct storm *s, int from, const struct lend_out *o)
{
	uint32_t copies = 1;

	if (!s->lossless && lend_rng_below(&s->weather, 1000) < s->loss)
		copies = 0;
	else if (!s->lossless && lend_rng_below(&s->weather, 1000) < s->dup)
		copies = 2;
	while (copies-- > 0) {
		struct flight *f = &s->net[s->n++];

		cr_assert_leq(s->n, NET, "seed %llu", SEED);
		memcpy(f->data, o->head, f->len = o->head_len);
		for (int i = 0; i < o->n; i++) {
			memcpy(f->data + f->len,
			       (uint8_t *)s->peer[from].seg[o->piece[i].buf].data +
				   o->piece[i].offset,
			       o->piece[i].len);
			f->len += o->piece[i].len;
		}
		if (o->tail_len)
			memcpy(f->data + f->len, o->tail, o->tail_len);
		f->len += o->tail_len;
		f->to = !from;
		f->at = s->now + 10000;
		if (!s->lossless)
			f->at += lend_rng_below(&s->weather, s->jitter_us + 1) * 1000;
	}
}

static void output(struct storm *s, int who)
{
	struct lend_out out[16];
	uint32_t n;

	poll_events(s, who);
	/* A lossless carrier is full now and then; and so that the table above never is. */
	while (s->n < NET - 64 &&
	       (n = lend_core_output(s->peer[who].core, s->now, &s->peer[who].bufs, out, 16)) > 0) {
		for (uint32_t i = 0; i < n; i++) {
			out[i].sent =
			    lend_rng_below(&s->weather, 1000) < 20 ? LEND_SENT_FULL : LEND_SENT;
			if (out[i].sent == LEND_SENT)
				fly(s, who, &out[i]);
		}
		lend_core_sent(s->peer[who].core, out, n);
	}
	poll_events(s, who);
}

static void land(struct storm *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		struct flight *f = &s->net[i];
		struct lend_in in = {.data = f->data, .len = f->len, .peer = LEND_PEER(0, 3)};

		if (f->at > s->now) {
			if (kept != i)
				s->net[kept] = *f;
			kept++;
			continue;
		}
		lend_core_input(s->peer[f->to].core, s->now, &s->peer[f->to].bufs, &in, 1);
		poll_events(s, f->to);
	}
	s->n = kept;
}

static void answer(struct storm *s)
{
	uint32_t i, ask, b;

	if (s->waiting_n == 0 || lend_rng_below(&s->work, 3) == 0)
		return;
	i = (uint32_t)lend_rng_below(&s->work, s->waiting_n);
	ask = s->waiting_ask[i];
	b = buf(s, 1, s->ask[ask].reply_len, s->ask[ask].reply_len);
	paint(s, 1, b, ask, true);
	cr_assert_eq(
	    lend_core_reply(s->peer[1].core, s->now, s->waiting[i], &s->peer[1].bufs, 0, b), 0,
	    "seed %llu", SEED);
	s->waiting[i] = s->waiting[--s->waiting_n];
	s->waiting_ask[i] = s->waiting_ask[s->waiting_n];
}

static void step(struct storm *s)
{
	lend_ns next = s->now + 50000;

	for (uint32_t i = 0; i < s->n; i++)
		next = s->net[i].at > s->now && s->net[i].at < next ? s->net[i].at : next;
	for (int i = 0; i < 2; i++) {
		lend_ns at = lend_core_deadline(s->peer[i].core);

		next = at > s->now && at < next ? at : next;
	}
	s->now = next;
	land(s);
	answer(s);
	for (int i = 0; i < 2; i++) {
		lend_core_tick(s->peer[i].core, s->now);
		output(s, i);
	}
}

static void open_peer(struct storm *s, int who)
{
	struct lend_core_config c = {.sessions = 2,
				     .calls = 8,
				     .inflight = 16,
				     .reassemblies = 1 + (uint32_t)lend_rng_below(&s->work, 5),
				     .message_max = 1 << 20,
				     .receive_budget = 100000 + lend_rng_below(&s->work, 2000000),
				     .unscheduled = 65536,
				     .probe = 500000000,
				     .dead = 5000000000};
	struct peer *p = &s->peer[who];

	c.path[0] = (struct lend_path){MTU, s->lossless, s->lossless, s->lossless};
	memset(c.incarnation, who + 1, 16);
	memset(c.seed, (int)s->seed + who, 32);
	p->core = aligned_alloc(64, lend_core_size(&c));
	memset(p->core, 0, lend_core_size(&c));
	lend_core_init(p->core, &c, s->now);
	p->bufs = (struct lend_bufs){p->seg, BUFS};
	poll_events(s, who);
}

static void audit(struct storm *s)
{
	for (int i = 0; i < 2; i++) {
		uint32_t out = 0;

		for (uint32_t b = 1; b < BUFS; b++)
			out += s->peer[i].taken[b];
		while (out > 0 && lend_core_supply_wanted(s->peer[i].core) == 0 && out <= 32)
			break;
		cr_assert_leq(out, 5, "seed %llu: side %d holds %u buffers", SEED, i, out);
		for (uint32_t b = 1; b < BUFS; b++)
			if (s->peer[i].taken[b])
				free(s->peer[i].seg[b].data);
		free(s->peer[i].core);
	}
}

static void run(uint64_t seed, bool lossless)
{
	struct storm *s = calloc(1, sizeof(*s));
	uint32_t steps = 0;

	s->seed = seed;
	s->now = 1000000000;
	s->lossless = lossless;
	lend_rng_seed(&s->work, seed);
	lend_rng_seed(&s->weather, ~seed);
	s->loss = (uint32_t)lend_rng_below(&s->weather, 300);
	s->dup = (uint32_t)lend_rng_below(&s->weather, 300);
	s->jitter_us = (uint32_t)lend_rng_below(&s->weather, 400);
	open_peer(s, 0);
	open_peer(s, 1);
	cr_assert_eq(
	    lend_core_connect(s->peer[0].core, s->now, LEND_PEER(0, 3), 0, &s->peer[0].session), 0);
	for (; s->ended < CALLS; steps++) {
		cr_assert_lt(steps, 400000, "seed %llu: stuck, %u of %u ended", SEED, s->ended,
			     s->asked);
		if (s->asked < CALLS && lend_rng_below(&s->work, 4) == 0)
			start(s);
		if (s->asked > 0 && lend_rng_below(&s->work, 200) == 0) {
			uint32_t i = (uint32_t)lend_rng_below(&s->work, s->asked);

			if (!s->ask[i].ends)
				s->ask[i].cancelled = true;
			lend_core_cancel(s->peer[0].core, s->ask[i].handle, 1);
		}
		step(s);
	}
	s->loss = s->dup = 0;
	for (lend_ns end = s->now + 2000000000; s->now < end;)
		step(s);
	while (s->waiting_n)
		answer(s);
	for (lend_ns end = s->now + 1000000000; s->now < end;)
		step(s);
	audit(s);
	free(s);
}

static void seeds(bool lossless)
{
	const char *one = getenv("LEND_SEED");

	if (one) {
		run(strtoull(one, NULL, 0), lossless);
		return;
	}
	for (uint64_t seed = 1; seed <= 60; seed++)
		run(seed, lossless);
}

Test(storm, lossy)
{
	seeds(false);
}

Test(storm, lossless_and_often_full)
{
	seeds(true);
}
