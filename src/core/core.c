/* core - the front door: memory, datagrams in, events out. See core.h and README.md. */
#include "core/core.h"

#include "core/call.h"
#include "core/ctl.h"
#include "core/event.h"
#include "core/loss.h"
#include "core/rx.h"
#include "core/serve.h"
#include "core/sess.h"
#include "util/siphash.h"

enum { LINE = 64, SUPPLY_MAX = 32, HALF_MAX = 1024 };

static bool valid(const struct lend_core_config *f)
{
	return f->sessions >= 1 && f->sessions <= 1u << 20 && f->calls >= 1 &&
	       f->calls <= LEND_CALLS_MAX && f->inflight >= 1 && f->inflight <= 1u << 20 &&
	       f->reassemblies >= 1 && f->reassemblies <= 1u << 20 && f->message_max >= 1 &&
	       f->message_max <= LEND_MESSAGE_MAX && f->unscheduled >= 4096 &&
	       f->unscheduled <= 1u << 20 && f->probe > 0 && f->dead >= f->probe &&
	       f->congestion == 0;
}

static size_t place(struct lend_core *c, size_t *at, size_t n, size_t each)
{
	size_t here = c->size;

	*at = here;
	c->size += lend_align_up(n * each, LINE);
	return here;
}

static uint32_t pow2_above(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Lays out the arena; fills every offset and size of c. */
static void lay_out(struct lend_core *c, const struct lend_core_config *f)
{
	memset(c, 0, sizeof(*c));
	c->cfg = *f;
	c->records = 2 * f->inflight;
	c->buckets = pow2_above(f->sessions);
	c->supply_cap = lend_min_u32(f->reassemblies, SUPPLY_MAX);
	c->half_max = lend_min_u32(lend_max_u32(f->sessions / 2, 1), HALF_MAX);
	c->size = lend_align_up(sizeof(*c), LINE);
	place(c, &c->at_sess, f->sessions, sizeof(struct lend_sess));
	place(c, &c->at_calls, c->records, sizeof(struct lend_call_rec));
	place(c, &c->at_frags, 2 * f->reassemblies, sizeof(struct lend_frags));
	place(c, &c->at_wins, c->records, sizeof(struct lend_win));
	place(c, &c->at_cslot, (size_t)f->sessions * f->calls, sizeof(struct lend_cslot));
	place(c, &c->at_sslot, (size_t)f->sessions * f->calls, sizeof(struct lend_sslot));
	place(c, &c->at_supply, c->supply_cap, sizeof(uint32_t));
	place(c, &c->at_ctl, LEND_CTL, sizeof(struct lend_ctl));
	place(c, &c->at_free_sess, f->sessions, sizeof(uint32_t));
	place(c, &c->at_free_calls, c->records, sizeof(uint32_t));
	place(c, &c->at_free_frags, 2 * f->reassemblies, sizeof(uint32_t));
	place(c, &c->at_free_wins, c->records, sizeof(uint32_t));
	place(c, &c->at_heap, f->sessions, sizeof(struct lend_prioq_entry));
	place(c, &c->at_heap_at, f->sessions, sizeof(uint32_t));
	place(c, &c->at_by_hello, c->buckets, sizeof(uint32_t));
	c->hashed = place(c, &c->at_by_peer, c->buckets, sizeof(uint32_t));
	c->hashed = c->size;
	place(c, &c->at_aside, 1, sizeof(struct lend_aside));
	place(c, &c->at_events, 8u * c->records + 4u * f->sessions + 256u,
	      sizeof(struct lend_event));
}

size_t lend_core_size(const struct lend_core_config *config)
{
	struct lend_core c;

	if (!valid(config))
		return 0;
	lay_out(&c, config);
	return c.size;
}

static void fill_none(struct lend_core *c, size_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		((uint32_t *)(void *)((char *)c + at))[i] = LEND_NONE;
}

struct lend_core *lend_core_init(void *mem, const struct lend_core_config *config, lend_ns now)
{
	struct lend_core *c = mem;

	LEND_CHECK(valid(config) && (uintptr_t)mem % LINE == 0);
	lay_out(c, config);
	/* What is large is not touched: mapped memory is zero, and records are set when they are
	 * taken. */
	for (uint32_t i = 0; i < c->records; i++)
		memset(lend_call_at(c, i), 0, sizeof(struct lend_call_rec));
	for (uint32_t i = 0; i < config->sessions; i++)
		memset(lend_sess_at(c, i), 0, offsetof(struct lend_sess, ring));
	memset(lend_aside(c), 0, sizeof(struct lend_aside));
	lend_aside(c)->ev_cap = 8u * c->records + 4u * config->sessions + 256u;
	lend_pool_init(&c->free_sess, LEND_AT(c, at_free_sess, uint32_t), config->sessions);
	lend_pool_init(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t), c->records);
	lend_pool_init(&c->free_frags, LEND_AT(c, at_free_frags, uint32_t),
		       2 * config->reassemblies);
	lend_pool_init(&c->free_wins, LEND_AT(c, at_free_wins, uint32_t), c->records);
	fill_none(c, c->at_heap_at, config->sessions);
	fill_none(c, c->at_by_hello, c->buckets);
	fill_none(c, c->at_by_peer, c->buckets);
	lend_list_init(&c->ready);
	lend_list_init(&c->starved);
	lend_list_init(&c->partials);
	lend_list_init(&c->half);
	c->now = now;
	/* Endpoints of one process share its incarnation: their attempts must differ by number. */
	c->connects = lend_core_draw(c);
	return c;
}

