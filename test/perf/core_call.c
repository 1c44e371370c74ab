/* core_call - the cost of a call in the protocol core alone: two cores, no carrier, no clock.
 * perf_core_call [-s BYTES] [-w WINDOW] [-n CALLS] [-S SESSIONS] [-b CALLS]
 * [-p lossless|network] [-a none|timely|swift|dctcp|credit] [-f always|never]
 * -f never: every call takes the slow path. -b: a session makes so many calls at once, then the
 * next one, and so on; prints the memory of a session at each end, too: cache lines that are not 0.
 * Both sides run the steps of src/rpc/loop.c: input, events, tick when due, output, sent. Two
 * arrays of datagrams connect them; time passes as it would on a busy core. The cycles printed
 * include this file; `count.sh` has callgrind count the instructions inside the core only. Threads:
 * one. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "core/cc.h"
#include "core/core.h"
#include "util/check.h"

enum {
	BURST = 32,
	CARRIED = 4096,
	BUFS = 4096, /* and two per session: a server keeps its replies */
	MTU = 1456,
	TURN_NS = 100,
	SLOW_TURN_NS = 1000000, /* with -b: the sessions before become idle */
	ITEM_NS = 50
};

struct dgram {
	uint8_t data[MTU];
	uint32_t len;
};

struct side {
	struct lend_core *core;
	size_t arena;           /* bytes of the core */
	const uint32_t *events; /* the number of the core's events that wait */
	struct lend_bufs bufs;
	uint32_t *free, n_free;
	struct dgram *wire; /* in flight to this side: [first, end) modulo CARRIED */
	uint32_t first, end;
};

struct bench {
	struct side side[2]; /* 0 calls, 1 serves */
	lend_ns now;
	uint64_t *session; /* calls use them in turn */
	uint32_t sessions, batch, size, reply_size, window, in_flight;
	uint64_t calls, started, ended;
};

static uint32_t take_buf(struct side *s, uint32_t len)
{
	uint32_t buf;

	LEND_CHECK(s->n_free > 0);
	buf = s->free[--s->n_free];
	s->bufs.seg[buf].len = len;
	s->bufs.seg[buf].next = 0;
	return buf;
}

static void give_buf(struct side *s, uint32_t buf)
{
	if (buf)
		s->free[s->n_free++] = buf;
}

/* The config that src/rpc derives from its defaults. */
static struct lend_core_config config_of(const struct lend_path *path, uint32_t sessions,
					 enum lend_cc congestion)
{
	struct lend_core_config f = {.sessions = sessions,
				     .calls = 64,
				     .inflight = 1024 + 2 * sessions,
				     .reassemblies = 64,
				     .message_max = 8 << 20,
				     .receive_budget = 64 << 20,
				     .unscheduled = 65536,
				     .probe = 500000000,
				     .dead = 5000000000,
				     .congestion = (uint8_t)congestion};

	f.path[0] = *path;
	return f;
}

static void open_bufs(struct side *s, uint32_t n, uint32_t size)
{
	uint8_t *memory = aligned_alloc(64, (size_t)n * size);

	s->bufs = (struct lend_bufs){calloc(n, sizeof(struct lend_seg)), n};
	s->free = calloc(n, sizeof(*s->free));
	LEND_CHECK(memory && s->bufs.seg && s->free);
	memset(memory, 0x5a, (size_t)n * size);
	for (uint32_t i = 1; i < n; i++) {
		s->bufs.seg[i] = (struct lend_seg){.data = memory + (size_t)i * size, .cap = size};
		give_buf(s, i);
	}
}

static void open_side(struct side *s, const struct lend_core_config *config, uint8_t seed,
		      lend_ns now)
{
	struct lend_core_config f = *config;
	size_t len = lend_core_size(&f);
	void *arena = aligned_alloc(64, len);

	s->wire = calloc(CARRIED, sizeof(*s->wire));
	LEND_CHECK(arena && s->wire);
	memset(f.seed, seed, sizeof(f.seed));
	memset(f.incarnation, seed, sizeof(f.incarnation));
	memset(arena, 0, len);
	s->core = lend_core_init(arena, &f, now);
	s->arena = len;
	s->events = lend_core_waiting(s->core);
}

