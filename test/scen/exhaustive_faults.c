#include "scen/exhaustive_faults.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdio.h>

#include "scen/fast_mode.h"
#include "wire/pkt.h"

enum { STEPS_MAX = 20000, CORE_MAX = 256 << 10 };
#define START (1000 * LEND_MS)
#define DELAY (10 * LEND_US) /* one-way delay */
#define TWICE (25 * LEND_US) /* delay of a duplicate: it arrives in the middle of the next call */

static alignas(64) unsigned char cores[FAULTS_NODES][CORE_MAX];
static unsigned char bufs[FAULTS_NODES][FAULTS_BUFS][FAULTS_UNSCHEDULED];

static const struct lend_core_config config = {
    .sessions = 4,
    .calls = 8,
    .inflight = 8,
    .reassemblies = 2,
    .path = {{.mtu = 1456}},
    .message_max = FAULTS_UNSCHEDULED,
    .receive_budget = 4 * FAULTS_UNSCHEDULED,
    .unscheduled = FAULTS_UNSCHEDULED,
    .probe = 500 * LEND_MS,
    .dead = 5000 * LEND_MS,
    .ticket_ns = 60000 * LEND_MS,
    .attempts = 16,
};

lend_ns faults_bound(void)
{
	lend_ns sum = 0;

	for (int i = 0; i < FAULTS; i++) {
		lend_ns timeout = LEND_RTO_FIRST << i;

		/* With jitter; a call whose timeout is at its limit may be parked. */
		sum += timeout < LEND_RTO_MAX ? timeout * 5 / 4 : LEND_PARKED_PING;
		sum += 2 * DELAY + TWICE;
	}
	return sum;
}

static void say(const struct faults *f, const char *what, const struct faults_dgram *g)
{
	static const char *const name[LEND_PKT_KINDS] = {
	    "?",     "CONNECT", "ACCEPT", "RESET",  "BYE",  "BYE_ACK", "PING",  "REQUEST",
	    "REPLY", "ACK",     "PROBE",  "CANCEL", "GONE", "CALLS",   "RETRY", "PROOF"};
	double ms = (double)(f->now - START) / 1e6;

	if (!f->told)
		return;
	if (g)
		fprintf(stderr, "%10.3f  %u>%u %s #%u %s\n", ms, g->from, g->to, name[g->data[2]],
			g->order, what);
	else
		fprintf(stderr, "%10.3f  %s\n", ms, what);
}

void faults_wrong(struct faults *f, const char *what)
{
	if (!f->wrong)
		say(f, what, NULL);
	f->wrong = f->wrong ? f->wrong : what;
}

/* Patterns are generated once. */
static const uint8_t *pattern(unsigned salt)
{
	static uint8_t all[256][FAULTS_LONG];
	static bool made[256];
	uint8_t *p = all[salt % 256];

	for (uint32_t i = 0; !made[salt % 256] && i < FAULTS_LONG; i++)
		p[i] = (uint8_t)(i * 7 + i / 251 + salt);
	made[salt % 256] = true;
	return p;
}

void faults_fill(uint8_t *to, uint32_t len, unsigned salt)
{
	cr_assert_leq(len, FAULTS_LONG);
	memcpy(to, pattern(salt), len);
}

uint32_t faults_buf(struct faults *f, uint32_t node, uint32_t len, unsigned salt)
{
	struct faults_node *n = &f->node[node];
	uint32_t b = n->n_free ? n->free[--n->n_free] : 0;

	cr_assert_neq(b, 0, "no buffer left on node %u", node);
	n->seg[b] = (struct lend_seg){bufs[node][b], len, FAULTS_UNSCHEDULED, 0, 0};
	faults_fill(n->seg[b].data, len, salt);
	return b;
}

uint32_t faults_wrap(struct faults *f, uint32_t node, void *data, uint32_t len)
{
	uint32_t b = faults_buf(f, node, 0, 0);

	f->node[node].seg[b] = (struct lend_seg){data, len, len, 0, 0};
	return b;
}

void faults_give(struct faults *f, uint32_t node, uint32_t buf)
{
	struct faults_node *n = &f->node[node];

	for (; buf; buf = n->seg[buf].next) {
		for (uint32_t i = 0; i < n->n_free; i++)
			if (n->free[i] == buf)
				faults_wrong(f, "a buffer came back twice");
		if (n->seg[buf].data != bufs[node][buf])
			f->on_give(f, &n->seg[buf]);
		n->free[n->n_free++ % FAULTS_BUFS] = buf;
	}
}