uint64_t lend_core_hash(const struct lend_core *c)
{
	static const uint8_t key[16] = {1};

	return lend_siphash64(key, c, c->hashed);
}

const struct lend_core_stats *lend_core_stats(const struct lend_core *c)
{
	return &lend_aside((struct lend_core *)(uintptr_t)c)->stats;
}

void lend_core_path(struct lend_core *c, uint32_t carrier, const struct lend_path *path)
{
	LEND_CHECK(carrier < LEND_CARRIERS_MAX);
	c->cfg.path[carrier] = *path;
}

/* Never longer than what came: it must not make us an amplifier. */
static void reset(struct lend_core *c, const struct lend_in *in, const struct lend_pkt *head)
{
	struct lend_ctl e = {.sess = LEND_NONE, .peer = in->peer, .id = head->session};

	if (lend_sess_is_stale(c, head->session))
		LEND_COUNT(c, rx_stale);
	else
		LEND_COUNT(c, rx_session);
	if (head->session == 0)
		return;
	e.kind = LEND_PKT_RESET;
	lend_ctl_push(c, &e);
}

static void answer_probe(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	struct lend_ctl e = {.sess = lend_sess_index(c, s), .peer = s->peer, .id = s->id};

	lend_serve_on_ack(c, s, v);
	e.kind = LEND_PKT_ACK;
	e.call = v->head.call;
	e.flags = LEND_PKT_SERVED;
	e.probed = 1;
	lend_ctl_push(c, &e);
}

static void on_ack(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	if (v->head.call == 0)
		return;
	if (v->head.flags & LEND_PKT_SERVED)
		lend_call_on_ack(c, s, v);
	else
		lend_serve_on_ack(c, s, v);
}

static void on_bye(struct lend_core *c, struct lend_sess *s, const struct lend_in *in)
{
	struct lend_ctl e = {.sess = LEND_NONE, .peer = in->peer, .id = s->peer_id};

	/* The session ends before the answer is made, so the answer is made without it. */
	e.kind = LEND_PKT_BYE_ACK;
	lend_sess_down(c, s, UNAVAILABLE, false);
	lend_ctl_push(c, &e);
}

static bool report_sane(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	bool probed = v->head.kind == LEND_PKT_ACK && v->head.length & LEND_PKT_PROBED;

	if (!(v->head.flags & LEND_PKT_ACKED) && v->head.kind != LEND_PKT_ACK &&
	    v->head.kind != LEND_PKT_PROBE)
		return true;
	if (lend_loss_reported(c, s, &v->seen, probed))
		return true;
	LEND_COUNT(c, rx_state);
	return false;
}

