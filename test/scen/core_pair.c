#include "scen/core_pair.h"

#include "scen/fast_mode.h"
#include "scen/proof.h"
#include "wire/head.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_name[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "CONNECT", [LEND_PKT_ACCEPT] = "ACCEPT",   [LEND_PKT_RESET] = "RESET",
    [LEND_PKT_BYE] = "BYE",         [LEND_PKT_BYE_ACK] = "BYE_ACK", [LEND_PKT_PING] = "PING",
    [LEND_PKT_REQUEST] = "REQUEST", [LEND_PKT_REPLY] = "REPLY",     [LEND_PKT_ACK] = "ACK",
    [LEND_PKT_PROBE] = "PROBE",     [LEND_PKT_CANCEL] = "CANCEL",   [LEND_PKT_GONE] = "GONE",
    [LEND_PKT_CALLS] = "CALLS",     [LEND_PKT_RETRY] = "RETRY",     [LEND_PKT_PROOF] = "PROOF",
    [LEND_PKT_RUNNING] = "RUNNING",
};
static const char *const event_name[] = {
    [LEND_EV_SESSION_UP] = "up",       [LEND_EV_SESSION_DOWN] = "down",
    [LEND_EV_NEED] = "need",           [LEND_EV_REQUEST] = "request",
    [LEND_EV_CANCELLED] = "cancelled", [LEND_EV_REPLY_END] = "reply_end",
    [LEND_EV_CALL_END] = "call_end",   [LEND_EV_BUF_BACK] = "buf_back",
    [LEND_EV_PEER_KEEP] = "keep",      [LEND_EV_PEER_DROP] = "drop",
};

__attribute__((format(printf, 2, 3))) static void say(struct core_pair *d, const char *format, ...)
{
	va_list args;
	int n;

	if (d->quiet)
		return;
	if (d->at + 256 > d->cap)
		d->text = realloc(d->text, d->cap = d->cap * 2 + 4096);
	va_start(args, format);
	n = vsnprintf(d->text + d->at, 256, format, args);
	va_end(args);
	d->at += (size_t)n;
}

static void supply(struct core_pair *d, int side)
{
	struct pair_side *s = &d->side[side];

	while (!s->no_supply && lend_core_supply_wanted(s->core))
		lend_core_supply(s->core, pair_buf(d, side, s->cfg.unscheduled, 0, 0));
}

void pair_open_with(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	memset(d, 0, sizeof(*d));
	d->now = 1000000000;
	d->lossless = lossless;
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &d->side[i];
		struct lend_core_config *c = &s->cfg;

		*c = (struct lend_core_config){.sessions = 4,
					       .calls = 8,
					       .inflight = 16,
					       .reassemblies = 4,
					       .message_max = PAIR_BIG,
					       .receive_budget = 8 << 20,
					       .unscheduled = 65536,
					       .fast = fast_mode(),
					       .features = LEND_FEATURE_REPLY_HEADS |
							   LEND_FEATURE_REQUEST_HEADS,
					       .probe = 500000000,
					       .dead = 5000000000};
		c->path[0] =
		    (struct lend_path){.mtu = 1456, .lossless = lossless, .proven = lossless};
		memset(c->incarnation, 0xa0 + i, 16);
		memset(c->seed, 0x50 + i, 32);
		if (tweak)
			tweak(c);
		s->core = aligned_alloc(64, lend_core_size(c));
		memset(s->core, 0, lend_core_size(c));
		lend_core_init(s->core, c, d->now);
		s->bufs = (struct lend_bufs){s->seg, PAIR_BUFS};
		s->wire = calloc(PAIR_WIRE, sizeof(*s->wire));
		supply(d, i);
	}
}

void pair_open(struct core_pair *d, bool lossless)
{
	pair_open_with(d, lossless, NULL);
}

void pair_close(struct core_pair *d)
{
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &d->side[i];
		uint32_t out = 0, pooled = s->cfg.reassemblies - lend_core_supply_wanted(s->core);

		for (uint32_t b = 1; b < PAIR_BUFS; b++) {
			out += s->taken[b];
			free(s->seg[b].data);
		}
		cr_assert_eq(out, pooled, "side %d: %u buffers out, %u in the core's pool", i, out,
			     pooled);
		free(s->core);
		free(s->wire);
	}
	free(d->text);
}

static void on_need(struct core_pair *d, int side, const struct lend_event *e)
{
	struct pair_side *s = &d->side[side];
	uint32_t buf;

	if (s->hold_need)
		return;
	buf = s->refuse ? 0 : pair_buf(d, side, (uint32_t)e->len, 0, 0);
	cr_assert_eq(lend_core_attach(s->core, e->call, &s->bufs, buf), 0);
}

