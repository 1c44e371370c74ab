/* output - datagrams to send: control first, then the calls that are ready, a few each.
 * Layer: core (pure). */
#include "core/client_call.h"
#include "core/coalesce.h"
#include "core/flight.h"
#include "core/grant.h"
#include "core/host_queue.h"
#include "core/control.h"
#include "core/handshake.h"
#include "core/loss.h"
#include "core/packet_build.h"
#include "core/pace.h"
#include "core/sched.h"
#include "core/sess.h"
#include "core/tx.h"
#include "core/memory_queue.h"
#include "core/short_burst.h"

/* Returns whether enough records are free for others while replies wait for acknowledgement. */
static bool is_roomy(const struct lend_core *c)
{
	return c->used[1] <= c->cfg.inflight / 2;
}

static void put_reply(struct lend_core *c, const struct lend_sess *s, struct lend_pkt_reply *to,
		      const struct lend_call_rec *k)
{
	lend_ns delay = c->now - k->stamp;

	/* A retransmitted reply answers a later datagram than the one it names. */
	if (k->tx.low != 0 || delay > UINT32_MAX)
		delay = UINT32_MAX;
	*to = (struct lend_pkt_reply){.status = k->status,
				      .ran = (uint8_t)(k->ran | k->more_hops << LEND_RAN_BITS),
				      .patience_ms = is_roomy(c) ? LEND_ACK_DELAY_MS : 0,
				      .window = lend_window_share(c, s),
				      .delay_ns = (uint32_t)delay,
				      .acked = k->number};
}

/* Datagrams that output() has built so far: the entries of the next one, the number built, and the
 * number that may be. */
struct sending {
	const struct lend_bufs *bufs;
	struct lend_out *out;
	struct lend_out_rec *rec;
	uint32_t n, cap;
};

LEND_HOT void go_on(struct sending *o, uint32_t n)
{
	o->out += n;
	o->rec += n;
	o->n += n;
}

static __attribute__((noinline)) void end_reports(struct lend_core *c)
{
	struct lend_unhashed *a = lend_unhashed(c);

	while (a->reported_n)
		lend_sess_at(c, a->reported[--a->reported_n])->ack_due = 0;
}

/* Writes the header and the block, and the report if one is due. Returns their length. */
LEND_HOT uint32_t put_head(struct lend_core *c, union lend_head *to, const struct lend_call_rec *k,
			   struct lend_sess *s, uint32_t offset, bool server)
{
	uint32_t len =
	    server ? sizeof(to->pkt) + sizeof(to->reply) : sizeof(to->pkt) + sizeof(to->request);

	to->first = lend_pkt_first(server ? LEND_PKT_REPLY : LEND_PKT_REQUEST,
				   k->class | (server ? LEND_PKT_SERVED : 0u) |
				       (k->marks & LEND_MARK_HEAD_OUT));
	to->pkt.call = k->wire;
	to->pkt.session = s->peer_id;
	to->pkt.number = s->number;
	to->pkt.offset = offset;
	to->pkt.length = k->tx.len;
	if (server)
		put_reply(c, s, &to->reply, k);
	else
		lend_make_request(&to->request, k, c->now);
	return s->ack_due ? len + lend_make_report(c, s, to, len) : len;
}
_Static_assert(LEND_PKT_OVERHEAD <= LEND_HEAD_BYTES, "head");

/* Fills in the pieces of fragment frag of a chain. A chain of which the peer reads segments in our
 * memory is one piece. */
static __attribute__((noinline)) uint8_t chain_pieces(const struct sending *o,
						      struct lend_call_rec *k,
						      const struct lend_sess *s, uint32_t frag)
{
	struct lend_piece *piece = o->out->piece;

	if (!k->shared || k->tx.win != LEND_NONE || !s->reads)
		return lend_tx_pieces(&k->tx, o->bufs, frag * lend_tx_unit(s, &k->tx),
				      lend_tx_frag_len(s, &k->tx, frag), piece);
	*piece = (struct lend_piece){.buf = k->tx.buf, .len = k->tx.len};
	return 1;
}

/* Builds fragment frag of k as the next datagram. Inline, so that single-datagram messages skip the
 * computation of fragments, and requests skip the code for replies. */
LEND_HOT void make_data(struct lend_core *c, const struct sending *o, struct lend_call_rec *k,
			struct lend_sess *s, uint32_t frag, uint8_t class, bool server)
{
	struct lend_out *out = o->out;
	struct lend_out_rec *rec = o->rec;
	uint32_t offset = frag ? frag * lend_tx_unit(s, &k->tx) : 0;