bool faults_same(struct faults *f, uint32_t node, const struct lend_event *e, uint32_t buf,
		 unsigned salt)
{
	const struct lend_seg *seg = f->node[node].seg;
	uint32_t at = 0;

	cr_assert_leq(e->len, (uint64_t)FAULTS_LONG);
	if (!buf)
		return e->data_len == e->len && memcmp(e->data, pattern(salt), e->len) == 0;
	for (; buf && at < e->len; buf = seg[buf].next) {
		uint32_t n = (uint32_t)lend_min_u64(e->len - at, seg[buf].cap);

		if (memcmp(seg[buf].data, pattern(salt) + at, n) != 0)
			return false;
		at += n;
	}
	return at == e->len;
}

void faults_reset(struct faults *f, uint32_t nodes)
{
	f->now = START;
	f->alarm = LEND_NEVER;
	f->begun = false;
	f->wrong = NULL;
	f->nodes = nodes;
	f->sent = f->wires = f->steps = f->left = 0;
	for (uint32_t i = 0; i < FAULTS_WIRE; i++)
		f->wire[i] = &f->slot[i];
	for (uint32_t i = 0; i < nodes; i++) {
		struct faults_node *n = &f->node[i];
		struct lend_core_config c = config;

		c.fast = fast_mode();
		memset(c.incarnation, (int)(0xa0 + i), sizeof(c.incarnation));
		memset(c.seed, (int)(0x50 + i), sizeof(c.seed));
		if (f->fault == FAULT_FULL)
			c.path[0].lossless = c.path[0].proven = true;
		cr_assert_leq(lend_core_size(&c), (size_t)CORE_MAX);
		if (!f->played)
			memset(cores[i], 0, lend_core_size(&c));
		f->heard[i] = f->now;
		n->core = lend_core_init(cores[i], &c, f->now);
		n->bufs = (struct lend_bufs){n->seg, FAULTS_BUFS};
		for (n->n_free = 0; n->n_free < FAULTS_BUFS - 1; n->n_free++)
			n->free[n->n_free] = FAULTS_BUFS - 1 - n->n_free;
		while (lend_core_supply_wanted(n->core))
			lend_core_supply(n->core, faults_buf(f, i, 0, 0));
	}
	f->played = true;
}

void faults_begin(struct faults *f)
{
	f->begun = true;
	f->sent = 0;
}

static struct faults_dgram *new_dgram(struct faults *f)
{
	cr_assert_lt(f->wires, FAULTS_WIRE);
	f->carried++;
	return f->wire[f->wires++];
}

static const uint8_t wait_of[FAULT_FULL + 1] = {[FAULT_LATE] = 1, [FAULT_STALE] = 6};

static bool frames_bear_request(const struct faults_dgram *g)
{
	struct lend_pkt_view v, f;
	uint32_t at = 0;

	cr_assert_eq(lend_pkt_decode(&v, g->data, g->len), LEND_PKT_OK);
	while (at < v.payload_len) {
		cr_assert(lend_pkt_decode_frame(&f, v.payload, v.payload_len, &at));
		if (!(f.head.flags & LEND_PKT_SERVED))
			return true;
	}
	return false;
}

static bool bears_request(const struct faults_dgram *g)
{
	if (g->data[2] == LEND_PKT_CALLS)
		return frames_bear_request(g);
	return g->data[2] == LEND_PKT_REQUEST ||
	       (g->data[2] == LEND_PKT_CONNECT &&
		lend_load_u32(g->data + offsetof(struct lend_pkt, call)) != 0);
}

static enum lend_sent send(struct faults *f, uint32_t from, const struct lend_out *o)
{
	struct faults_dgram *g = new_dgram(f);
	bool marked = f->begun && f->sent < FAULTS && f->mask >> f->sent & 1;
	bool kept = marked && (f->fault == FAULT_LOST || f->fault == FAULT_FULL);

	memcpy(g->data, o->head, g->len = o->head_len);
	for (uint32_t i = 0; i < o->n; i++) {
		const struct lend_piece *p = &o->piece[i];

		memcpy(g->data + g->len, (uint8_t *)f->node[from].seg[p->buf].data + p->offset,
		       p->len);
		g->len += p->len;
	}
	if (o->tail_len)
		memcpy(g->data + g->len, o->tail, o->tail_len);
	g->len += o->tail_len;
	g->from = (uint8_t)from;
	g->to = (uint8_t)(LEND_PEER_INDEX(o->peer) - 1);
	g->at = f->now + DELAY;
	g->order = f->sent;
	f->sent += f->begun;
	f->left += bears_request(g) && !(kept && f->fault == FAULT_FULL);
	g->waits = marked ? wait_of[f->fault] : 0;
	say(f, !marked ? "" : kept ? "is dropped" : g->waits ? "waits" : "twice", g);
	if (kept) {
		f->wires--;
	} else if (marked && f->fault == FAULT_TWICE) {
		struct faults_dgram *copy = new_dgram(f);

		*copy = *g;
		copy->at += TWICE;
	}
	return marked && f->fault == FAULT_FULL ? LEND_SENT_FULL : LEND_SENT;
}

