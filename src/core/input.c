/* input - decoding of received datagrams, dispatch to session and call, counters of faulty ones.
 * Layer: core (pure). */
#include "core/client_call.h"
#include "core/grant.h"
#include "core/control.h"
#include "core/event.h"
#include "core/table_share.h"
#include "core/handshake.h"
#include "core/loss.h"
#include "core/peer_window.h"
#include "core/server_call.h"
#include "core/sess.h"
#include "core/short_call.h"
#include "core/memory_queue.h"
#include "core/reorder.h"
#include "core/short_burst.h"

/* Answers a datagram of an unknown session. The answer is never longer than that datagram, so it
 * cannot be used for amplification. */
static void send_reset(struct lend_core *c, const struct lend_in *in, const struct lend_pkt *head)
{
	const struct lend_ctl e = {
	    .sess = LEND_NONE, .peer = in->peer, .id = head->session, .kind = LEND_PKT_RESET};

	if (lend_sess_is_stale(c, head->session))
		LEND_COUNT(c, rx_stale);
	else
		LEND_COUNT(c, rx_session);
	if (head->session != 0)
		lend_ctl_push(c, &e);
}

void lend_core_stray(struct lend_core *c, lend_ns now, const struct lend_in *in)
{
	struct lend_pkt head;

	c->now = lend_max_u64(c->now, now);
	memcpy(&head, in->data, sizeof(head));
	LEND_COUNT(c, rx);
	if (lend_sess_find(c, head.session))
		LEND_COUNT(c, rx_state);
	else
		send_reset(c, in, &head);
}

static void on_probe(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	struct lend_call_rec *k;

	lend_serve_on_ack(c, s, v);
	lend_serve_state(c, s, v->head.call, &k);
	if (k)
		lend_memq_on_query(c, k);
	else if (lend_fair_resend(c, s, v->head.call))
		return;
	lend_ctl_answer(c, s, v->head.call, LEND_PKT_SERVED);
}

static void on_ping(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	if (v->head.length & LEND_PKT_ASKS)
		lend_ctl_sess(c, s, LEND_PKT_RUNNING, 0, 0);
	else
		lend_ctl_answer(c, s, 0, 0);
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
	const struct lend_ctl e = {
	    .sess = LEND_NONE, .peer = in->peer, .id = s->peer_id, .kind = LEND_PKT_BYE_ACK};

	/* The session ends before the answer is built, so BYE_ACK is built without a session. */
	lend_sess_down(c, s, UNAVAILABLE, false);
	lend_ctl_push(c, &e);
}

static bool report_sane(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	/* A PING, or the answer to a PROBE, comes after a pause in which all datagrams in flight
	 * have arrived: unseen numbers are lost. */
	bool probed = v->head.kind == LEND_PKT_PING || v->head.kind == LEND_PKT_RUNNING ||
		      (v->head.kind == LEND_PKT_ACK && v->head.length & LEND_PKT_PROBED);
	enum lend_loss_source word = probed                           ? LEND_LOSS_PROBE_ANSWER
				     : v->head.kind == LEND_PKT_PROBE ? LEND_LOSS_PROBE
								      : LEND_LOSS_OTHER;

	if (lend_loss_reported(c, s, &v->seen, word))
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
	case LEND_PKT_CALLS:
		lend_short_receive(c, bufs, s, v->head.number, v->payload, v->payload_len);
		return;
	case LEND_PKT_ACK:
		on_ack(c, s, v);
		return;
	case LEND_PKT_PROBE:
		on_probe(c, s, v);
		return;
	case LEND_PKT_CANCEL:
		lend_serve_on_cancel(c, s, v);
		return;
	case LEND_PKT_GONE:
		lend_call_on_gone(c, s, v->head.call);
		return;
	case LEND_PKT_PING:
		on_ping(c, s, v);
		return;
	case LEND_PKT_RUNNING:
		lend_call_on_running(c, s, &v->running);
		return;
	case LEND_PKT_PROOF:
		lend_ctl_answer(c, s, 0, 0);
		return;
	case LEND_PKT_BYE:
		on_bye(c, s, in);
		return;
	case LEND_PKT_BYE_ACK:
		LEND_COUNT(c, rx_state);
		return;
	case LEND_PKT_CONNECT:
	case LEND_PKT_ACCEPT:
	case LEND_PKT_RESET:
	case LEND_PKT_RETRY:
	case LEND_PKT_KINDS:
	case LEND_PKT_DRAIN:
		break;
	}
	LEND_CHECK(!"a kind that is dispatched before, or that decode refuses");
}

