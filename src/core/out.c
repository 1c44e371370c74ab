/* out - datagrams to send: control first, then the calls that are ready, a few each.
 * Layer: core (pure). */
#include "core/call.h"
#include "core/credit.h"
#include "core/ctl.h"
#include "core/loss.h"
#include "core/pace.h"
#include "core/rx.h"
#include "core/sched.h"
#include "core/serve.h"
#include "core/sess.h"
#include "core/tx.h"
#include "core/want.h"
#include "util/class.h"
#include "util/crc32c.h"

/* One datagram under construction. */
struct making {
	struct lend_out *out;
	struct lend_out_rec *rec;
	uint8_t *head;
	struct lend_pkt_trailer *tail;
};

static struct making at(struct lend_core *c, struct lend_out *out, uint32_t i)
{
	struct lend_aside *a = lend_aside(c);

	return (struct making){&out[i], &a->out[i], a->head[i], &a->tail[i]};
}

static struct making make(struct lend_core *c, struct lend_out *out, uint32_t i)
{
	struct making m = at(c, out, i);

	*m.out = (struct lend_out){.head = m.head, .class = LEND_CLASS_NORMAL};
	memset(m.rec, 0, sizeof(*m.rec));
	return m;
}

static void put(struct making *m, const void *block, size_t len)
{
	LEND_CHECK(m->out->head_len + len <= LEND_HEAD_BYTES);
	memcpy(m->head + m->out->head_len, block, len);
	m->out->head_len = (uint8_t)(m->out->head_len + len);
}

static void seal(struct making *m, const struct lend_bufs *bufs, bool checked)
{
	uint32_t crc;

	if (checked)
		return;
	crc = lend_crc32c(0, m->head, m->out->head_len);
	for (uint32_t i = 0; i < m->out->n; i++) {
		const struct lend_piece *p = &m->out->piece[i];

		crc = lend_crc32c(crc, (const uint8_t *)bufs->seg[p->buf].data + p->offset, p->len);
	}
	memset(m->tail, 0, sizeof(*m->tail));
	m->tail->crc = crc;
	m->out->tail = m->tail;
	m->out->tail_len = sizeof(*m->tail);
}

static struct lend_pkt header(uint8_t kind, uint8_t flags, uint32_t call)
{
	return (struct lend_pkt){.magic = LEND_PKT_MAGIC,
				 .version = LEND_PKT_VERSION,
				 .kind = kind,
				 .flags = flags,
				 .call = call};
}

/* How much of the message that comes in for this call is here. */
static void describe(struct lend_core *c, struct lend_sess *s, struct lend_pkt *head,
		     struct lend_pkt_ack *ack)
{
	struct lend_call_rec *k = NULL;

	if (head->call == 0)
		return;
	if (head->flags & LEND_PKT_SERVED) {
		head->offset = lend_serve_state(c, s, head->call, &k);
	} else {
		uint32_t slot = lend_pkt_slot(head->call);
		struct lend_cslot *cs = lend_cslot_at(c, lend_sess_index(c, s), slot);

		if (cs->seq == lend_pkt_seq(head->call) && cs->rec != LEND_NONE)
			k = lend_call_at(c, cs->rec);
		head->offset = !k || k->state == LEND_CALL_DRAINING ? LEND_PKT_WHOLE
			       : k->rx.frags == LEND_NONE           ? LEND_PKT_UNSEEN
								    : LEND_PKT_PARTIAL;
	}
	if (!k)
		return;
	k->ack_queued = 0;
	ack->granted = k->rx.granted;
	if (head->offset == LEND_PKT_WHOLE)
		return;
	ack->low = lend_rx_low(c, k);
	if (k->rx.want == LEND_WANT_MEMORY)
		head->length |= LEND_PKT_WAIT;
	if (k->rx.want == LEND_WANT_WORD) {
		head->length |= LEND_PKT_DROPPED;
		k->rx.want = LEND_WANT_NOTHING;
	}
}