/* Answers as src/rpc does. */
static void send_reply(struct bench *b, struct side *s, uint64_t call)
{
	uint32_t len = b->reply_size, reply = take_buf(s, len);

	if (len <= LEND_KEPT_MAX &&
	    lend_core_reply_short(s->core, b->now, call, 0, s->bufs.seg[reply].data, len) == 0)
		give_buf(s, reply);
	else
		LEND_CHECK(lend_core_reply(s->core, b->now, call, &s->bufs, 0, reply) == 0);
}

static void on_event(struct bench *b, struct side *s, const struct lend_event *e)
{
	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_REQUEST:
		send_reply(b, s, e->call);
		return;
	case LEND_EV_CALL_END:
		LEND_CHECK(e->status == 0 && e->data_len == b->reply_size);
		give_buf(s, e->buf);
		b->in_flight--;
		b->ended++;
		return;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		give_buf(s, e->buf);
		return;
	case LEND_EV_SESSION_UP:
	case LEND_EV_SESSION_DOWN:
	case LEND_EV_NEED:
	case LEND_EV_CANCELLED:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
	case LEND_EV_PROVE:
		return;
	}
}

static void handle_events(struct bench *b, struct side *s)
{
	const struct lend_event *ev;

	while (*s->events)
		for (uint32_t n = lend_core_events(s->core, &ev); n > 0; n--)
			on_event(b, s, ev++);
}

static uint32_t receive_burst(struct bench *b, struct side *s)
{
	struct lend_in in[BURST];
	uint32_t n = 0;

	for (; n < BURST && s->first != s->end; n++) {
		const struct dgram *g = &s->wire[s->first++ % CARRIED];

		in[n] = (struct lend_in){.data = g->data, .len = g->len, .peer = LEND_PEER(0, 1)};
	}
	if (n)
		lend_core_input(s->core, b->now, &s->bufs, in, n);
	return n;
}

static void carry_burst(const struct side *from, struct side *to, struct lend_out *o)
{
	struct dgram *g = &to->wire[to->end++ % CARRIED];

	LEND_CHECK(to->end - to->first <= CARRIED);
	memcpy(g->data, o->head, g->len = o->head_len);
	for (uint32_t i = 0; i < o->n; i++) {
		const struct lend_piece *p = &o->piece[i];

		memcpy(g->data + g->len, (const uint8_t *)from->bufs.seg[p->buf].data + p->offset,
		       p->len);
		g->len += p->len;
	}
	if (o->tail_len)
		memcpy(g->data + g->len, o->tail, o->tail_len);
	g->len += o->tail_len;
	o->sent = LEND_SENT;
}

static uint32_t transmit_burst(struct bench *b, struct side *s, struct side *peer)
{
	struct lend_out out[BURST];
	uint32_t n = lend_core_output(s->core, b->now, &s->bufs, out, BURST);

	for (uint32_t i = 0; i < n; i++)
		carry_burst(s, peer, &out[i]);
	if (n)
		lend_core_sent(s->core, out, n);
	return n;
}

static void run_turn(struct bench *b, int i)
{
	struct side *s = &b->side[i];
	uint32_t moved = receive_burst(b, s), n;

	handle_events(b, s);
	if (lend_core_deadline(s->core) <= b->now)
		lend_core_tick(s->core, b->now);
	handle_events(b, s);
	do {
		n = transmit_burst(b, s, &b->side[!i]);
		moved += n;
		handle_events(b, s);
	} while (n == BURST);
	b->now += (b->batch > 1 ? SLOW_TURN_NS : TURN_NS) + moved * ITEM_NS;
}

static void start_calls(struct bench *b)
{
	struct side *s = &b->side[0];
	uint64_t handle;

	if (b->batch > 1 && b->in_flight)
		return;
	while (b->in_flight < b->window && b->started < b->calls) {
		struct lend_core_call call = {.method = 1,
					      .class = 3,
					      .deadline = b->now + 10000000000,
					      .request = take_buf(s, b->size)};

		LEND_CHECK(lend_core_call(s->core, b->now,
					  b->session[b->started / b->batch % b->sessions], &s->bufs,
					  &call, &handle) == 0);
		b->in_flight++;
		b->started++;
	}
}

static void run_calls(struct bench *b, uint64_t calls)
{
	b->calls = b->started + calls;
	while (b->ended < b->calls) {
		start_calls(b);
		run_turn(b, 0);
		run_turn(b, 1);
	}
}

/* Makes a call on each session, the i-th on session i: a session is half-open at its server until
 * then, and servers limit the half-open ones. */
