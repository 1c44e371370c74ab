#include "core/table_share.h"

#include "core/control.h"
#include "core/kept_reply.h"
#include "core/loss.h"
#include "core/call_record.h"
#include "core/rx.h"
#include "core/server_call.h"
#include "core/sess.h"

void lend_fair_init(struct lend_core *c)
{
	c->share_threshold = c->cfg.inflight - c->cfg.inflight / 16;
}

bool lend_fair_over(struct lend_core *c, enum lend_fair_kind kind, uint32_t peer)
{
	lend_fair_scan(c, kind);
	return lend_fair_is_over(c, kind, peer);
}

/* Returns whether the scanned sessions are all of this peer. Then no entry needs to be reserved. */
static bool is_alone(struct lend_core *c, uint32_t peer)
{
	uint32_t top = lend_pool_top(&c->free_sess), step = top / LEND_FAIR_SCAN_MAX + 1;

	for (uint32_t i = 0; i < top; i += step) {
		const struct lend_sess *s = lend_sess_at(c, i);

		if (s->state != LEND_SESS_FREE && s->peer != peer)
			return false;
	}
	return true;
}

/* Returns whether two timeouts have passed, in which the peer could have sent two PROBEs. */
static bool is_old(struct lend_core *c, const struct lend_call_rec *k, lend_ns since)
{
	return c->now > since + 2 * lend_loss_rto(lend_sess_at(c, k->sess), 0);
}

/* Returns whether the record may be released. A reply of one datagram may be released when it was
 * sent, because most often it has arrived; a partial request or a long reply only when it has made
 * no progress for two timeouts. */
static bool is_idle(struct lend_core *c, const struct lend_call_rec *k, bool over)
{
	bool sent = k->tx.win == LEND_NONE && k->tx.next && !k->tx.resend && !k->tx.ready.in;

	if (k->state == LEND_CALL_REPLYING && sent)
		return over || is_old(c, k, k->stamp);
	if (k->state == LEND_CALL_REPLYING)
		return over && is_old(c, k, k->timer == LEND_NEVER ? k->stamp : k->timer);
	return k->state == LEND_CALL_PARTIAL && over &&
	       (k->rx.frags == LEND_NONE || is_old(c, k, k->rx.last));
}

/* Ends a call without a message from its caller. The slot keeps the answer to the caller's next
 * PROBE. */
static void release_record(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);
	uint32_t slot = lend_pkt_slot(k->wire), wire = k->wire;
	struct lend_sslot *sl = lend_sslot_at(c, lend_sess_index(c, s), slot);
	bool ran = k->state != LEND_CALL_PARTIAL && k->ran != RAN_NO;

	if (k->state == LEND_CALL_PARTIAL)
		LEND_COUNT(c, cut);
	else
		LEND_COUNT(c, released);
	lend_serve_abort(c, k);
	if (ran)
		sl->rec = LEND_SLOT_RELEASED;
	else
		lend_fair_refuse(c, s, sl, wire);
}

/* Releases some records of peers over their share. The records of the requesting peer itself are
 * treated as those of a peer within its share. */
static void release_some(struct lend_core *c, uint32_t peer)
{
	struct lend_fair *f = &c->fair[LEND_FAIR_RECORDS];
	uint32_t top = lend_pool_top(&c->free_calls),
		 most = c->cfg.inflight / LEND_FAIR_FRACTION + 1;

	for (uint32_t n = lend_min_u32(top, LEND_FAIR_SCAN_MAX); n > 0 && f->freed < most; n--) {
		struct lend_call_rec *k = lend_call_at(c, c->fair_hand++ % top);
		const struct lend_sess *s = k->server ? lend_fair_owner(c, k) : NULL;

		if (!s)
			continue;
		if (!is_idle(c, k,
			     s->peer != peer && lend_fair_is_over(c, LEND_FAIR_RECORDS, s->peer)))
			continue;
		release_record(c, k);
		f->freed++;
	}
}