static void make_ack(struct lend_core *c, struct lend_sess *s, struct making *m,
		     const struct lend_ctl *e)
{
	struct lend_pkt head = header(e->kind, e->flags, e->call);
	struct lend_pkt_ack ack = {0};
	struct lend_pkt_seen seen;

	describe(c, s, &head, &ack);
	if (e->probed)
		head.length |= LEND_PKT_PROBED;
	lend_loss_report(c, s, &seen);
	head.session = s->peer_id;
	head.number = lend_loss_number(s, m->out->class);
	put(m, &head, sizeof(head));
	put(m, &ack, sizeof(ack));
	put(m, &seen, sizeof(seen));
	LEND_COUNT(c, acks);
}

/* While it waited for the carrier the call's slot may have gone to another, which this would end.
 */
static bool is_stale(struct lend_core *c, const struct lend_ctl *e)
{
	const struct lend_cslot *cs;

	if (e->kind != LEND_PKT_CANCEL)
		return false;
	cs = lend_cslot_at(c, e->sess, lend_pkt_slot(e->call));
	return cs->rec == LEND_NONE || cs->seq != lend_pkt_seq(e->call);
}

static void make_plain(struct lend_core *c, struct lend_sess *s, struct making *m,
		       const struct lend_ctl *e)
{
	struct lend_pkt head = header(e->kind, e->flags, e->call);
	struct lend_pkt_hello hello;
	struct lend_pkt_seen seen;

	if (e->kind == LEND_PKT_PING)
		head.flags |= LEND_PKT_ACKED;
	head.session = e->kind == LEND_PKT_CONNECT ? 0 : s->peer_id;
	head.number = lend_loss_number(s, m->out->class);
	put(m, &head, sizeof(head));
	if (e->kind == LEND_PKT_CONNECT || e->kind == LEND_PKT_ACCEPT) {
		lend_sess_hello(c, s, &hello);
		put(m, &hello, sizeof(hello));
	}
	/* An end that pings may never be pinged, and what it acknowledged last may be lost. */
	if (e->kind == LEND_PKT_PING) {
		lend_loss_report(c, s, &seen);
		put(m, &seen, sizeof(seen));
	}
}

static void make_stateless(struct lend_core *c, struct making *m, const struct lend_ctl *e)
{
	struct lend_pkt head = header(e->kind, e->flags, e->call);

	head.session = e->id;
	put(m, &head, sizeof(head));
	LEND_COUNT(c, resets);
	m->out->peer = e->peer;
}

/* False: its session is gone, nothing to send. */
static bool make_ctl(struct lend_core *c, struct making *m, const struct lend_ctl *e,
		     const struct lend_bufs *bufs)
{
	struct lend_sess *s;

	m->rec->ctl = *e;
	m->rec->sess = e->sess;
	m->rec->sess_id = e->id;
	if (e->sess == LEND_NONE) {
		make_stateless(c, m, e);
		seal(m, bufs, c->cfg.path[LEND_PEER_CARRIER(e->peer)].checked);
		return true;
	}
	s = lend_sess_at(c, e->sess);
	if (s->state == LEND_SESS_FREE || s->id != e->id || is_stale(c, e))
		return false;
	if (e->kind == LEND_PKT_ACK || e->kind == LEND_PKT_PROBE)
		make_ack(c, s, m, e);
	else
		make_plain(c, s, m, e);
	m->out->peer = s->peer;
	seal(m, bufs, s->checked);
	return true;
}

static size_t put_request(const struct lend_core *c, uint8_t *to, const struct lend_call_rec *k)
{
	struct lend_pkt_request r = {.method = k->method, .left_us = UINT32_MAX};
	lend_ns left = k->deadline > c->now ? k->deadline - c->now : 0;

	if (k->deadline != LEND_NEVER)
		r.left_us = (uint32_t)lend_min_u64(left / LEND_US, UINT32_MAX - 1);
	r.grant = k->rx.granted;
	memcpy(to, &r, sizeof(r));
	return sizeof(r);
}