/* Ends a session with LEND_OVERRUNS_MAX datagrams beyond its grants. A single one may be late, or
 * from an end that was restored from a copy. */
static void end_greedy(struct lend_core *c, struct lend_sess *s)
{
	if (s->strikes < LEND_OVERRUNS_MAX || s->state != LEND_SESS_UP)
		return;
	LEND_COUNT(c, greedy);
	lend_sess_down(c, s, UNAVAILABLE, true);
}

static const struct lend_path *path_of(const struct lend_core *c, uint32_t peer)
{
	return &c->cfg.path[LEND_PEER_CARRIER(peer) % LEND_CARRIERS_MAX];
}

/* Returns whether the session accepts the datagram in its state. The datagram may prove the session
 * or end it. */
static bool is_welcome(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
		       const struct lend_pkt_view *v)
{
	bool accept = v->head.kind == LEND_PKT_ACCEPT;

	if (s->peer != in->peer || (s->state == LEND_SESS_CONNECTING && !accept)) {
		LEND_COUNT(c, rx_state);
		return false;
	}
	if (accept && !lend_hs_is_accept(c, s, v)) {
		LEND_COUNT(c, rx_state);
		return false;
	}
	/* The only kinds of a sealed session that are not authenticated. */
	if (s->sealed && s->state != LEND_SESS_CLOSING &&
	    (v->head.kind == LEND_PKT_BYE_ACK || v->head.kind == LEND_PKT_PROOF)) {
		LEND_COUNT(c, rx_state);
		return false;
	}
	if (s->state == LEND_SESS_CLOSING) {
		if (v->head.kind == LEND_PKT_BYE_ACK || v->head.kind == LEND_PKT_BYE)
			lend_sess_free(c, s);
		return false;
	}
	if (s->state == LEND_SESS_HALF && !lend_hs_proves(c, s, v))
		return false;
	if (s->state == LEND_SESS_HALF || accept)
		lend_sess_note_reads(c, s, in);
	if (s->state == LEND_SESS_HALF)
		lend_sess_prove(c, s);
	return true;
}

/* Notes an ECN mark. whole: on a datagram of short messages, which need no grant. Their sender must
 * learn of it soon; marked replies show that this end itself asked for too much. */
static __attribute__((noinline)) void note_mark(struct lend_core *c, struct lend_sess *s,
						bool whole)
{
	if (!whole) {
		s->ecn += !lend_grants_apply(c, s) || lend_grants_marked(c);
		return;
	}
	s->ecn++;
	if (!s->client || c->used[1])
		lend_sess_report_soon(c, s);
	if (c->used[0] && s->calls)
		lend_peer_reply_marked(c, s);
}

/* Records the arrival of a datagram. Returns true for a duplicate. */
LEND_HOT bool note(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
		   uint64_t number, bool whole)
{
	s->last_rx = c->now;
	if (LEND_RARE(in->ecn))
		note_mark(c, s, whole);
	if (LEND_RARE(lend_seen_is_hole(s, number))) {
		lend_reorder_of(c, s); /* from now on, missing numbers are counted */
		lend_sess_report_soon(c, s);
	}
	if (!lend_seen_note(c, s, number))
		return false;
	LEND_COUNT(c, rx_dup);
	return true;
}

static void dispatch_sess(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			  const struct lend_in *in, const struct lend_pkt_view *v)
{
	if (!is_welcome(c, s, in, v) || note(c, s, in, v->head.number, false))
		return;
	if (v->head.kind == LEND_PKT_ACCEPT) {
		lend_hs_on_accept(c, s, in, v);
	} else if (!lend_pkt_reports(&v->head) || report_sane(c, s, v)) {
		dispatch_up(c, bufs, s, in, v);
		end_greedy(c, s);
	}
}

/* Fast path of most datagrams: a whole message on a session that is up. Returns false, with nothing
 * done, for any other datagram and for a faulty one. */
