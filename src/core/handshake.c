#include "core/handshake.h"

#include "core/admission.h"
#include "core/client_call.h"
#include "core/cookie.h"
#include "core/grant.h"
#include "core/control.h"
#include "core/peer_window.h"
#include "core/zero_rtt.h"
#include "wire/head.h"
#include "core/event.h"
#include "core/sess_lookup.h"
#include "core/sess.h"
#include "core/table_share.h"

enum { RETRIES_MAX = 3, EXCHANGES = 2, FULL_WAIT_MS = 50 };

bool lend_hs_affords(struct lend_core *c, const struct lend_ctl *e)
{
	const struct lend_sess *s = lend_sess_at(c, e->sess);
	const struct lend_hs *h = s->hs == LEND_NONE ? NULL : lend_hs_of(c, s);

	if ((e->kind != LEND_PKT_CONNECT && e->kind != LEND_PKT_ACCEPT) || !h ||
	    !lend_hs_seals(h) || h->pattern == LEND_PATTERN_RESUME)
		return true;
	return ++c->exchanges <= EXCHANGES;
}

static bool makes_sense(const struct lend_pkt_params *p, uint64_t session)
{
	return p->payload >= 64 && p->payload % 16 == 0 && p->calls > 0 && session != 0;
}

/* Applies the peer's parameters. */
static void apply_params(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_params *p)
{
	s->payload = lend_min_u32(s->payload, p->payload);
	s->unscheduled = lend_max_u32(p->unscheduled, s->payload);
	s->first = p->first ? lend_max_u32(p->first, s->payload) : s->unscheduled;
	s->message_max = lend_min_u64(p->message_max, LEND_MESSAGE_MAX);
	s->limit = (uint16_t)lend_min_u32(c->cfg.calls, p->calls);
	memcpy(s->incarnation, p->incarnation, sizeof(s->incarnation));
	lend_peer_begin(c, s);
}

/* Asks the runtime, which has the keys, to compute the proof: see lend_core_prove(). Of a sealed
 * session, tells it which session the CONNECT made. */
static void ask_for_proof(struct lend_core *c, struct lend_sess *s, const struct lend_in *in)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_PROVE);

	e->session = s->id;
	e->peer = s->peer;
	e->tag = lend_hs_of(c, s)->key_id;
	e->data = in->data;
	e->data_len = in->len;
}

static void fill_session(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
			 const struct lend_pkt_view *v, uint64_t key)
{
	struct lend_hs *h = lend_hs_of(c, s);
	const struct lend_pkt_connect *b = &v->connect;

	s->connect = b->connect;
	s->sealed = b->pattern >= LEND_PATTERN_NN;
	apply_params(c, s, &b->params);
	s->features = (uint8_t)b->features;
	lend_lookup_enter_attempt(c, s, key);
	lend_lookup_enter_peer(c, s, b->session);
	if (b->pattern >= LEND_PATTERN_NN ||
	    (b->pattern == LEND_PATTERN_PROOF && !lend_connect_is_own(c, b->connect))) {
		h->pattern = b->pattern;
		h->key_id = b->key_id;
		h->suite = b->suite;
		h->level = b->level;
	}
	s->zero_rtt = lend_zero_rtt_admit(
	    c, s, in, v, h->pattern == LEND_PATTERN_OPEN || h->pattern == LEND_PATTERN_RESUME);
	h->ticket = lend_zero_rtt_ticket(c, s);
}

static struct lend_sess *accept_new(struct lend_core *c, const struct lend_in *in,
				    const struct lend_pkt_view *v, bool proven, uint64_t key)
{
	struct lend_sess *s = lend_sess_open(c, in->peer, LEND_SESS_HALF);

	if (!s)
		return NULL;
	fill_session(c, s, in, v, key);
	lend_sess_arm(c, s, c->now + c->cfg.dead);
	if (lend_hs_of(c, s)->pattern != LEND_PATTERN_OPEN)
		ask_for_proof(c, s, in);
	if (lend_hs_of(c, s)->pattern != LEND_PATTERN_PROOF)
		lend_ctl_sess(c, s, LEND_PKT_ACCEPT, 0, 0);
	if (s->zero_rtt == LEND_PKT_ZERO_RTT_RUNS && s->sealed)
		s->key_id = lend_hs_of(c, s)->key_id;
	if (s->zero_rtt == LEND_PKT_ZERO_RTT_RUNS) {
		lend_sess_note_reads(c, s, in); /* its ticket proves the address */
		lend_sess_up(c, s);
		return s;
	}
	if (!proven)
		lend_list_push(&c->half, lend_links_half(c), lend_sess_index(c, s));
	return NULL;
}