static void dispatch_up(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			const struct lend_in *in, const struct lend_pkt_view *v)
{
	switch ((enum lend_pkt_kind)v->head.kind) {
	case LEND_PKT_REQUEST:
		lend_serve_on_request(c, bufs, s, v);
		return;
	case LEND_PKT_REPLY:
		lend_call_on_reply(c, bufs, s, v);
		return;
	case LEND_PKT_ACK:
		on_ack(c, s, v);
		return;
	case LEND_PKT_PROBE:
		answer_probe(c, s, v);
		return;
	case LEND_PKT_CANCEL:
		lend_serve_on_cancel(c, s, v);
		return;
	case LEND_PKT_GONE:
		lend_call_on_gone(c, s, v->head.call);
		return;
	case LEND_PKT_PING:
		lend_ctl_sess(c, s, LEND_PKT_ACK, 0, 0);
		return;
	case LEND_PKT_BYE:
		on_bye(c, s, in);
		return;
	case LEND_PKT_CONNECT:
	case LEND_PKT_ACCEPT:
	case LEND_PKT_RESET:
	case LEND_PKT_BYE_ACK:
	case LEND_PKT_KINDS:
	case LEND_PKT_DRAIN:
		break;
	}
	LEND_COUNT(c, rx_state);
}

static void dispatch_sess(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			  const struct lend_in *in, const struct lend_pkt_view *v)
{
	bool accept = v->head.kind == LEND_PKT_ACCEPT, dup;

	if (s->peer != in->peer || (s->state == LEND_SESS_CONNECTING && !accept)) {
		LEND_COUNT(c, rx_state);
		return;
	}
	if (s->state == LEND_SESS_CLOSING) {
		if (v->head.kind == LEND_PKT_BYE_ACK || v->head.kind == LEND_PKT_BYE)
			lend_sess_free(c, s);
		return;
	}
	if (s->state == LEND_SESS_HALF)
		lend_sess_prove(c, s);
	dup = lend_loss_note(c, s, v->head.number);
	s->last_rx = c->now;
	s->ecn += in->ecn != 0;
	if (dup) {
		LEND_COUNT(c, rx_dup);
	} else if (accept) {
		lend_sess_on_accept(c, s, v);
	} else if (report_sane(c, s, v)) {
		dispatch_up(c, bufs, s, in, v);
	}
}

static void count_fault(struct lend_core *c, enum lend_pkt_fault fault)
{
	switch (fault) {
	case LEND_PKT_SHORT:
		LEND_COUNT(c, rx_short);
		return;
	case LEND_PKT_FOREIGN:
		LEND_COUNT(c, rx_version);
		return;
	case LEND_PKT_KIND:
		LEND_COUNT(c, rx_kind);
		return;
	case LEND_PKT_CHECKSUM:
		LEND_COUNT(c, rx_checksum);
		return;
	case LEND_PKT_LENGTH:
		LEND_COUNT(c, rx_length);
		return;
	case LEND_PKT_OK:
		break;
	}
}

static void input_one(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in)
{
	const struct lend_path *path =
	    &c->cfg.path[LEND_PEER_CARRIER(in->peer) % LEND_CARRIERS_MAX];
	struct lend_pkt_view v;
	enum lend_pkt_fault fault;
	struct lend_sess *s;

	LEND_COUNT(c, rx);
	if (in->len > path->mtu) {
		LEND_COUNT(c, rx_long);
		return;
	}
	fault = lend_pkt_decode(&v, in->data, in->len, path->checked);
	if (fault != LEND_PKT_OK) {
		count_fault(c, fault);
		return;
	}
	if (!lend_event_room(c)) {
		LEND_COUNT(c, rx_full);
		return;
	}
	if (v.head.kind == LEND_PKT_CONNECT) {
		lend_sess_on_connect(c, in, &v);
		return;
	}
	if (v.head.kind == LEND_PKT_RESET) {
		lend_sess_on_reset(c, in->peer, v.head.session);
		return;
	}
	s = lend_sess_find(c, v.head.session);
	if (s)
		dispatch_sess(c, bufs, s, in, &v);
	else
		reset(c, in, &v.head);
}