LEND_HOT bool input_whole(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in)
{
	struct lend_pkt_view v;
	struct lend_sess *s;

	if (in->len < LEND_PKT_WHOLE_MIN || in->body)
		return false;
	s = lend_sess_find(c, lend_pkt_session(in->data));
	if (!s || s->state != LEND_SESS_UP || s->peer != in->peer || !lend_event_room(c) ||
	    !lend_pkt_decode_short(&v, in->data, in->len) || v.head.length > s->payload)
		return false;
	if (note(c, s, in, v.head.number, true))
		return true;
	if (v.head.flags & LEND_PKT_ACKED && !report_sane(c, s, &v))
		return true;
	if (v.head.kind == LEND_PKT_REQUEST)
		lend_serve_on_request(c, bufs, s, &v);
	else if (v.head.kind == LEND_PKT_REPLY)
		lend_call_on_whole(c, bufs, s, &v);
	else
		lend_short_receive(c, bufs, s, v.head.number, v.payload, v.payload_len);
	end_greedy(c, s);
	return true;
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
	case LEND_PKT_LENGTH:
		LEND_COUNT(c, rx_length);
		return;
	case LEND_PKT_OK:
		break;
	}
	LEND_CHECK(!"a datagram that is in order");
}

static bool decode_packet(struct lend_core *c, struct lend_pkt_view *v, const struct lend_in *in)
{
	enum lend_pkt_fault fault =
	    in->body ? lend_pkt_decode_apart(v, in) : lend_pkt_decode(v, in->data, in->len);

	if (fault != LEND_PKT_OK)
		count_fault(c, fault);
	return fault == LEND_PKT_OK;
}

static void on_connect(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in,
		       const struct lend_pkt_view *v)
{
	struct lend_sess *s = lend_hs_on_connect(c, in, v);
	struct lend_pkt_view zero_rtt_call = {
	    .head = v->head, .payload = v->payload, .payload_len = v->payload_len};

	if (!s)
		return;
	zero_rtt_call.head.kind = LEND_PKT_REQUEST;
	zero_rtt_call.request = v->zero_rtt_call;
	lend_serve_on_request(c, bufs, s, &zero_rtt_call);
}

static bool of_no_session(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in,
			  const struct lend_pkt_view *v)
{
	if (v->head.kind == LEND_PKT_CONNECT)
		on_connect(c, bufs, in, v);
	else if (v->head.kind == LEND_PKT_RESET)
		lend_sess_on_reset(c, in->peer, v->head.session);
	else if (v->head.kind == LEND_PKT_RETRY)
		lend_hs_on_retry(c, in, v);
	else
		return false;
	return true;
}

static __attribute__((noinline)) void input_one(struct lend_core *c, struct lend_bufs *bufs,
						const struct lend_in *in)
{
	const struct lend_path *path = path_of(c, in->peer);
	struct lend_pkt_view v;
	struct lend_sess *s;

	if (in->len > path->mtu) {
		LEND_COUNT(c, rx_long);
		return;
	}
	if (!decode_packet(c, &v, in))
		return;
	if (!lend_event_room(c)) {
		LEND_COUNT(c, rx_full);
		return;
	}
	if (of_no_session(c, bufs, in, &v))
		return;
	s = lend_sess_find(c, v.head.session);
	if (!s)
		send_reset(c, in, &v.head);
	else
		dispatch_sess(c, bufs, s, in, &v);
}

/* The call that a datagram begins with, as far as it is read for a prefetch. */
struct first_call {
	uint32_t sess, slot;
	bool made;   /* by this end */
	bool framed; /* it is in a frame, so most likely it has no record */
};

/* Reads the first call of a datagram. Returns false if its session or slot cannot exist. */
static inline bool read_first(const struct lend_core *c, const struct lend_in *in,
			      struct first_call *to)
{
	const uint8_t *at = in->data;
	uint64_t first, session;