bool lend_fair_record(struct lend_core *c, const struct lend_sess *s)
{
	struct lend_fair *f = &c->fair[LEND_FAIR_RECORDS];
	bool full = c->used[1] >= c->cfg.inflight, over;

	/* Scan again when the records that the last scan released are in use, or when that scan
	 * came before the table was full. */
	if (full && (f->freed || (!f->tried && !lend_fair_is_over(c, LEND_FAIR_RECORDS, s->peer))))
		f->due = 0;
	if (lend_fair_scan(c, LEND_FAIR_RECORDS))
		f->alone = is_alone(c, s->peer);
	over = !f->alone && lend_fair_is_over(c, LEND_FAIR_RECORDS, s->peer);
	if ((full || over) && f->due == lend_fair_scan_after(c, LEND_FAIR_RECORDS)) {
		f->tried = !over;
		release_some(c, s->peer);
	}
	return c->used[1] < (over ? c->share_threshold : c->cfg.inflight);
}

static void queue_answer(struct lend_core *c, struct lend_sess *s, uint32_t wire, uint8_t ran)
{
	const struct lend_ctl e = {.sess = lend_sess_index(c, s),
				   .peer = s->peer,
				   .id = s->id,
				   .call = wire,
				   .kind = LEND_PKT_REPLY,
				   .probed = ran};

	lend_ctl_push(c, &e);
}

void lend_core_withdraw(struct lend_core *c, lend_ns now, uint64_t call)
{
	struct lend_call_rec *k = lend_call_of(c, call);
	uint32_t wire;

	if (!k || !k->server || k->state != LEND_CALL_REPLYING || k->refused)
		return;
	c->now = lend_max_u64(c->now, now);
	wire = k->wire;
	k->ran = RAN_MAYBE;
	release_record(c, k);
	queue_answer(c, lend_sess_at(c, k->sess), wire, RAN_MAYBE);
}

void lend_fair_refuse(struct lend_core *c, struct lend_sess *s, struct lend_sslot *sl,
		      uint32_t wire)
{
	LEND_COUNT(c, no_record);
	sl->rec = LEND_SLOT_REFUSED;
	queue_answer(c, s, wire, RAN_NO);
}

bool lend_fair_resend(struct lend_core *c, struct lend_sess *s, uint32_t wire)
{
	uint32_t slot = lend_pkt_slot(wire);
	const struct lend_sslot *sl;

	if (slot >= s->sslots)
		return false;
	sl = lend_sslot_at(c, lend_sess_index(c, s), slot);
	if (sl->seq != lend_pkt_seq(wire) || sl->rec == LEND_NONE || !lend_slot_is_empty(sl->rec))
		return false;
	if (sl->rec == LEND_SLOT_KEPT)
		lend_kept_again(c, s, wire);
	else
		queue_answer(c, s, wire, sl->rec == LEND_SLOT_REFUSED ? RAN_NO : RAN_MAYBE);
	return true;
}

bool lend_fair_waits(struct lend_core *c, const struct lend_call_rec *k)
{
	return c->free_frags.free <= lend_fair_frags_reserved(c) && c->free_frags.cap >= 8 &&
	       lend_fair_over(c, LEND_FAIR_FRAGS, lend_sess_at(c, k->sess)->peer);
}

uint64_t lend_fair_reserved(struct lend_core *c, const struct lend_call_rec *k, uint64_t more)
{
	const struct lend_fair *f = &c->fair[LEND_FAIR_BUDGET];
	uint64_t kept = lend_fair_budget_reserved(c), part, peers;

	if (c->budget_used + more + kept <= c->cfg.receive_budget)
		return 0;
	lend_fair_scan(c, LEND_FAIR_BUDGET);
	part = lend_fair_entries(f, lend_sess_at(c, k->sess)->peer);
	peers = f->peers + (part == 0);
	/* A single message may ask for more than a share. */
	return (part + more) * (peers + 1) > c->cfg.receive_budget ? kept : 0;
}

uint32_t lend_fair_top_creditor(struct lend_core *c, uint64_t *bytes)
{
	lend_fair_scan(c, LEND_FAIR_CREDIT);
	return lend_fair_most(&c->fair[LEND_FAIR_CREDIT], bytes);
}