void lend_hs_repeat(struct lend_core *c, struct lend_sess *s, const struct lend_in *in)
{
	if (s->peer != in->peer || s->client || s->state == LEND_SESS_CLOSING ||
	    s->hs == LEND_NONE) {
		LEND_COUNT(c, rx_state);
		return;
	}
	LEND_COUNT(c, rx_dup);
	if (lend_hs_of(c, s)->pattern != LEND_PATTERN_PROOF || lend_hs_of(c, s)->ready)
		lend_ctl_sess(c, s, LEND_PKT_ACCEPT, 0, 0);
}

/* Returns whether the carrier, a cookie or a ticket proves the address. key: of the attempt. */
static bool is_proven(struct lend_core *c, const struct lend_in *in,
		      const struct lend_pkt_connect *b, uint64_t key)
{
	return c->cfg.path[LEND_PEER_CARRIER(in->peer)].proven ||
	       lend_cookie_good(c, lend_core_address(c, in), b->connect, &b->cookie) ||
	       lend_zero_rtt_ticket_valid(c, in, b, key);
}

/* Answers a CONNECT while no session is free: an idle one is closed for it only after its address
 * is proven. */
static void send_retry(struct lend_core *c, const struct lend_in *in,
		       const struct lend_pkt_connect *b, bool proven)
{
	if (!proven && lend_fair_has_donor(c, in->peer))
		lend_connect_refuse(c, in, b, LEND_RETRY_COOKIE, 0);
	else
		lend_connect_refuse(c, in, b, c->half.n ? LEND_RETRY_COOKIE : LEND_RETRY_FULL,
				    FULL_WAIT_MS);
}

/* Returns whether a CONNECT may take a session; else answers it with RETRY. */
static bool admit_connect(struct lend_core *c, const struct lend_in *in,
			  const struct lend_pkt_connect *b, bool proven)
{
	uint32_t free = c->free_sess.free;

	if (!proven && free > 0 && (lend_cookie_demanded(c) || lend_fair_few_sessions(c)))
		lend_connect_refuse(c, in, b, LEND_RETRY_COOKIE, 0);
	else if ((proven || free > 0) && lend_fair_session(c, in->peer))
		return true;
	else if (free > 0)
		lend_connect_refuse(c, in, b, LEND_RETRY_FULL, 0);
	else
		send_retry(c, in, b, proven);
	return false;
}

/* Returns whether a CONNECT of our own is to be answered: it was sent to our own address. */
static bool is_our_loop(struct lend_core *c, const struct lend_in *in,
			const struct lend_pkt_connect *b)
{
	const struct lend_sess *s = lend_sess_find(c, b->session);

	return s && s->state == LEND_SESS_CONNECTING && s->connect == b->connect &&
	       s->peer == in->peer && lend_hs_of(c, s)->flags & LEND_HS_LOOPS;
}

static bool screen_connect(struct lend_core *c, const struct lend_in *in,
			   const struct lend_pkt_connect *b, const struct lend_core_policy *policy)
{
	uint64_t key = lend_lookup_key(c, b);
	struct lend_sess *s = NULL;

	if (!lend_connect_fits(b, policy)) {
		lend_connect_refuse(c, in, b, LEND_RETRY_LEVEL, 0);
		return false;
	}
	if (b->pattern < LEND_PATTERN_NN)
		return true;
	if (lend_connect_is_own(c, b->connect) && !is_our_loop(c, in, b)) {
		LEND_COUNT(c, rx_own);
		return false;
	}
	s = lend_lookup_by_attempt(c, key, b);
	if (s)
		lend_hs_repeat(c, s, in);
	else if (lend_cookie_charged(c) && !is_proven(c, in, b, key))
		lend_connect_refuse(c, in, b, LEND_RETRY_COOKIE, 0);
	else
		return true;
	return false;
}

bool lend_core_screen(struct lend_core *c, lend_ns now, const struct lend_in *in,
		      const struct lend_core_policy *policy)
{
	struct lend_pkt_view v;

	c->now = lend_max_u64(c->now, now);
	/* lend_core_input() counts it. */
	if (lend_pkt_decode(&v, in->data, in->len) != LEND_PKT_OK ||
	    v.head.kind != LEND_PKT_CONNECT || v.connect.pattern >= LEND_PATTERNS)
		return true;
	return screen_connect(c, in, &v.connect, policy);
}