static size_t put_reply(const struct lend_core *c, uint8_t *to, const struct lend_call_rec *k)
{
	struct lend_pkt_reply r = {.status = k->status, .ran = k->ran, .acked = k->number};
	lend_ns delay = c->now - k->stamp;

	/* A repeat answers a later datagram than the one it names. */
	r.delay_ns = k->tx.low == 0 && delay < UINT32_MAX ? (uint32_t)delay : UINT32_MAX;
	memcpy(to, &r, sizeof(r));
	return sizeof(r);
}

/* Where receivers grant, what is long keeps their line full and goes one class lower, so that the
 * network's queues let pass it by what is short and comes unforeseen. */
static uint8_t urgency(const struct lend_core *c, const struct lend_sess *s,
		       const struct lend_call_rec *k)
{
	bool yields = k->tx.win != LEND_NONE && lend_credit_rules(c, s);

	return (uint8_t)lend_min_u32(k->class + yields, LEND_CLASSES - 1);
}

/* The whole head in one pass; returns its length. */
static size_t put_head(struct lend_core *c, uint8_t *to, const struct lend_call_rec *k,
		       struct lend_sess *s, uint32_t offset)
{
	uint8_t kind = k->server ? LEND_PKT_REPLY : LEND_PKT_REQUEST;
	unsigned flags =
	    k->class | (k->server ? LEND_PKT_SERVED : 0u) | (s->ack_due ? LEND_PKT_ACKED : 0u);
	struct lend_pkt head = header(kind, (uint8_t)flags, k->wire);
	size_t len = sizeof(head);
	struct lend_pkt_seen seen;

	head.session = s->peer_id;
	head.number = s->number;
	head.offset = offset;
	head.length = k->tx.len;
	memcpy(to, &head, sizeof(head));
	len += k->server ? put_reply(c, to + len, k) : put_request(c, to + len, k);
	if (!s->ack_due)
		return len;
	lend_loss_report(c, s, &seen);
	memcpy(to + len, &seen, sizeof(seen));
	return len + sizeof(seen);
}
_Static_assert(LEND_PKT_OVERHEAD - sizeof(struct lend_pkt_trailer) <= LEND_HEAD_BYTES, "head");

static void make_data(struct lend_core *c, struct making *m, struct lend_call_rec *k,
		      struct lend_sess *s, uint32_t frag, const struct lend_bufs *bufs)
{
	uint32_t offset = frag * s->payload;

	*m->rec = (struct lend_out_rec){.call = k->self,
					.gen = k->gen,
					.sess = k->sess,
					.sess_id = s->id,
					.frag = frag,
					.number = s->number,
					.first = k->state == LEND_CALL_QUEUED,
					.acks = s->ack_due};
	m->out->head = m->head;
	m->out->tail = NULL;
	m->out->tail_len = 0;
	m->out->sent = 0;
	m->out->peer = s->peer;
	m->out->class = urgency(c, s, k);
	m->out->fast = k->fast;
	m->out->n =
	    lend_tx_pieces(&k->tx, bufs, offset, lend_frag_len(s, k->tx.len, frag), m->out->piece);
	m->out->head_len = (uint8_t)put_head(c, m->head, k, s, offset);
	seal(m, bufs, s->checked);
}

static void sent_data(struct lend_core *c, struct lend_call_rec *k, struct lend_sess *s,
		      uint32_t frag, uint8_t class)
{
	uint64_t number = lend_loss_number(s, class);

	if (frag < k->tx.next)
		LEND_COUNT(c, repeats);
	lend_tx_sent(c, &k->tx, frag);
	if (k->tx.win != LEND_NONE)
		lend_pace_sent(c, s);
	if (k->server || k->tx.win != LEND_NONE)
		lend_loss_sent(c, s, number, k, frag);
	if (!k->server)
		lend_call_sent(c, k, number);
}

/* What keeps a call from sending now. */
enum hold { FREE_TO_SEND, NOTHING_TO_SEND, WAITS };