void lend_core_input(struct lend_core *c, lend_ns now, struct lend_bufs *bufs,
		     const struct lend_in *in, uint32_t n)
{
	c->now = lend_max_u64(c->now, now);
	for (uint32_t i = 0; i < n; i++) {
		if (in[i].gone && in[i].len == 0)
			lend_sess_peer_gone(c, in[i].peer);
		else
			input_one(c, bufs, &in[i]);
	}
}

/* Memory or budget came back: tell those who were turned away. */
static void feed_starved(struct lend_core *c)
{
	for (uint32_t turns = c->starved.n; turns > 0; turns--) {
		struct lend_call_rec *k = lend_call_at(c, c->starved.head);
		bool memory = (k->rx.buf || c->supply_n > 0) &&
			      (k->rx.frags != LEND_NONE || c->free_frags.free > 0);

		lend_list_remove(&c->starved, lend_links_starved(c), lend_call_index(c, k));
		if ((k->rx.dropped && memory) || lend_rx_grant(c, k))
			lend_ctl_ack(c, k);
		else if (k->rx.dropped && !k->rx.starved.in)
			lend_list_push(&c->starved, lend_links_starved(c), lend_call_index(c, k));
	}
}

void lend_core_tick(struct lend_core *c, lend_ns now)
{
	struct lend_prioq q;

	c->now = lend_max_u64(c->now, now);
	if (c->starved.n)
		feed_starved(c);
	for (q = lend_sess_timers(c); q.n > 0 && q.heap[0].key <= c->now; q = lend_sess_timers(c))
		lend_sess_tick(c, lend_sess_at(c, q.heap[0].id));
}

uint32_t lend_core_poll(struct lend_core *c, struct lend_event *ev, uint32_t cap)
{
	struct lend_aside *a = lend_aside(c);
	uint32_t n = lend_min_u32(cap, a->ev_n);

	for (uint32_t i = 0; i < n; i++)
		ev[i] = LEND_AT(c, at_events, struct lend_event)[(a->ev_first + i) % a->ev_cap];
	a->ev_n -= n;
	/* Starting over keeps the ring's first lines warm. */
	a->ev_first = a->ev_n ? (a->ev_first + n) % a->ev_cap : 0;
	return n;
}

int lend_core_connect(struct lend_core *c, lend_ns now, uint32_t peer, uint64_t tag,
		      uint64_t *session)
{
	struct lend_sess *s;

	if (LEND_PEER_CARRIER(peer) >= LEND_CARRIERS_MAX ||
	    c->cfg.path[LEND_PEER_CARRIER(peer)].mtu < LEND_PKT_MTU_MIN)
		return E_HOSTUNREACH;
	c->now = lend_max_u64(c->now, now);
	s = lend_sess_open(c, peer, LEND_SESS_CONNECTING);
	if (!s)
		return E_NOSPC;
	s->client = 1;
	s->tag = tag;
	s->connect = ++c->connects;
	s->ctl_timer = c->now + lend_loss_rto(s, 0);
	lend_sess_arm(c, s, s->ctl_timer);
	lend_ctl_sess(c, s, LEND_PKT_CONNECT, 0, 0);
	*session = s->id;
	return 0;
}

void lend_core_disconnect(struct lend_core *c, uint64_t session)
{
	struct lend_sess *s = lend_sess_find(c, session);

	if (s && (s->state == LEND_SESS_UP || s->state == LEND_SESS_CONNECTING))
		lend_sess_down(c, s, CANCELLED, true);
}

int lend_core_session_peer(const struct lend_core *core, uint64_t session, uint32_t *peer,
			   uint8_t incarnation[16])
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	if (!s)
		return E_STALE;
	*peer = s->peer;
	memcpy(incarnation, s->incarnation, 16);
	return 0;
}

uint32_t lend_core_supply_wanted(const struct lend_core *c)
{
	return c->supply_cap - c->supply_n;
}

void lend_core_supply(struct lend_core *c, uint32_t buf)
{
	LEND_CHECK(buf != 0 && c->supply_n < c->supply_cap);
	LEND_AT(c, at_supply, uint32_t)[c->supply_n++] = buf;
}
