#include "core/sess.h"

#include "core/client_call.h"
#include "core/grant.h"
#include "core/control.h"
#include "core/zero_rtt.h"
#include "core/event.h"
#include "core/flight.h"
#include "core/handshake.h"
#include "core/kept_reply.h"
#include "core/loss.h"
#include "core/sess_lookup.h"
#include "core/pace.h"
#include "core/peer_window.h"
#include "core/reorder.h"
#include "core/sent_ring.h"
#include "core/server_call.h"
#include "core/request_window.h"
#include "util/siphash.h"

uint64_t lend_core_random(struct lend_core *c)
{
	c->drawn++;
	return lend_siphash64(c->cfg.seed, &c->drawn, sizeof(c->drawn));
}

void lend_sess_more_cslots(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	uint32_t i = lend_sess_index(c, s);

	for (; s->cslots <= slot; s->cslots++) {
		struct lend_cslot *cs = lend_cslot_at(c, i, s->cslots);

		/* A handle of a session before this one stays stale. */
		*cs = (struct lend_cslot){
		    .rec = LEND_NONE, .handle = lend_slot_handle(cs->handle >> 32, i, s->cslots)};
	}
}

void lend_sess_more_sslots(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	uint32_t i = lend_sess_index(c, s);

	for (; s->sslots <= slot; s->sslots++)
		*lend_sslot_at(c, i, s->sslots) = (struct lend_sslot){.rec = LEND_NONE};
}

static void free_slots(struct lend_core *c, struct lend_sess *s)
{
	uint32_t w = 0, calls = c->cfg.calls;

	for (; w < calls / 64; w++)
		*lend_slots_at(c, s, w) = UINT64_MAX;
	if (calls % 64)
		*lend_slots_at(c, s, w) = (UINT64_C(1) << calls % 64) - 1;
}

enum { LONG = 4096 }; /* bytes: a shorter payload is never cut fine */

/* Returns the payload of a datagram on this path, at most the unscheduled bytes: a multiple of 16,
 * so that pieces keep their alignment, and a long one a multiple of 128: see lend_frag_unit(). */
static uint32_t payload_of(const struct lend_core *c, const struct lend_path *p)
{
	uint32_t most = lend_min_u32((uint32_t)(p->mtu - LEND_PKT_OVERHEAD), c->cfg.unscheduled);

	return most & ~(most < LONG ? 15u : LEND_FINE * 16u - 1);
}

uint32_t lend_sess_payload_max(const struct lend_core *c)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < LEND_CARRIERS_MAX; i++)
		if (c->cfg.path[i].mtu >= LEND_PKT_MTU_MIN)
			most = lend_max_u32(most, payload_of(c, &c->cfg.path[i]));
	return most;
}

struct lend_sess *lend_sess_open(struct lend_core *c, uint32_t peer, uint8_t state)
{
	uint32_t i = lend_pool_take(&c->free_sess, LEND_AT(c, at_free_sess, uint32_t));
	const struct lend_path *path = &c->cfg.path[LEND_PEER_CARRIER(peer)];
	struct lend_sess *s;

	if (i == LEND_NONE)
		return NULL;
	s = lend_sess_at(c, i);
	memset(s, 0, sizeof(*s));
	s->id = (lend_core_random(c) & ~LEND_INDEX_MASK) | i;
	s->peer = peer;
	s->state = state;
	s->lossless = path->lossless;
	lend_loss_set_pto(s);
	s->payload = payload_of(c, path);
	s->first_sent = lend_grants_first(c, s);
	c->grants.least = lend_max_u64(c->grants.least, UINT64_C(8) * s->payload);
	s->number = 1;
	s->oldest = 1;
	s->message_max = LEND_MESSAGE_MAX;
	s->unscheduled = c->cfg.unscheduled;
	lend_peer_join(c, s);
	s->timer = LEND_NEVER;
	s->ack_timer = LEND_NEVER;
	s->ctl_timer = LEND_NEVER;
	s->last_rx = c->now;
	s->last_ping = c->now;
	s->by_attempt = LEND_NONE;
	s->by_peer = LEND_NONE;
	lend_list_init(&s->waiting);
	lend_cc_open(&s->cc, c->cfg.congestion, c->cfg.credits);
	s->ring = LEND_NONE;
	s->limit = (uint16_t)c->cfg.calls;
	lend_hs_open(c, s);
	lend_window_open(s);
	free_slots(c, s);
	lend_event_push(c, LEND_EV_PEER_KEEP)->peer = peer;
	return s;
}

/* No frame of the session is sent any more, or received without its state being looked at. */
static void close_frames(struct lend_core *c, struct lend_sess *s)
{
	s->frame_limit = 0;
	s->predicted = 0;
	lend_coalesce_cut(c, s);
}