/* Returns whether a call of a peer above its share made no progress for two timeouts. */
static bool is_stalled(struct lend_core *c, const struct lend_call_rec *k)
{
	return k->server && is_idle(c, k, true) &&
	       (k->state != LEND_CALL_REPLYING || is_old(c, k, k->stamp));
}

/* Returns whether a session was accepted here and has no call that makes progress. */
static bool is_unused(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k, show;
	uint32_t at = 0;

	if (s->state != LEND_SESS_UP || s->client || s->orphans)
		return false;
	while ((k = lend_sess_next_call(c, s, &at, &show)))
		if (!is_stalled(c, k))
			return false;
	return true;
}

/* Returns the peer with most sessions if it has more than this one would have, else LEND_NONE. */
static uint32_t find_giver(struct lend_core *c, uint32_t peer)
{
	const struct lend_fair *f = &c->fair[LEND_FAIR_SESSIONS];
	uint32_t from;
	uint64_t n;

	lend_fair_scan(c, LEND_FAIR_SESSIONS);
	from = lend_fair_most(f, &n);
	return from == peer || n <= lend_fair_entries(f, peer) + 1 ? LEND_NONE : from;
}

bool lend_fair_has_donor(struct lend_core *c, uint32_t peer)
{
	return find_giver(c, peer) != LEND_NONE;
}

/* Closes an unused session of the peer with most sessions, unless the given peer would then have as
 * many. */
static void evict_session(struct lend_core *c, uint32_t peer)
{
	uint32_t top = lend_pool_top(&c->free_sess), from = find_giver(c, peer);

	if (from == LEND_NONE)
		return;
	for (uint32_t tries = lend_min_u32(top, LEND_FAIR_SCAN_MAX); tries > 0; tries--) {
		struct lend_sess *s = lend_sess_at(c, c->fair_sess_hand++ % top);
		struct lend_ctl e = {.sess = LEND_NONE, .peer = from, .kind = LEND_PKT_RESET};

		if (s->peer != from || !is_unused(c, s))
			continue;
		LEND_COUNT(c, idle_evicted);
		e.id = s->id;
		lend_sess_down(c, s, UNAVAILABLE, false);
		lend_ctl_push(c, &e);
		return;
	}
}

bool lend_fair_session(struct lend_core *c, uint32_t peer)
{
	const struct lend_fair *f = &c->fair[LEND_FAIR_SESSIONS];

	if (c->free_sess.free == 0) {
		evict_session(c, peer);
		return c->free_sess.free > 0;
	}
	if (!lend_fair_few_sessions(c))
		return true;
	lend_fair_scan(c, LEND_FAIR_SESSIONS);
	if (lend_fair_entries(f, peer) > (uint64_t)c->free_sess.free * LEND_FAIR_SESSIONS_TIMES)
		return false;
	lend_fair_note_session(c, peer);
	return true;
}

bool lend_core_over_share(struct lend_core *c, uint64_t call, uint64_t all)
{
	const struct lend_call_rec *k = lend_call_of(c, call);

	c->memory = all;
	return k && k->server &&
	       lend_fair_over(c, LEND_FAIR_MEMORY, lend_sess_at(c, k->sess)->peer);
}

bool lend_core_reclaim(struct lend_core *c, uint64_t call, struct lend_bufs *bufs)
{
	struct lend_call_rec *k = lend_call_of(c, call);
	uint32_t peer, i, next, ended = 0;

	if (!k || !k->rx.needed || !k->server)
		return false;
	peer = lend_sess_at(c, k->sess)->peer;
	lend_fair_scan(c, LEND_FAIR_MEMORY);
	for (i = c->partials.head; i != LEND_NONE; i = next) {
		struct lend_call_rec *other = lend_call_at(c, i);
		uint32_t from = lend_sess_at(c, other->sess)->peer;

		next = lend_link_at(lend_links_partial(c), i)->next;
		if (from == peer || !other->server || !other->rx.attached ||
		    !is_idle(c, other, lend_fair_is_over(c, LEND_FAIR_MEMORY, from)))
			continue;
		release_record(c, other);
		ended++;
	}
	if (ended)
		lend_rx_need(c, k, bufs);
	return ended > 0;
}