struct lend_sess *lend_hs_on_connect(struct lend_core *c, const struct lend_in *in,
				     const struct lend_pkt_view *v)
{
	const struct lend_pkt_connect *b = &v->connect;
	uint64_t key = lend_lookup_key(c, b);
	struct lend_sess *s;
	bool proven;

	/* Checked before anything is allocated or sent for this CONNECT. */
	if (!makes_sense(&b->params, b->session) || !lend_connect_is_known(c, b)) {
		LEND_COUNT(c, rx_length);
		return NULL;
	}
	s = lend_lookup_by_attempt(c, key, b);
	if (s) {
		lend_hs_repeat(c, s, in);
		return NULL;
	}
	proven = is_proven(c, in, b, key);
	return admit_connect(c, in, b, proven) ? accept_new(c, in, v, proven, key) : NULL;
}

bool lend_hs_is_accept(struct lend_core *c, const struct lend_sess *s,
		       const struct lend_pkt_view *v)
{
	bool sealed = s->sealed || (s->hs != LEND_NONE && lend_hs_seals(lend_hs_of(c, s)));

	/* An attacker that reads our CONNECT can send one in clear: even its number is not
	 * believed. */
	if (sealed && v->accept.pattern < LEND_PATTERN_NN)
		return false;
	return s->client && v->accept.connect == s->connect &&
	       (s->state == LEND_SESS_CONNECTING || v->accept.session == s->peer_id);
}

/* Resumes a call that waited for the session or was sent with its CONNECT. */
static void resume_call(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			uint32_t said)
{
	if (k->state == LEND_CALL_DRAINING)
		lend_call_drain(c, k);
	else if (k->state == LEND_CALL_OPEN)
		lend_zero_rtt_answered(c, s, k, said);
	else if (k->marks & LEND_MARK_HEAD_OUT && !(s->features & LEND_FEATURE_REQUEST_HEADS))
		lend_call_stop(c, k, UNIMPLEMENTED);
	else
		lend_call_admitted(c, s, k);
}

/* Sends PROOF before the calls. It is retransmitted until the server shows that it arrived. */
static void send_proof(struct lend_core *c, struct lend_sess *s)
{
	struct lend_hs *h = lend_hs_of(c, s);

	if (h->pattern != LEND_PATTERN_PROOF) {
		lend_hs_close(c, s);
		return;
	}
	h->seen = s->seen;
	s->ctl_tries = 0;
	s->ctl_timer = c->now + lend_loss_rto(s, 0);
	lend_ctl_sess(c, s, LEND_PKT_PROOF, 0, 0);
	lend_sess_arm(c, s, s->ctl_timer);
}

void lend_hs_accepted(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	struct lend_call_rec *k;
	uint32_t at = 0;

	s->last_rx = c->now;
	apply_params(c, s, &v->accept.params);
	s->features = (uint8_t)v->accept.features;
	lend_lookup_enter_peer(c, s, v->accept.session);
	s->ctl_timer = LEND_NEVER;
	lend_sess_up(c, s);
	lend_zero_rtt_on_accept(c, s, v);
	send_proof(c, s);
	while ((k = lend_sess_next_made(c, s, &at, NULL)))
		resume_call(c, s, k, v->accept.zero_rtt);
	/* Proves the address of a session that sends no call. A waiting call may be cancelled
	 * before it is sent; on a lossless path no timer would send the proof then. */
	if ((s->calls == 0 || (s->lossless && !v->accept.zero_rtt)) && s->hs == LEND_NONE)
		lend_ctl_sess(c, s, LEND_PKT_PING, 0, 0);
}

/* Handles a copy of ACCEPT: the client's datagrams may be lost, the next one proves the session. A
 * copy does not show that PROOF arrived, though it is newer. */
static void handle_copy(struct lend_core *c, struct lend_sess *s)
{
	if (s->hs != LEND_NONE)
		lend_hs_of(c, s)->seen = s->seen;
}

/* Returns whether an ACCEPT of this pattern answers our CONNECT. */
static bool answers_pattern(const struct lend_hs *h, uint8_t pattern)
{
	return lend_hs_seals(h) ? pattern >= LEND_PATTERN_NN && pattern < LEND_PATTERNS
				: pattern <= h->pattern;
}

