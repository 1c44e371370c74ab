#include "sim/oracle/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "core/coalesce.h"
#include "core/grant.h"
#include "core/arena.h"
#include "util/bits.h"
#include "wire/pkt.h"

static const char *const gets[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "gets CONNECT", [LEND_PKT_ACCEPT] = "gets ACCEPT",
    [LEND_PKT_RESET] = "gets RESET",     [LEND_PKT_BYE] = "gets BYE",
    [LEND_PKT_BYE_ACK] = "gets BYE_ACK", [LEND_PKT_PING] = "gets PING",
    [LEND_PKT_REQUEST] = "gets REQUEST", [LEND_PKT_REPLY] = "gets REPLY",
    [LEND_PKT_ACK] = "gets ACK",         [LEND_PKT_PROBE] = "gets PROBE",
    [LEND_PKT_CANCEL] = "gets CANCEL",   [LEND_PKT_GONE] = "gets GONE",
    [LEND_PKT_CALLS] = "gets CALLS",     [LEND_PKT_RUNNING] = "gets RUNNING",
};
static const char *const sends[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "sends CONNECT", [LEND_PKT_ACCEPT] = "sends ACCEPT",
    [LEND_PKT_RESET] = "sends RESET",     [LEND_PKT_BYE] = "sends BYE",
    [LEND_PKT_BYE_ACK] = "sends BYE_ACK", [LEND_PKT_PING] = "sends PING",
    [LEND_PKT_REQUEST] = "sends REQUEST", [LEND_PKT_REPLY] = "sends REPLY",
    [LEND_PKT_ACK] = "sends ACK",         [LEND_PKT_PROBE] = "sends PROBE",
    [LEND_PKT_CANCEL] = "sends CANCEL",   [LEND_PKT_GONE] = "sends GONE",
    [LEND_PKT_CALLS] = "sends CALLS",     [LEND_PKT_RUNNING] = "sends RUNNING",
};

/* Adds a datagram to the trace: its number, and the offset of its payload. */
static void note_datagram(struct sim *sim, uint32_t node, uint32_t peer, const char *const *words,
			  const struct lend_pkt *head)
{
	const char *word = head->kind < LEND_PKT_KINDS ? words[head->kind] : NULL;

	sim_trace_add(&sim->trace, sim->now, word ? word : "gets an invalid datagram", node, peer,
		      head->number, head->offset);
}

void sim_oracle_in(struct sim *sim, struct sim_node *n, const struct lend_in *in)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(in->peer)];
	struct lend_pkt head = {0};

	if (in->len >= sizeof(head))
		memcpy(&head, in->data, sizeof(head));
	note_datagram(sim, n->id, LEND_PEER_INDEX(in->peer), gets, &head);
	if (head.kind == LEND_PKT_CONNECT) {
		l->connect_in += in->len;
		sim_oracle_connect(sim, n, in);
	} else {
		l->other_in += in->len;
	}
}

static uint32_t bytes_of(const struct lend_out *o)
{
	uint32_t len = (uint32_t)o->head_len + o->tail_len;

	for (uint32_t i = 0; i < o->n; i++)
		len += o->piece[i].len;
	return len;
}

/* A reply may ask to be acknowledged later only while half of the server's records are free. A
 * reply that its slot keeps needs no acknowledgement. */
static void ack_patience(struct sim *sim, const struct sim_node *n, bool kept, uint8_t patience_ms)
{
	const struct lend_core *c = n->core;
	bool few = c->used[1] > c->cfg.inflight / 2;

	SIM_CHECK(
	    sim,
	    kept ? patience_ms == LEND_PATIENCE_KEPT : patience_ms <= (few ? 0 : LEND_ACK_DELAY_MS),
	    "node %u: %u calls, and a reply with patience %u ms", n->id, c->used[1], patience_ms);
	if (kept)
		SIM_MARK(sim, reply_kept);
}

static void check_frames(struct sim *sim, const struct sim_node *n, const struct lend_out *out)
{
	struct lend_pkt_view v;
	uint32_t at = 0, frames = 0;

	SIM_CHECK(sim, lend_pkt_decode(&v, out->head, out->head_len) == LEND_PKT_OK,
		  "node %u sends a coalesced datagram that is not valid", n->id);
	while (at < v.payload_len) {
		struct lend_pkt_view f;

		SIM_CHECK(sim, lend_pkt_decode_frame(&f, v.payload, v.payload_len, &at),
			  "node %u sends a frame that is not valid", n->id);
		if (f.head.flags & LEND_PKT_SERVED)
			ack_patience(sim, n, true, f.reply.patience_ms);
		frames++;
	}
	if (frames > 1)
		SIM_MARK(sim, coalesced);
}

/* Returns the session of a datagram that was sent; LEND_NONE: none. */
static uint32_t sess_of(struct lend_core *c, const struct lend_out_rec *r)
{
	if (r->ctl.kind == LEND_PKT_CALLS)
		return (uint32_t)(lend_coalesced_at(c, r->ctl.call)->id & LEND_INDEX_MASK);
	return r->ctl.kind ? r->ctl.sess : lend_call_at(c, r->call)->sess;
}