	rec->ctl.kind = 0;
	rec->call = k->self;
	rec->first = !server && k->state == LEND_CALL_QUEUED;
	rec->acks = s->ack_due;
	rec->news = 0;
	if (s->blocked[k->fast]) {
		rec->news = 1;
		lend_unhashed(c)->news = 1;
	}
	out->head_len = (uint8_t)put_head(c, &rec->head, k, s, offset, server);
	out->head = &rec->head;
	out->tail = NULL;
	out->peer = s->peer;
	out->sess = k->sess;
	out->tail_len = 0;
	out->class = class;
	out->sent = 0;
	out->fast = k->fast;
	out->n = k->tx.len && o->bufs->seg[k->tx.buf].next
		     ? chain_pieces(o, k, s, frag)
		     : lend_tx_pieces(&k->tx, o->bufs, offset, lend_tx_frag_len(s, &k->tx, frag),
				      out->piece);
}

/* Charges a call to its session's credit before its first byte. False: the credit is used up. */
static bool may_start(struct lend_sess *s, struct lend_call_rec *k)
{
	return k->state != LEND_CALL_QUEUED || k->tx.next || k->tx.charged ||
	       lend_call_admit(s, k, lend_call_eager(s, k));
}

/* Returns the class of a message of one datagram. */
LEND_HOT uint8_t whole_class(struct lend_core *c, const struct lend_sess *s,
			     const struct lend_call_rec *k, bool server)
{
	return server ? k->class : lend_peer_class(c, s, k->class);
}

/* Sends a message of one datagram. It needs no room in the congestion window and is not paced; a
 * request has been charged to its peer's window. */
LEND_HOT uint64_t send_whole(struct lend_core *c, struct sending *o, struct lend_call_rec *k,
			     struct lend_sess *s, bool server)
{
	uint8_t class = whole_class(c, s, k, server);

	make_data(c, o, k, s, 0, class, server);
	go_on(o, 1);
	if (k->tx.next)
		LEND_COUNT(c, repeats);
	k->tx.resend = 0;
	k->tx.next = 1;
	return lend_sent_number(c, s, class, false);
}

LEND_HOT void send_reply(struct lend_core *c, struct sending *o, struct lend_call_rec *k,
			 struct lend_sess *s)
{
	lend_loss_sent(c, s, send_whole(c, o, k, s, true), k, 0);
}

LEND_HOT void send_request(struct lend_core *c, struct sending *o, struct lend_call_rec *k,
			   struct lend_sess *s)
{
	lend_call_sent(c, s, k, send_whole(c, o, k, s, false));
}

static void send_coalesced(struct lend_core *c, struct sending *o)
{
	go_on(o, lend_coalesce_send(c, o->out, o->rec, o->cap - o->n));
}

/* Returns the class of the call's datagrams. */
static uint8_t class_of(struct lend_core *c, const struct lend_sess *s,
			const struct lend_call_rec *k)
{
	return k->tx.win != LEND_NONE ? lend_sched_wire_class(s, k)
				      : whole_class(c, s, k, k->server);
}

/* Sends the session's open datagram before one of this call, which has a larger number, if there is
 * room for both, and unless the call is more urgent. */
LEND_HOT void keep_order(struct lend_core *c, struct sending *o, const struct lend_sess *s,
			 const struct lend_call_rec *k)
{
	if (LEND_RARE(c->coalesced_n) && o->n + c->coalesced_n < o->cap &&
	    lend_coalesce_is_open(c, s) &&
	    lend_coalesced_at(c, s->coalesced)->class <= class_of(c, s, k))
		send_coalesced(c, o);
}

static void sent_data(struct lend_core *c, struct lend_call_rec *k, struct lend_sess *s,
		      uint32_t frag, uint8_t class)
{
	uint64_t number = lend_sent_number(c, s, class, true);

	if (frag < k->tx.next)
		LEND_COUNT(c, repeats);
	lend_tx_sent(c, &k->tx, frag);
	lend_pace_sent(c, s);
	lend_loss_sent(c, s, number, k, frag);
	lend_flight_sent(c, s, 1);
	lend_host_queue_sent(c, s, lend_tx_frag_len(s, &k->tx, frag));
	if (!k->server)
		lend_call_sent(c, s, k, number);
}

/* Whether a call may send now. */
enum hold { FREE_TO_SEND, NOTHING_TO_SEND, WAITS, WAITS_FOR_HOST };