static void connect_all(struct bench *b)
{
	b->session = calloc(b->sessions, sizeof(*b->session));
	LEND_CHECK(b->session);
	for (uint32_t i = 0; i < b->sessions; i++) {
		LEND_CHECK(lend_core_connect(b->side[0].core, b->now, LEND_PEER(0, 1), 0, NULL,
					     &b->session[i]) == 0);
		for (int j = 0; j < 4; j++)
			run_turn(b, j % 2);
		run_calls(b, 1);
	}
}

static int path_of(const char *name, struct lend_path *path)
{
	*path = (struct lend_path){.mtu = MTU};
	if (strcmp(name, "lossless") == 0)
		path->lossless = path->proven = true;
	else if (strcmp(name, "network") != 0)
		return -1;
	return 0;
}

static int print_usage(void)
{
	fprintf(
	    stderr,
	    "usage: perf_core_call [-s BYTES 1..1376] [-w WINDOW 1..64] [-n CALLS] [-S SESSIONS] "
	    "[-b CALLS] [-p lossless|network] [-a none|timely|swift|dctcp|credit] [-f "
	    "always|never]\n");
	return 2;
}

static uint64_t count_datagrams(const struct bench *b)
{
	return lend_core_stats(b->side[0].core)->tx + lend_core_stats(b->side[1].core)->tx;
}

/* Returns the bytes of the core's cache lines that are not 0. */
static uint64_t count_used(const struct side *s)
{
	static const uint8_t zeros[64];
	uint64_t used = 0;

	for (size_t at = 0; at + 64 <= s->arena; at += 64)
		used += memcmp((const uint8_t *)s->core + at, zeros, 64) ? 64 : 0;
	return used;
}

int main(int argc, char **argv)
{
	/* Its resources last until the end. */
	static struct bench b = {.now = 1000000000,
				 .size = 64,
				 .reply_size = 64,
				 .window = 32,
				 .sessions = 1,
				 .batch = 1};
	const char *name = "network";
	uint64_t calls = 1000000, start_tsc, sent;
	uint32_t batch = 1;
	enum lend_cc congestion = LEND_CC_CREDIT;
	enum lend_fast fast = LEND_FAST_ALWAYS;
	struct lend_core_config config;
	struct lend_path path;
	int option;

	while ((option = getopt(argc, argv, "s:w:n:p:S:b:a:f:")) != -1) {
		if (option == 's')
			b.size = b.reply_size = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'w')
			b.window = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'n')
			calls = strtoull(optarg, NULL, 10);
		else if (option == 'S')
			b.sessions = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'b')
			batch = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'p')
			name = optarg;
		else if (option == 'a')
			congestion = lend_cc_named(optarg);
		else if (option == 'f')
			fast = strcmp(optarg, "never") == 0 ? LEND_FAST_NEVER : LEND_FAST_ALWAYS;
		else
			return print_usage();
	}
	if (path_of(name, &path) < 0 || b.size < 1 || b.size > 1376 || b.window < 1 ||
	    b.window > 64 || calls < 1 || batch < 1 || b.sessions < 1 || b.sessions > 1u << 20 ||
	    congestion == LEND_CC_KINDS)
		return print_usage();
	/* A full table refuses the session that would fill it. */
	config = config_of(&path, b.sessions > 1 ? 2 * b.sessions : 1, congestion);
	config.fast = (uint8_t)fast;
	for (int i = 0; i < 2; i++) {
		open_bufs(&b.side[i], BUFS + 2 * b.sessions, (b.size + 63) & ~63u);
		open_side(&b.side[i], &config, (uint8_t)(0x50 + i), b.now);
	}
	connect_all(&b);
	b.batch = batch;
	run_calls(&b, 1000 + 2 * b.sessions); /* the session is up, all memory has been touched */
	sent = count_datagrams(&b);
	start_tsc = __rdtsc();
	run_calls(&b, calls);
	start_tsc = __rdtsc() - start_tsc;
	printf("%.1f cycles and %.2f datagrams per call of %u bytes, %u in flight, %u sessions, "
	       "%s, this loop included\n",
	       (double)start_tsc / (double)calls,
	       (double)(count_datagrams(&b) - sent) / (double)calls, b.size, b.window, b.sessions,
	       name);
	if (batch > 1)
		printf("%" PRIu64 " bytes per session at the client, %" PRIu64 " at the server\n",
		       count_used(&b.side[0]) / b.sessions, count_used(&b.side[1]) / b.sessions);
	return 0;
}