/* An address that is not proven gets no more bytes than came from it. */
void sim_oracle_out(struct sim *sim, struct sim_node *n, const struct lend_out *out, uint32_t i)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(out->peer)];
	const struct lend_out_rec *r = &lend_unhashed(n->core)->out[i];
	uint32_t len = bytes_of(out) + (sim->plan.checked ? 0 : LEND_RECORD_TRAILER);
	struct lend_pkt head;
	uint32_t sess = sess_of(n->core, r);
	uint8_t state, kind;

	memcpy(&head, out->head, sizeof(head));
	kind = head.kind;
	if (kind == LEND_PKT_REPLY)
		ack_patience(sim, n, r->ctl.kind && r->ctl.flags, r->head.reply.patience_ms);
	if (kind == LEND_PKT_CALLS)
		check_frames(sim, n, out);
	note_datagram(sim, n->id, LEND_PEER_INDEX(out->peer), sends, &head);
	if (kind == LEND_PKT_CONNECT)
		return;
	if (kind == LEND_PKT_ACCEPT || kind == LEND_PKT_RETRY) {
		l->accept_out += len;
		if (kind == LEND_PKT_RETRY)
			sim_oracle_retry(sim, n, out);
		SIM_CHECK(sim, l->accept_out <= l->connect_in,
			  "node %u answers CONNECT with more bytes than it received", n->id);
	} else if (sess == LEND_NONE) {
		l->reset_out += len;
		SIM_CHECK(sim, l->reset_out <= l->other_in,
			  "node %u sends more to an unknown address than it received", n->id);
	} else {
		state = lend_sess_at(n->core, sess)->state;
		SIM_CHECK(sim, state == LEND_SESS_UP || state == LEND_SESS_CLOSING,
			  "node %u sends kind %u to an unproven address", n->id, kind);
	}
}

/* A copy of a core's state. Comparing costs less than hashing twice. One for all runs of this
 * process. */
static uint8_t *kept;
static size_t kept_cap;

static void keep_copy(const struct lend_core *c)
{
	if (kept_cap < c->hashed) {
		kept_cap = c->hashed;
		kept = realloc(kept, kept_cap);
		LEND_CHECK(kept);
	}
	memcpy(kept, c, c->hashed);
}

/* True when all of the core is unchanged, except the replies that it still has to send. */
static bool is_as_kept(const struct lend_core *c)
{
	size_t behind = c->at_ctl + lend_align_up(LEND_CTL * sizeof(struct lend_ctl), 64);

	memcpy(kept + offsetof(struct lend_core, ctl_n), &c->ctl_n, sizeof(c->ctl_n));
	return memcmp(kept, c, c->at_ctl) == 0 &&
	       memcmp(kept + behind, (const uint8_t *)c + behind, c->hashed - behind) == 0;
}

static struct lend_ctl *answer_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_ctl, struct lend_ctl) + (c->ctl_head + i) % LEND_CTL;
}

/* Expects no change. Each valid one may be answered by a RESET. */
static void check_refusal(struct sim *sim, struct sim_node *n, const struct lend_in *in, uint32_t k,
			  uint32_t sound)
{
	struct lend_core *c = n->core;
	uint32_t waiting = c->ctl_n;

	if (!k)
		return;
	lend_core_input(c, sim->now, &n->bufs, NULL, 0);
	keep_copy(c);
	lend_core_input(c, sim->now, &n->bufs, in, k);
	SIM_CHECK(sim, is_as_kept(c), "node %u: a forged datagram changes its state", n->id);
	SIM_CHECK(sim, c->ctl_n >= waiting && c->ctl_n - waiting <= sound,
		  "node %u: %u answers to %u valid forged datagrams", n->id, c->ctl_n - waiting,
		  sound);
	for (; waiting < c->ctl_n; waiting++)
		SIM_CHECK(sim, answer_at(c, waiting)->kind == LEND_PKT_RESET,
			  "node %u: a forged datagram is answered by kind %u", n->id,
			  answer_at(c, waiting)->kind);
}

void sim_oracle_forged(struct sim *sim, struct sim_node *n, const struct lend_in *in, uint32_t k)
{
	const struct lend_path *path = &n->cfg.path[0];
	uint32_t first = 0, sound = 0, serving;
	struct lend_pkt_view v;

	for (uint32_t i = 0; i < k; i++) {
		if (in[i].len > path->mtu ||
		    lend_pkt_decode(&v, in[i].data, in[i].len) != LEND_PKT_OK)
			continue;
		sound++;
		if (v.head.kind != LEND_PKT_CONNECT)
			continue;
		/* Any address may connect, but no 0-RTT call may run from a forged CONNECT. */
		check_refusal(sim, n, in + first, i - first, sound - 1);
		serving = n->core->used[1];
		lend_core_input(n->core, sim->now, &n->bufs, in + i, 1);
		SIM_CHECK(sim, n->core->used[1] <= serving,
			  "node %u: a 0-RTT call of a forged CONNECT runs", n->id);
		first = i + 1;
		sound = 0;
	}
	check_refusal(sim, n, in + first, k - first, sound);
}