static enum hold held(struct lend_core *c, struct lend_call_rec *k, struct lend_sess *s,
		      uint32_t *frag)
{
	if (k->state == LEND_CALL_QUEUED && k->tx.next == 0 && k->tx.charged == 0 &&
	    k->tx.len > 0 && !lend_call_admit(c, k))
		return WAITS;
	if (!lend_tx_pick(c, s, &k->tx, frag))
		return NOTHING_TO_SEND;
	if (k->tx.win == LEND_NONE || (lend_loss_room(c, s) && lend_pace_due(c, s)))
		return FREE_TO_SEND;
	return WAITS;
}

/* Sends up to most datagrams of one call to out[n] and on; leaves it where it belongs. Returns how
 * many were made. */
static uint32_t send_call(struct lend_core *c, struct lend_call_rec *k, struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t n, uint32_t most)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	uint32_t made = 0, frag;

	do {
		enum hold hold = held(c, k, s, &frag);
		struct making m = at(c, out, n + made);

		if (hold == WAITS && made == 0)
			lend_sched_wait(c, k);
		else if (hold == WAITS)
			lend_sched_ready(c,
					 k); /* who had a share waits behind those who had none */
		if (hold != FREE_TO_SEND)
			return made;
		make_data(c, &m, k, s, frag, bufs);
		sent_data(c, k, s, frag, m.out->class);
		made++;
		if (k->tx.win == LEND_NONE)
			return made; /* that was all of it */
	} while (made < most);
	lend_sched_ready(c, k);
	return made;
}

static uint32_t send_ready(struct lend_core *c, struct lend_bufs *bufs, struct lend_out *out,
			   uint32_t n, uint32_t cap)
{
	struct lend_call_rec *k;
	uint32_t lane, made;

	while (n < cap && (k = lend_sched_next(c, &lane))) {
		struct lend_sess *s = lend_sess_at(c, k->sess);

		if (s->blocked[k->fast] > c->now) {
			lend_sched_hold(c, k);
			lend_sess_arm(c, s, s->blocked[k->fast]);
			continue;
		}
		made = send_call(c, k, bufs, out, n, lend_min_u32(cap - n, LEND_SCHED_BURST));
		lend_sched_sent(c, lane, made);
		n += made;
	}
	return n;
}

uint32_t lend_core_output(struct lend_core *c, lend_ns now, struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t cap)
{
	uint32_t n = 0;
	struct lend_ctl e;

	c->now = lend_max_u64(c->now, now);
	cap = lend_min_u32(cap, LEND_OUT);
	for (uint32_t turns = c->ctl_n; turns > 0 && n < cap; turns--) {
		struct making m = make(c, out, n);
		bool here;

		lend_ctl_pop(c, &e);
		here = e.sess != LEND_NONE && lend_sess_at(c, e.sess)->id == e.id;
		if (here && lend_sess_at(c, e.sess)->blocked[0] > c->now)
			lend_ctl_push(c, &e);
		else
			n += make_ctl(c, &m, &e, bufs);
	}
	n = send_ready(c, bufs, out, n, cap);
	lend_aside(c)->stats.tx += n;
	return n;
}

lend_ns lend_core_deadline(const struct lend_core *core)
{
	struct lend_core *c = (struct lend_core *)(uintptr_t)core;
	struct lend_prioq q = lend_sess_timers(c);
	lend_ns at = lend_min_u64(q.n ? q.heap[0].key : LEND_NEVER, lend_pace_next(c));
	struct lend_ctl e;

	at = lend_min_u64(at, lend_credit_next(c));
	for (uint32_t i = 0; i < c->ctl_n && at > c->now; i++) {
		e = LEND_AT(c, at_ctl, struct lend_ctl)[(c->ctl_head + i) % LEND_CTL];
		at =
		    lend_min_u64(at, e.sess == LEND_NONE ? 0 : lend_sess_at(c, e.sess)->blocked[0]);
	}
	if (c->ready.n || lend_aside(c)->ev_n)
		return c->now;
	return c->fed && (c->starved.n || c->credit.wanting || lend_want_waiting(c)) ? c->now : at;
}