void lend_hs_on_accept(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
		       const struct lend_pkt_view *v)
{
	struct lend_hs *h;

	if (s->state == LEND_SESS_UP) {
		handle_copy(c, s);
		return;
	}
	h = lend_hs_of(c, s);
	if (!makes_sense(&v->accept.params, v->accept.session) ||
	    !answers_pattern(h, v->accept.pattern)) {
		LEND_COUNT(c, rx_state);
		return;
	}
	if (v->accept.pattern == LEND_PATTERN_PROOF) {
		s->last_rx = s->last_ping; /* not alive before its ACCEPT is proven */
		ask_for_proof(c, s, in);
		return;
	}
	s->sealed = lend_hs_seals(h);
	s->key_id = s->sealed ? h->key_id : 0;
	if (!s->sealed)
		h->pattern = LEND_PATTERN_OPEN;
	lend_hs_accepted(c, s, v);
}

/* Takes another suite that both ends have, for the next CONNECT. Without one, an open session ends;
 * a sealed one goes on, since a RETRY proves nothing. */
static bool choose_suite(struct lend_core *c, struct lend_sess *s, uint8_t suites)
{
	struct lend_hs *h = lend_hs_of(c, s);

	if (!lend_hs_seals(h)) {
		lend_sess_down(c, s, UNAUTHENTICATED, false);
		return false;
	}
	suites &= c->cfg.suites & (uint8_t) ~(1u << h->suite);
	if (!suites)
		h->flags |= LEND_HS_REFUSED;
	else
		h->suite = (uint8_t)__builtin_ctz(suites);
	return suites != 0;
}

/* No session is free: an open attempt ends; a sealed one goes on with the timer's next CONNECT,
 * which is a full handshake. */
static void refuse_full(struct lend_core *c, struct lend_sess *s)
{
	struct lend_hs *h = lend_hs_of(c, s);

	if (lend_hs_seals(h))
		h->flags |= LEND_HS_FULL;
	else
		lend_sess_down(c, s, RESOURCE_EXHAUSTED, false);
}

void lend_hs_on_retry(struct lend_core *c, const struct lend_in *in, const struct lend_pkt_view *v)
{
	struct lend_sess *s = lend_sess_find(c, v->head.session);
	struct lend_hs *h;
	lend_ns wait = v->retry.wait_ms * LEND_MS;

	if (!s || s->state != LEND_SESS_CONNECTING || s->peer != in->peer ||
	    s->connect != v->retry.connect || !v->retry.reason ||
	    v->retry.reason > LEND_RETRY_LEVEL) {
		LEND_COUNT(c, rx_state);
		return;
	}
	h = lend_hs_of(c, s);
	if (v->retry.reason == LEND_RETRY_FULL) {
		refuse_full(c, s);
		return;
	}
	if (h->retries >= RETRIES_MAX)
		return;
	if (v->retry.reason == LEND_RETRY_LEVEL && !choose_suite(c, s, v->retry.suites))
		return;
	h->retries++;
	h->cookie = v->retry.cookie;
	if (!wait) {
		lend_hs_tick(c, s);
	} else {
		wait = lend_min_u64(wait, LEND_RTO_MAX);
		s->ctl_timer = c->now + wait + lend_lookup_jitter(c, s, h->retries) % wait;
	}
	lend_sess_arm(c, s, s->ctl_timer);
}

bool lend_hs_proves(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v)
{
	const struct lend_hs *h = lend_hs_of(c, s);

	if (h->pattern != LEND_PATTERN_PROOF && v->head.kind != LEND_PKT_PROOF) {
		s->key_id = lend_hs_seals(h) ? h->key_id : 0;
		return true;
	}
	if (h->ready && v->head.kind == LEND_PKT_PROOF &&
	    lend_equal_ct(h->proof, v->proof.proof, sizeof(h->proof))) {
		s->key_id = h->key_id;
		return true;
	}
	LEND_COUNT(c, rx_unproven);
	return false;
}

void lend_hs_tick(struct lend_core *c, struct lend_sess *s)
{
	bool connecting = s->state == LEND_SESS_CONNECTING;
	lend_ns rto;

	/* PROOF is confirmed by anything that arrived since it was sent. */
	if (!connecting && (s->hs == LEND_NONE || s->seen != lend_hs_of(c, s)->seen)) {
		lend_hs_close(c, s);
		s->ctl_timer = LEND_NEVER;
		return;
	}
	/* The control queue is half full: a datagram queued now would not leave earlier. */
	if (c->ctl_n >= LEND_CTL / 2) {
		s->ctl_timer = c->now + LEND_MS;
		return;
	}
	if (!s->ctl_waits)
		lend_ctl_sess(c, s, connecting ? LEND_PKT_CONNECT : LEND_PKT_PROOF, 0, 0);
	rto = lend_loss_rto(s, ++s->ctl_tries);
	s->ctl_timer = c->now + rto + lend_lookup_jitter(c, s, s->ctl_tries) % (rto / 4);
}