	if (in->len < sizeof(struct lend_pkt) + sizeof(uint64_t))
		return false;
	first = lend_load_u64(at + offsetof(struct lend_pkt, magic)); /* and the call */
	session = lend_load_u64(at + offsetof(struct lend_pkt, session));
	LEND_ONCE_REG(first);
	LEND_ONCE_REG(session);
	to->sess = (uint32_t)(session & LEND_INDEX_MASK);
	to->framed = (uint8_t)(first >> 16) == LEND_PKT_CALLS;
	to->slot = lend_pkt_slot((uint32_t)(first >> 32));
	to->made = first >> 24 & LEND_PKT_SERVED;
	if (to->framed && !(first >> 24 & LEND_PKT_ACKED)) { /* no report before the frame */
		first = lend_load_u64(at + sizeof(struct lend_pkt));
		LEND_ONCE_REG(first);
		to->slot = lend_pkt_slot((uint32_t)first);
		to->made = first >> 48 & LEND_PKT_SERVED;
	}
	return to->sess < c->cfg.sessions && to->slot < c->cfg.calls;
}

/* Prefetches the call record that a slot names. The slot is in the cache by now. */
static void fetch_call(struct lend_core *c, const struct first_call *f)
{
	const struct lend_sess *s = lend_sess_at(c, f->sess);
	uint32_t rec;

	if (f->slot >= (f->made ? s->cslots : s->sslots))
		return;
	rec = f->made ? lend_cslot_at(c, f->sess, f->slot)->rec
		      : lend_sslot_at(c, f->sess, f->slot)->rec;
	if (rec >= c->records)
		return;
	__builtin_prefetch(lend_call_at(c, rec), 1);
	__builtin_prefetch((char *)lend_call_at(c, rec) + 64, 1);
	__builtin_prefetch((char *)lend_call_at(c, rec) + 128, 1);
	__builtin_prefetch((char *)lend_call_at(c, rec) + 192, 1);
}

/* Prefetches for a burst, so that the memory of one datagram arrives while earlier ones are
 * processed: sessions first, then the records that they lead to. */
static void prefetch_burst(struct lend_core *c, const struct lend_in *in, uint32_t n)
{
	bool records = false;
	struct first_call f;

	for (uint32_t i = 0; i < n; i++) {
		if (!read_first(c, &in[i], &f))
			continue;
		records |= !f.framed;
		lend_sess_fetch(c, f.sess);
		if (f.made) {
			lend_timer_fetch(c, f.sess);
			__builtin_prefetch(lend_cslot_at(c, f.sess, f.slot), 1);
		} else {
			size_t position = lend_slot_position(c, f.sess, f.slot);

			__builtin_prefetch(lend_sslot_in(c, position), 1);
			__builtin_prefetch(lend_kept_bytes(c, position), 1);
		}
	}
	for (uint32_t i = 0; records && i < n; i++)
		if (read_first(c, &in[i], &f) && !f.framed)
			fetch_call(c, &f);
}

static bool has_frames(const struct lend_in *in)
{
	return in->len > sizeof(struct lend_pkt) &&
	       ((const uint8_t *)in->data)[offsetof(struct lend_pkt, kind)] == LEND_PKT_CALLS;
}

/* Handles a datagram that is not as predicted. */
static void input_other(struct lend_core *c, struct lend_bufs *bufs, const struct lend_in *in)
{
	if (in->gone && in->len == 0) {
		lend_sess_peer_gone(c, in->peer);
		return;
	}
	LEND_COUNT(c, rx);
	if (!input_whole(c, bufs, in))
		input_one(c, bufs, in);
}

/* Handles datagrams of which the first is not as predicted. */
static __attribute__((noinline)) void input_rest(struct lend_core *c, struct lend_bufs *bufs,
						 const struct lend_in *in, uint32_t n)
{
	for (const struct lend_in *end = in + n; in < end;) {
		input_other(c, bufs, in++);
		if (in < end && has_frames(in))
			in += lend_short_input(c, bufs, in, (uint32_t)(end - in));
	}
}

void lend_core_input(struct lend_core *c, lend_ns now, struct lend_bufs *bufs,
		     const struct lend_in *in, uint32_t n)
{
	uint32_t predicted = 0;

	lend_burst_end(c);
	c->now = lend_max_u64(c->now, now);
	c->exchanges = 0;
	if (c->cfg.sessions >= LEND_MANY)
		prefetch_burst(c, in, n);
	lend_event_rewind(lend_unhashed(c));
	if (n && has_frames(in))
		predicted = lend_short_input(c, bufs, in, n);
	if (predicted < n)
		input_rest(c, bufs, in + predicted, n - predicted);
}