static enum hold pick_fragment(struct lend_core *c, struct lend_call_rec *k, struct lend_sess *s,
			       uint32_t *frag)
{
	if (!may_start(s, k))
		return WAITS;
	if (!lend_tx_pick(c, s, &k->tx, frag))
		return NOTHING_TO_SEND;
	if (!lend_loss_room(c, s) || !lend_pace_due(c, s))
		return WAITS;
	return lend_host_queue_holds(c, s) ? WAITS_FOR_HOST : FREE_TO_SEND;
}

static void wait_for_host(struct lend_core *c, struct lend_call_rec *k, struct lend_sess *s)
{
	LEND_COUNT(c, host_waits);
	lend_sched_block(c, k);
	lend_sess_arm(c, s, lend_host_queue_retry(c, s));
}

/* Sends up to o.cap datagrams of one call, then puts the call into its queue. Returns how many. */
static __attribute__((noinline)) uint32_t send_long(struct lend_core *c, struct sending o,
						    struct lend_call_rec *k, struct lend_sess *s)
{
	uint8_t class = lend_sched_wire_class(s, k);
	uint32_t frag;

	do {
		enum hold hold = pick_fragment(c, k, s, &frag);

		/* A call that has sent something queues behind the calls that have not. */
		if (hold == WAITS && o.n == 0)
			lend_sched_wait(c, k);
		else if (hold == WAITS)
			lend_sched_ready(c, k);
		else if (hold == WAITS_FOR_HOST)
			wait_for_host(c, k, s);
		if (hold != FREE_TO_SEND)
			return o.n;
		make_data(c, &o, k, s, frag, class, k->server);
		o.rec->head.pkt.flags |= k->tx.fine ? LEND_PKT_FINE : 0;
		go_on(&o, 1);
		sent_data(c, k, s, frag, class);
	} while (o.n < o.cap);
	lend_sched_ready(c, k);
	return o.n;
}

/* Sends what the chosen call may send: of a long message, up to the end-th datagram. */
LEND_HOT void send_chosen(struct lend_core *c, struct sending *o, struct lend_call_rec *k,
			  uint32_t end)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	if (s->blocked[k->fast] > c->now) {
		lend_sched_block(c, k);
		lend_sess_arm(c, s, s->blocked[k->fast]);
		return;
	}
	if (k->tx.win == LEND_NONE && k->tx.next && !k->tx.resend)
		return;
	if (!k->server && lend_call_share(c, s, o->bufs, k))
		return;
	keep_order(c, o, s, k);
	if (k->tx.win != LEND_NONE) {
		uint32_t most = o->n < end ? end - o->n : 1;

		go_on(o, send_long(c, (struct sending){o->bufs, o->out, o->rec, 0, most}, k, s));
	} else if (k->server) {
		send_reply(c, o, k, s);
	} else {
		send_request(c, o, k, s);
	}
}

void lend_core_cut_fine(struct lend_core *core, lend_ns until)
{
	core->fine_until = until;
}

void lend_core_pause_bulk(struct lend_core *core, lend_ns until)
{
	lend_burst_end(core);
	core->bulk_paused_until = until;
}

/* Returns whether bulk is paused and no ready call is of an urgent class. */
static bool bulk_is_paused(const struct lend_core *c)
{
	return c->bulk_paused_until > c->now &&
	       !(lend_sched_classes(c) & ((1u << LEND_CLASS_NORMAL) - 1));
}

/* Counts the last n datagrams that were built for the fair shares: in units by length, at least one
 * each. */
static __attribute__((noinline)) void count_shares(struct lend_core *c, const struct sending *o,
						   uint32_t queue, uint32_t n)
{
	uint32_t units = n;

	for (const struct lend_out *out = o->out - n; out < o->out; out++) {
		uint64_t len = out->n ? 0 : out->head_len - sizeof(struct lend_pkt);

		for (uint32_t i = 0; i < out->n; i++)
			len += out->piece[i].len;
		units += (uint32_t)lend_min_u64(len * LEND_FAIR_UNITS /
						    lend_sess_at(c, out->sess)->payload,
						LEND_FAIR_UNITS - 1);
	}
	lend_sched_sent(c, queue, units);
}

/* Sends the calls of the fast-path array: they are of equal rank and no other call is ready, so
 * there is nothing to choose. */
LEND_HOT struct sending send_single(struct lend_core *c, struct sending o)
{
	uint32_t n = lend_sched_take_single(c), before = o.n;

	for (uint32_t i = 0; i < n; i++) {
		struct lend_call_rec *k = lend_call_at(c, c->ready.single[i]);

		k->tx.ready.in = 0;
		send_chosen(c, &o, k, o.n + 1);
	}
	c->ready.n -= n;
	if (lend_sched_counts(c, c->ready.single_queue)) {
		send_coalesced(c, &o);
		count_shares(c, &o, c->ready.single_queue, o.n - before);
	}
	return o;
}