void lend_sess_free(struct lend_core *c, struct lend_sess *s)
{
	uint32_t i = lend_sess_index(c, s);
	struct lend_event *e;

	lend_flight_keep(c, s);
	lend_reorder_keep(c, s);
	lend_peer_leave(c, s);
	lend_list_remove(&c->half, lend_links_half(c), i);
	lend_pace_remove(c, s);
	lend_ring_close(c, s);
	lend_hs_close(c, s);
	lend_lookup_leave(c, s);
	lend_sess_disarm(c, s);
	if (s->lingers)
		lend_kept_close(c, s);
	e = lend_event_push(c, LEND_EV_PEER_DROP);
	e->peer = s->peer;
	e->session = s->id;
	s->state = LEND_SESS_FREE;
	close_frames(c, s);
	s->id = 0;
	lend_pool_give(&c->free_sess, LEND_AT(c, at_free_sess, uint32_t), i);
}

bool lend_sess_is_stale(struct lend_core *c, uint64_t id)
{
	uint32_t i = (uint32_t)(id & LEND_INDEX_MASK);

	return i < c->cfg.sessions && lend_sess_at(c, i)->state != LEND_SESS_FREE &&
	       lend_sess_at(c, i)->id != id;
}

void lend_sess_up(struct lend_core *c, struct lend_sess *s)
{
	struct lend_event *e = lend_event_push(c, LEND_EV_SESSION_UP);

	s->state = LEND_SESS_UP;
	lend_coalesce_limit(c, s);
	lend_seen_predict(c, s);
	s->ctl_tries = 0; /* from now on it counts retransmissions of calls */
	e->session = s->id;
	e->peer = s->peer;
	e->tag = s->tag;
	if (!s->lossless)
		lend_sess_arm(c, s, c->now + c->cfg.probe);
}

void lend_sess_note_reads(struct lend_core *c, struct lend_sess *s, const struct lend_in *in)
{
	s->reads = in->reads ? c->cfg.path[LEND_PEER_CARRIER(s->peer)].shares : 0;
}

void lend_sess_prove(struct lend_core *c, struct lend_sess *s)
{
	lend_list_remove(&c->half, lend_links_half(c), lend_sess_index(c, s));
	lend_hs_close(c, s);
	lend_sess_up(c, s);
}

static void end_calls(struct lend_core *c, struct lend_sess *s, uint8_t status)
{
	struct lend_call_rec *k;
	uint32_t at = 0;

	s->unplaced = 0; /* none of them takes a slot that becomes free */
	while ((k = lend_sess_next_call(c, s, &at, NULL))) {
		if (k->server)
			lend_serve_abort(c, k);
		else
			lend_call_abort(c, k, status);
	}
}

void lend_sess_down(struct lend_core *c, struct lend_sess *s, uint8_t status, bool said)
{
	bool known = s->state == LEND_SESS_UP || s->state == LEND_SESS_CONNECTING;
	bool bye = said && s->state == LEND_SESS_UP;
	struct lend_event *e;

	end_calls(c, s, status);
	if (status == UNAVAILABLE)
		lend_zero_rtt_forget(c, s);
	if (known) {
		e = lend_event_push(c, LEND_EV_SESSION_DOWN);
		e->session = s->id;
		e->status = status;
		e->peer = s->peer;
		e->tag = s->tag;
	}
	if (!bye) {
		lend_sess_free(c, s);
		return;
	}
	s->state = LEND_SESS_CLOSING;
	close_frames(c, s);
	s->ctl_tries = 0;
	s->ctl_timer = c->now + lend_loss_rto(s, 0);
	lend_ctl_sess(c, s, LEND_PKT_BYE, 0, 0);
	lend_sess_arm(c, s, s->ctl_timer);
}

void lend_sess_on_reset(struct lend_core *c, uint32_t peer, uint64_t peer_id)
{
	struct lend_sess *s = lend_lookup_by_peer(c, peer, peer_id);

	if (!s) {
		LEND_COUNT(c, rx_session);
		return;
	}
	if (s->sealed) {
		lend_sess_doubt(c, s);
		return;
	}
	LEND_COUNT(c, rx_reset);
	lend_sess_down(c, s, UNAVAILABLE, false);
}

void lend_sess_peer_gone(struct lend_core *c, uint32_t peer)
{
	for (uint32_t i = 0; i < c->cfg.sessions; i++)
		if (lend_sess_at(c, i)->state != LEND_SESS_FREE && lend_sess_at(c, i)->peer == peer)
			lend_sess_down(c, lend_sess_at(c, i), UNAVAILABLE, false);
}