static void poll(struct faults *f, uint32_t node)
{
	struct lend_core *core = f->node[node].core;
	const struct lend_event *ev;

	while ((ev = lend_core_next(core))) {
		if (ev->kind == LEND_EV_REPLY_END || ev->kind == LEND_EV_BUF_BACK)
			faults_give(f, node, ev->buf);
		f->on_event(f, node, ev);
	}
	while (lend_core_supply_wanted(core))
		lend_core_supply(core, faults_buf(f, node, 0, 0));
}

static void output(struct faults *f, uint32_t node)
{
	struct faults_node *n = &f->node[node];
	struct lend_out out[16];
	uint32_t k;

	if (lend_core_deadline(n->core) > f->now)
		return;
	lend_core_tick(n->core, f->now);
	poll(f, node);
	while ((k = lend_core_output(n->core, f->now, &n->bufs, out, 16)) > 0) {
		for (uint32_t i = 0; i < k; i++)
			out[i].sent = (uint8_t)send(f, node, &out[i]);
		lend_core_sent(n->core, out, k);
		poll(f, node);
	}
}

/* The index of the datagram that arrives next, or f->wires. */
static uint32_t next_dgram(const struct faults *f)
{
	uint32_t best = f->wires;

	for (uint32_t i = 0; i < f->wires; i++) {
		const struct faults_dgram *g = f->wire[i], *b = f->wire[best % FAULTS_WIRE];

		if (!g->waits &&
		    (best == f->wires || g->at < b->at || (g->at == b->at && g->order < b->order)))
			best = i;
	}
	return best;
}

static void deliver(struct faults *f, uint32_t i)
{
	struct faults_dgram *g = f->wire[i];
	struct faults_node *n = &f->node[g->to];
	struct lend_in in = {.data = g->data,
			     .len = g->len,
			     .peer = LEND_PEER(0, g->from + 1),
			     .addr = &g->from,
			     .addr_len = sizeof(g->from)};

	f->wire[i] = f->wire[--f->wires];
	f->wire[f->wires] = g;
	say(f, "arrives", g);
	for (uint32_t k = 0; k < f->wires; k++)
		if (f->wire[k]->order < g->order) {
			f->wire[k]->waits -= f->wire[k]->waits > 0;
			f->wire[k]->at = lend_max_u64(f->wire[k]->at, f->now);
		}
	f->heard[g->to] = f->now;
	lend_core_input(n->core, f->now, &n->bufs, &in, 1);
	poll(f, g->to);
}

/* No later datagram was sent, so those held back for one are released now. */
static bool release_late(struct faults *f)
{
	for (uint32_t i = 0; i < f->wires; i++) {
		f->wire[i]->waits = 0;
		f->wire[i]->at = f->now;
	}
	return f->wires > 0;
}

static lend_ns next_time(const struct faults *f)
{
	uint32_t i = next_dgram(f);
	lend_ns next = i < f->wires ? f->wire[i]->at : LEND_NEVER;

	next = lend_min_u64(next, f->alarm);
	for (uint32_t k = 0; k < f->nodes; k++)
		next = lend_min_u64(next, lend_core_deadline(f->node[k].core));
	return next;
}

bool faults_step(struct faults *f, lend_ns until)
{
	lend_ns next = next_time(f);
	uint32_t i;

	if (next == LEND_NEVER && release_late(f))
		next = f->now;
	if (f->wrong || next > until || next == LEND_NEVER)
		return false;
	f->now = lend_max_u64(f->now, next);
	if (++f->steps > STEPS_MAX)
		faults_wrong(f, "events never end");
	i = next_dgram(f);
	if (i < f->wires && f->wire[i]->at <= f->now)
		deliver(f, i);
	if (f->alarm <= f->now) {
		f->alarm = LEND_NEVER;
		f->on_alarm(f);
	}
	for (uint32_t k = 0; k < f->nodes; k++)
		output(f, k);
	return !f->wrong;
}

uint64_t faults_connect(struct faults *f, uint32_t from, uint32_t to)
{
	uint64_t session = 0;

	if (lend_core_connect(f->node[from].core, f->now, LEND_PEER(0, to + 1), 77, NULL, &session))
		faults_wrong(f, "no connect");
	lend_core_set_server(f->node[from].core, session, to + 1);
	return session;
}