static void on_event(struct core_pair *d, int side, const struct lend_event *e)
{
	struct pair_side *s = &d->side[side];

	s->ev[e->kind] = *e;
	s->count[e->kind]++;
	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
		s->session = e->session;
		say(d, "%d up\n", side);
		return;
	case LEND_EV_NEED:
		say(d, "%d need %llu\n", side, (unsigned long long)e->len);
		on_need(d, side, e);
		return;
	case LEND_EV_REQUEST:
		say(d, "%d request %llu\n", side, (unsigned long long)e->len);
		s->request = e->call;
		s->request_buf = e->buf;
		s->request_len = (uint32_t)e->len;
		if (d->on_request && side == 1)
			d->on_request(d, e);
		return;
	case LEND_EV_CALL_END:
		say(d, "%d call_end status %d ran %d len %llu\n", side, e->status, e->ran,
		    (unsigned long long)e->len);
		if (d->on_end)
			d->on_end(d, e);
		return;
	case LEND_EV_SESSION_DOWN:
		say(d, "%d down %d\n", side, e->status);
		return;
	case LEND_EV_CANCELLED:
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		say(d, "%d %s\n", side, event_name[e->kind]);
		if (e->kind != LEND_EV_CANCELLED)
			pair_free(d, side, e->buf);
		return;
	case LEND_EV_PROVE:
		if (s->shake && lend_shake_made(s->shake, e))
			return;
		if (s->salt)
			proof_answer(s->core, d->now, e, s->salt);
		else
			(void)lend_core_prove(s->core, d->now, e, NULL);
		return;
	case LEND_EV_PEER_DROP:
		if (s->shake)
			lend_kex_forget(s->shake->kex, e->session);
		return;
	case LEND_EV_PEER_KEEP:
		return;
	}
}

static void poll_events(struct core_pair *d, int side)
{
	const struct lend_event *ev;

	while ((ev = lend_core_next(d->side[side].core)))
		on_event(d, side, ev);
	supply(d, side);
}

/* Adds a line for a message, or for another datagram, to the text. Returns whether it is lost. */
static bool note_sent(struct core_pair *d, int side, const struct lend_pkt_view *v)
{
	if (d->lose && d->lose(d, side, v, d->nth++)) {
		say(d, "%d> %s lost\n", side, kind_name[v->head.kind]);
		return true;
	}
	if (v->payload_len)
		say(d, "%d> %s %u+%u of %u\n", side, kind_name[v->head.kind], v->head.offset,
		    v->payload_len, v->head.length);
	else
		say(d, "%d> %s\n", side, kind_name[v->head.kind]);
	return false;
}

/* Likewise for each frame of a coalesced datagram, as if it were a datagram of its own. */
static bool note_frames(struct core_pair *d, int side, const struct lend_pkt_view *v)
{
	uint32_t at = 0;
	bool lost = false;

	while (at < v->payload_len) {
		struct lend_pkt_view f = {.head = v->head};

		cr_assert(lend_pkt_decode_frame(&f, v->payload, v->payload_len, &at));
		if (f.head.call == 0)
			continue; /* withdrawn */
		f.head.kind = f.head.flags & LEND_PKT_SERVED ? LEND_PKT_REPLY : LEND_PKT_REQUEST;
		f.head.flags |= v->head.flags & LEND_PKT_ACKED;
		f.seen = v->seen;
		lost |= note_sent(d, side, &f);
	}
	return lost;
}

static void put_on_wire(struct core_pair *d, int side, struct lend_out *o)
{
	struct pair_side *s = &d->side[side];
	struct pair_dgram *g = &s->wire[s->n++];
	struct lend_pkt_view v;

	if (s->shake && !lend_shake_out(s->shake, d->now, &s->bufs, o)) {
		s->n--;
		return;
	}

	cr_assert_leq(s->n, PAIR_WIRE);
	memcpy(g->data, o->head, g->len = o->head_len);
	for (int i = 0; i < o->n; i++) {
		const struct lend_piece *p = &o->piece[i];

		memcpy(g->data + g->len, (uint8_t *)s->seg[p->buf].data + p->offset, p->len);
		g->len += p->len;
	}
	if (o->tail_len)
		memcpy(g->data + g->len, o->tail, o->tail_len);
	g->len += o->tail_len;
	cr_assert_leq(g->len, s->cfg.path[0].mtu);
	cr_assert_eq(lend_pkt_decode(&v, g->data, g->len), LEND_PKT_OK);
	s->sent_bytes += g->len;
	s->n -= v.head.kind == LEND_PKT_CALLS ? note_frames(d, side, &v) : note_sent(d, side, &v);
}