/* Sends in turns of LEND_SCHED_BURST datagrams, each of one call or of calls of equal rank.
 * Coalesced datagrams that more urgent calls overtake follow after one turn. */
static __attribute__((noinline)) struct sending send_ready(struct lend_core *c, struct sending o)
{
	struct lend_call_rec *k;
	uint32_t queue;

	lend_sched_settle(c);
	while (o.n < o.cap && !bulk_is_paused(c) && (k = lend_sched_next(c, &queue))) {
		uint32_t first = o.n, end = lend_min_u32(o.cap, first + LEND_SCHED_BURST);

		do
			send_chosen(c, &o, k, end);
		while (o.n + c->coalesced_n < end && (k = lend_sched_more(c, queue)));
		if (c->coalesced_n && o.n < o.cap)
			send_coalesced(c, &o);
		if (lend_sched_counts(c, queue))
			count_shares(c, &o, queue, o.n - first);
	}
	return o;
}

static __attribute__((noinline)) struct sending send_ctl(struct lend_core *c, struct sending o)
{
	struct lend_ctl e;

	for (uint32_t turns = c->ctl_n; turns > 0 && o.n < o.cap; turns--) {
		struct lend_making m = lend_make_begin(o.out, o.rec);
		bool here;

		lend_ctl_pop(c, &e);
		here = e.sess != LEND_NONE && lend_sess_at(c, e.sess)->id == e.id;
		if (here &&
		    (lend_sess_at(c, e.sess)->blocked[0] > c->now || !lend_hs_affords(c, &e)))
			lend_ctl_push(c, &e);
		else if (lend_ctl_make(c, &m, &e, o.bufs))
			go_on(&o, 1);
	}
	return o;
}

static __attribute__((noinline)) uint32_t send_calls(struct lend_core *c, struct lend_bufs *bufs,
						     struct lend_out *out, uint32_t cap)
{
	struct sending o = {bufs, out, lend_unhashed(c)->out, 0, cap};

	lend_burst_end(c);
	lend_unhashed(c)->news = 0;
	if (c->ctl_n)
		o = send_ctl(c, o);
	if (lend_coalesce_ready(c) && o.n < cap)
		send_coalesced(c, &o);
	if (c->ready.single_n && c->ready.single_n + c->coalesced_n <= cap - o.n &&
	    !bulk_is_paused(c))
		o = send_single(c, o);
	if (c->ready.n)
		o = send_ready(c, o);
	if (c->coalesced_n && o.n < cap)
		send_coalesced(c, &o);
	lend_coalesce_end(c);
	if (lend_unhashed(c)->reported_n)
		end_reports(c);
	lend_unhashed(c)->stats.tx += o.n;
	return o.n;
}

/* Most event-loop iterations have nothing to send. */
uint32_t lend_core_output(struct lend_core *c, lend_ns now, struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t cap)
{
	c->now = lend_max_u64(c->now, now);
	if (c->ctl_n || c->ready.n)
		return send_calls(c, bufs, out, lend_min_u32(cap, LEND_OUT));
	if (c->coalesced_n == 0)
		return 0;
	lend_burst_end(c);
	return lend_coalesce_send_only(c, out, lend_min_u32(cap, LEND_OUT));
}

lend_ns lend_core_deadline(const struct lend_core *core)
{
	struct lend_core *c = (struct lend_core *)(uintptr_t)core;
	lend_ns at;
	struct lend_ctl e;

	/* While a burst is open, its datagram waits. */
	if (lend_unhashed(c)->ev_n || c->coalesced_n || (c->ready.n && !bulk_is_paused(c)))
		return c->now;
	at = lend_min_u64(lend_timer_next(c), lend_pace_next(c));
	at = lend_min_u64(at, lend_grants_next(c));
	for (uint32_t i = 0; i < c->ctl_n && at > c->now; i++) {
		e = LEND_AT(c, at_ctl, struct lend_ctl)[(c->ctl_head + i) % LEND_CTL];
		at =
		    lend_min_u64(at, e.sess == LEND_NONE ? 0 : lend_sess_at(c, e.sess)->blocked[0]);
	}
	if (c->ready.n)
		at = lend_min_u64(at, c->bulk_paused_until);
	return c->fed && (c->grants.waiting || lend_memq_waiting(c)) ? c->now : at;
}