/* Returns the most credit that one peer holds of messages that have begun to arrive. */
static uint64_t largest_credit(struct lend_core *c)
{
	struct lend_links l = lend_links_partial(c);
	uint64_t most = 0;

	for (uint32_t i = c->partials.head; i != LEND_NONE; i = lend_link_at(l, i)->next) {
		uint32_t peer = lend_sess_at(c, lend_call_at(c, i)->sess)->peer;
		uint64_t held = 0;

		for (uint32_t j = i; j != LEND_NONE; j = lend_link_at(l, j)->next) {
			const struct lend_call_rec *k = lend_call_at(c, j);

			held += lend_sess_at(c, k->sess)->peer == peer ? k->rx.credit : 0;
		}
		most = lend_max_u64(most, held);
	}
	return most;
}

/* Returns how much credit may be in use. With several senders, what one peer holds beyond a quarter
 * of the window does not count. It may hold more than the window, which was wider before. */
static uint64_t credit_limit(struct lend_core *c)
{
	uint64_t width = lend_grants_width(&c->grants), held;

	if (c->grants.senders <= 1)
		return width;
	held = lend_max_u64(largest_credit(c), width);
	return width + held - width / 4;
}

void sim_oracle_turn(struct sim *sim, struct sim_node *n)
{
	struct lend_core *c = n->core;
	uint64_t width = credit_limit(c);
	uint64_t ahead = c->grants.ahead, alone = LEND_GRANTS_ONE_SENDER * c->grants.least;

	SIM_CHECK(sim,
		  !c->host->limit ||
		      c->host->queued <=
			  lend_max_u64(c->host->limit, n->host_queued) + n->cfg.path[0].mtu,
		  "node %u: %llu bytes in its own queue, of %llu", n->id,
		  (unsigned long long)c->host->queued, (unsigned long long)c->host->limit);
	if (lend_unhashed(c)->stats.host_waits)
		SIM_MARK(sim, host_queue_full);
	SIM_CHECK(sim, c->budget_used <= c->cfg.receive_budget, "node %u: over its budget", n->id);
	/* One message may always have some credit. A window that shrinks takes nothing back,
	 * credit granted ahead may start to be used, and a sender was alone for a part of the turn.
	 */
	SIM_CHECK(sim,
		  c->grants.used <= n->credit_used ||
		      c->grants.used <= lend_max_u64(lend_max_u64(width, alone), n->credit_window) +
					    lend_max_u64(ahead, n->credit_ahead) +
					    c->cfg.unscheduled + 65536,
		  "node %u: %llu bytes of credit used, of %llu", n->id,
		  (unsigned long long)c->grants.used, (unsigned long long)width);
	n->credit_used = c->grants.used;
	n->credit_window = width;
	n->credit_ahead = ahead;
	SIM_CHECK(sim, lend_unhashed(c)->stats.greedy == 0,
		  "node %u: a peer sent more than it was granted", n->id);
	SIM_CHECK(sim,
		  c->used[0] <= c->cfg.inflight && c->used[1] <= c->cfg.inflight &&
		      c->free_calls.free + c->used[0] + c->used[1] >= c->records,
		  "node %u: call records %u + %u + %u free", n->id, c->used[0], c->used[1],
		  c->free_calls.free);
	sim->refused |= lend_unhashed(c)->stats.refused > 0;
	sim_oracle_half(sim, n);
	SIM_CHECK(sim, c->half.n <= c->half_max, "node %u: %u half-open sessions", n->id,
		  c->half.n);
	SIM_CHECK(sim, c->timers <= c->cfg.sessions - c->free_sess.free,
		  "node %u: %u timers for %u sessions", n->id, c->timers,
		  c->cfg.sessions - c->free_sess.free);
	SIM_CHECK(sim, n->bufs_out >= c->supply_n, "node %u: a buffer of the pool is free", n->id);
}

/* Acknowledgements may be lost, or arrive after the replies, but not all of so long a series. */
void sim_oracle_adapts(struct sim *sim, struct sim_node *n, uint64_t session, uint32_t len)
{
	const struct lend_sess *s = lend_sess_find(n->core, session);
	bool by_rounds = n->cfg.congestion == LEND_CC_DCTCP || n->cfg.congestion == LEND_CC_CREDIT;
	struct sim_link *l;

	if (!s || s->lossless || !by_rounds || len <= 2 * s->payload)
		return;
	l = &n->link[LEND_PEER_INDEX(s->peer)];
	l->lengthy_n = l->lengthy == session ? l->lengthy_n + 1 : 1;
	l->lengthy = session;
	SIM_CHECK(sim, l->lengthy_n < 64 || s->cc.round > 0,
		  "node %u: %u long requests arrived, and the window learned nothing from them",
		  n->id, l->lengthy_n);
}