uint32_t pair_turn(struct core_pair *d, int side, uint32_t most)
{
	struct pair_side *s = &d->side[side];
	struct lend_out out[32];
	uint32_t n = lend_core_output(s->core, d->now, &s->bufs, out, most);

	for (uint32_t i = 0; i < n; i++) {
		out[i].sent = d->full && d->full(d, side) ? LEND_SENT_FULL : LEND_SENT;
		if (out[i].sent == LEND_SENT)
			put_on_wire(d, side, &out[i]);
	}
	if (n)
		lend_core_sent(s->core, out, n);
	return n;
}

void pair_output(struct core_pair *d, int side)
{
	poll_events(d, side);
	while (pair_turn(d, side, 32) > 0)
		continue;
}

void pair_inject(struct core_pair *d, int to, const void *data, uint32_t len)
{
	const uint32_t from = !to;
	struct lend_in in = {
	    .len = len, .peer = LEND_PEER(0, 1), .addr = &from, .addr_len = sizeof(from)};
	void *copy = malloc(len ? len : 1); /* exact: a sanitizer sees a longer read */

	memcpy(copy, data, len);
	in.data = copy;
	d->side[to].received_bytes += len;
	if (d->side[to].shake) {
		lend_shake_burst(d->side[to].shake);
		if (!lend_shake_in(d->side[to].shake, d->now, &in)) {
			free(copy);
			return;
		}
	}
	lend_core_input(d->side[to].core, d->now, &d->side[to].bufs, &in, 1);
	poll_events(d, to);
	free(copy);
}

void pair_deliver(struct core_pair *d, int side)
{
	struct pair_side *s = &d->side[side];
	uint32_t n = s->n;

	for (uint32_t i = 0; i < n; i++)
		pair_inject(d, !side, s->wire[i].data, s->wire[i].len);
	memmove(s->wire, s->wire + n, (s->n - n) * sizeof(*s->wire));
	s->n -= n;
}

void pair_carry(struct core_pair *d, int side)
{
	pair_output(d, side);
	pair_deliver(d, side);
}

void pair_settle(struct core_pair *d)
{
	do {
		for (int i = 0; i < 2; i++) {
			lend_core_tick(d->side[i].core, d->now);
			pair_output(d, i);
		}
		pair_deliver(d, 0);
		pair_deliver(d, 1);
		for (int i = 0; i < 2; i++)
			pair_output(d, i);
	} while (d->side[0].n || d->side[1].n);
}

void pair_pass(struct core_pair *d, lend_ns t)
{
	lend_ns end = d->now + t;

	for (;;) {
		lend_ns a = lend_core_deadline(d->side[0].core);
		lend_ns b = lend_core_deadline(d->side[1].core);
		lend_ns next = a < b ? a : b;

		if (next > end)
			break;
		d->now = next > d->now ? next : d->now + 1;
		pair_settle(d);
	}
	d->now = end;
}

uint64_t pair_connect(struct core_pair *d)
{
	uint64_t session;

	cr_assert_eq(
	    lend_core_connect(d->side[0].core, d->now, LEND_PEER(0, 1), 77, d->self, &session), 0);
	return session;
}

void pair_forget(struct core_pair *d)
{
	d->at = 0;
}

void pair_expect(struct core_pair *d, const char *text)
{
	if (d->text)
		d->text[d->at] = 0;
	cr_assert_str_eq(d->at ? d->text : "", text, "\n--- got\n%s--- want\n%s",
			 d->at ? d->text : "", text);
	d->at = 0;
}

void pair_up(struct core_pair *d)
{
	d->side[0].session = pair_connect(d);
	pair_settle(d);
	pair_forget(d);
}

void pair_start(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	pair_open_with(d, lossless, tweak);
	pair_up(d);
	d->quiet = true;
}

void pair_half_open(struct core_pair *d)
{
	pair_open(d, true);
	d->quiet = true;
	pair_connect(d);
	pair_output(d, 0);
	pair_deliver(d, 0);
	pair_output(d, 1);
}

void pair_hang_up(struct core_pair *d)
{
	lend_core_disconnect(d->side[1].core, d->side[1].session);
	pair_output(d, 1);
	pair_close(d);
}

bool pair_full(struct core_pair *d, int from)
{
	(void)d;
	return from == 0;
}

bool pair_full_server(struct core_pair *d, int from)
{
	(void)d;
	return from == 1;
}

bool pair_lose_all(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)from, (void)v, (void)nth;
	return true;
}
