/* core - entry points of the core: memory, paths, ticks, events, sessions, buffers. See core.h and
 * PROTOCOL.md. */
#include "core/core.h"

#include "core/client_call.h"
#include "core/grant.h"
#include "core/host_queue.h"
#include "core/control.h"
#include "core/zero_rtt.h"
#include "core/event.h"
#include "core/table_share.h"
#include "core/handshake.h"
#include "core/kept_reply.h"
#include "core/loss.h"
#include "core/sess_lookup.h"
#include "core/pace.h"
#include "core/peer_window.h"
#include "core/rx.h"
#include "core/sched.h"
#include "core/server_call.h"
#include "core/sess.h"
#include "core/memory_queue.h"
#include "core/request_window.h"
#include "core/short_burst.h"
#include "util/siphash.h"

enum { LINE = 64, SUPPLY_MAX = 32, HALF_MAX = 1024 };

static bool config_valid(const struct lend_core_config *f)
{
	return f->sessions >= 1 && f->sessions <= 1u << 20 && f->calls >= 1 &&
	       f->calls <= LEND_CALLS_MAX && f->inflight >= 1 && f->inflight <= 1u << 20 &&
	       f->reassemblies >= 1 && f->reassemblies <= 1u << 20 &&
	       f->wide_rings <= f->sessions && f->message_max >= 1 &&
	       f->message_max <= LEND_MESSAGE_MAX && f->unscheduled >= 4096 &&
	       f->unscheduled <= 1u << 20 && f->probe > 0 && f->dead >= f->probe &&
	       f->congestion < LEND_CC_KINDS && f->order <= LEND_ORDER_FAIR &&
	       f->fast <= LEND_FAST_COIN &&
	       (f->ticket_ns == 0 || (lend_is_pow2(f->attempts) && f->attempts <= 1u << 20));
}

static void reserve_table(struct lend_core *c, size_t *at, size_t n, size_t each)
{
	*at = c->size;
	c->size += lend_align_up(n * each, LINE);
}

/* Returns the number of rings: one for each session that can have more than LEND_FEW call records.
 * A reply sent without a ring entry cannot be acknowledged by number and is retransmitted
 * repeatedly. */
static uint32_t rings_for(const struct lend_core_config *f)
{
	return lend_min_u32(f->sessions, lend_max_u32(LEND_RINGS, f->inflight / LEND_FEW));
}

/* Returns the number of waiting events from which on new work is refused. The event ring has twice
 * the room that all records and sessions need between two fetches; half of it is kept for the end
 * of everything, and a part for the frames of one datagram (see event.h). */
static uint32_t event_room(const struct lend_core *c)
{
	return 4u * c->records + 2u * c->cfg.sessions;
}

static uint32_t event_cap(const struct lend_core *c)
{
	return 2 * event_room(c) + 256u;
}
_Static_assert(3 * LEND_PKT_FRAMES_MAX < 256, "a frame raises three events at most");

/* Returns the most bytes of a coalesced datagram: enough for the first carrier. */
static uint32_t coalesced_bytes(const struct lend_core_config *f)
{
	uint32_t mtu = f->path[0].mtu;

	if (mtu == 0) /* not known yet */
		return LEND_COALESCED_MAX;
	return lend_min_u32(lend_max_u32((uint32_t)lend_align_up(mtu, LINE), LEND_COALESCED_MIN),
			    LEND_COALESCED_MAX);
}

/* Lays out the arena; fills every offset and size of c. */
static void lay_out(struct lend_core *c, const struct lend_core_config *f)
{
	bool credit = f->congestion == LEND_CC_CREDIT;
	uint32_t rings = rings_for(f);
	size_t slots = lend_align_up(f->calls, LEND_SLOT_RUN) * ((size_t)f->sessions + 1);

	memset(c, 0, sizeof(*c));
	c->cfg = *f;
	c->records = 2 * f->inflight;
	c->buckets = lend_pow2_above(f->sessions);
	c->supply_cap = lend_min_u32(f->reassemblies, SUPPLY_MAX);
	c->half_max = lend_min_u32(lend_max_u32(f->sessions / 2, 1), HALF_MAX);
	c->size = lend_align_up(sizeof(*c), LINE);
	reserve_table(c, &c->at_calls, c->records, sizeof(struct lend_call_rec));
	reserve_table(c, &c->at_sess, f->sessions, sizeof(struct lend_sess));
	reserve_table(c, &c->at_frags, 2 * f->reassemblies, sizeof(struct lend_frags));
	reserve_table(c, &c->at_wins, c->records, sizeof(struct lend_win));
	reserve_table(c, &c->at_hs, f->sessions, sizeof(struct lend_hs));
	reserve_table(c, &c->at_few, f->sessions, sizeof(struct lend_few));
	reserve_table(c, &c->at_slots, f->sessions, (lend_slots_words(c) - 1) * sizeof(uint64_t));
	reserve_table(c, &c->at_rings, rings, sizeof(struct lend_ring));
	reserve_table(c, &c->at_wide, f->wide_rings, sizeof(struct lend_wide_ring));
	reserve_table(c, &c->at_cslot, slots, sizeof(struct lend_cslot));
	reserve_table(c, &c->at_sslot, slots, sizeof(struct lend_sslot));
	reserve_table(c, &c->at_kept, slots, LEND_KEPT_MAX);
	reserve_table(c, &c->at_supply, c->supply_cap, sizeof(uint32_t));
	reserve_table(c, &c->at_ctl, LEND_CTL, sizeof(struct lend_ctl));
	reserve_table(c, &c->at_timers, 1, lend_timer_size(f->sessions));
	reserve_table(c, &c->at_free_sess, f->sessions, sizeof(uint32_t));
	reserve_table(c, &c->at_free_calls, c->records, sizeof(uint32_t));
	reserve_table(c, &c->at_free_frags, 2 * f->reassemblies, sizeof(uint32_t));
	reserve_table(c, &c->at_free_wins, c->records, sizeof(uint32_t));
	reserve_table(c, &c->at_free_rings, rings, sizeof(uint32_t));
	reserve_table(c, &c->at_free_wide, f->wide_rings, sizeof(uint32_t));
	reserve_table(c, &c->at_free_hs, f->sessions, sizeof(uint32_t));
	reserve_table(c, &c->at_peers, f->sessions, sizeof(struct lend_peer));
	reserve_table(c, &c->at_free_peers, f->sessions, sizeof(uint32_t));
	reserve_table(c, &c->at_peer_hash, c->buckets, sizeof(uint32_t));
	reserve_table(c, &c->at_by_attempt, c->buckets, sizeof(uint32_t));
	reserve_table(c, &c->at_by_peer, c->buckets, sizeof(uint32_t));
	reserve_table(c, &c->at_pace, 1, lend_pace_size(f->congestion));
	reserve_table(c, &c->at_grant_heap, credit ? c->records : 0,
		      sizeof(struct lend_prioq_entry));
	reserve_table(c, &c->at_grant_heap_at, credit ? c->records : 0, sizeof(uint32_t));
	reserve_table(c, &c->at_zero_rtt, 1, lend_zero_rtt_size(f));
	c->hashed = c->size;
	reserve_table(c, &c->at_unhashed, 1,
		      sizeof(struct lend_unhashed) + event_cap(c) * sizeof(struct lend_event));
	c->coalesced_cap = lend_min_u32(LEND_OUT, f->calls * f->sessions);
	c->coalesced_stride = (uint32_t)offsetof(struct lend_coalesced, bytes) + coalesced_bytes(f);
	reserve_table(c, &c->at_coalesced, c->coalesced_cap, c->coalesced_stride);
}

size_t lend_core_size(const struct lend_core_config *config)
{
	struct lend_core c;

	if (!config_valid(config))
		return 0;
	lay_out(&c, config);
	return c.size;
}

struct lend_core *lend_core_init(void *mem, const struct lend_core_config *config, lend_ns now)
{
	struct lend_core *c = mem;

	LEND_CHECK(config_valid(config) && (uintptr_t)mem % LINE == 0);
	lay_out(c, config);
	lend_unhashed(c)->ev_cap = event_cap(c);
	lend_unhashed(c)->ev_room = event_room(c);
	/* The large tables are not touched: records are initialised when they are taken. */
	lend_pool_init(&c->free_sess, config->sessions);
	lend_pool_init(&c->free_calls, c->records);
	lend_pool_init(&c->free_frags, 2 * config->reassemblies);
	lend_pool_init(&c->free_wins, c->records);
	lend_pool_init(&c->free_rings, rings_for(config));
	lend_pool_init(&c->free_wide, config->wide_rings);
	lend_pool_init(&c->free_hs, config->sessions);
	lend_timer_init(c, now);
	lend_lookup_init(c);
	lend_peers_init(c);
	lend_sched_init(c);
	lend_memq_init(c);
	lend_fair_init(c);
	lend_list_init(&c->partials);
	lend_list_init(&c->half);
	lend_pace_init(c, now);
	lend_grants_init(c);
	lend_zero_rtt_init(c);
	lend_kept_init(c);
	for (uint32_t i = 0; i < LEND_CARRIERS_MAX; i++)
		lend_core_path(c, i, &config->path[i]);
	c->now = now;
	/* Endpoints of one process share its incarnation: the numbers of their attempts must
	 * differ. */
	c->connects = lend_core_random(c);
	c->connects_first = c->connects;
	return c;
}

uint64_t lend_core_hash(const struct lend_core *c)
{
	static const uint8_t key[16] = {1};

	lend_burst_end((struct lend_core *)(uintptr_t)c);
	return lend_siphash64(key, c, c->hashed);
}

uint32_t lend_core_calls_top(const struct lend_core *c)
{
	return lend_pool_top(&c->free_calls);
}

uint32_t lend_core_requests(const struct lend_core *c)
{
	lend_burst_end((struct lend_core *)(uintptr_t)c);
	return c->used[1];
}

const struct lend_core_stats *lend_core_stats(const struct lend_core *c)
{
	return &lend_unhashed((struct lend_core *)(uintptr_t)c)->stats;
}

void lend_core_path(struct lend_core *c, uint32_t carrier, const struct lend_path *path)
{
	LEND_CHECK(carrier < LEND_CARRIERS_MAX);
	lend_burst_end(c);
	c->cfg.path[carrier] = *path;
	c->joins |= path->joins;
	if (path->counts && !c->host[carrier].limit)
		c->host[carrier].limit = LEND_HOST_START;
	lend_window_divide(c);
}

void lend_core_tick(struct lend_core *c, lend_ns now)
{
	struct lend_sess *s;

	lend_burst_end(c);
	c->now = lend_max_u64(c->now, now);
	c->exchanges = 0;
	c->fed = 0;
	if (lend_memq_waiting(c))
		lend_memq_serve(c);
	if (c->paced_n)
		lend_pace_fire(c);
	if (c->grants.waiting)
		lend_grants_tick(c);
	if (lend_timer_next(c) > c->now)
		return;
	while ((s = lend_timer_due(c)))
		lend_sess_tick(c, s);
}

/* Takes up to `most` of the oldest events. */
LEND_HOT uint32_t take_events(struct lend_core *c, uint32_t most, const struct lend_event **ev)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t n;

	if (a->ev_n == 0)
		return 0;
	n = lend_min_u32(lend_min_u32(a->ev_n, most), a->ev_cap - a->ev_first);
	*ev = &a->ev[a->ev_first];
	a->ev_n -= n;
	a->ev_first += n;
	if (a->ev_first == a->ev_cap)
		a->ev_first = 0;
	return n;
}

const uint32_t *lend_core_waiting(const struct lend_core *c)
{
	return &lend_unhashed((struct lend_core *)(uintptr_t)c)->ev_n;
}

uint32_t lend_core_events(struct lend_core *c, const struct lend_event **ev)
{
	return take_events(c, LEND_EVENTS_AT_ONCE, ev);
}

const struct lend_event *lend_core_next(struct lend_core *c)
{
	const struct lend_event *ev;

	return take_events(c, 1, &ev) ? ev : NULL;
}

uint32_t lend_core_sessions_free(const struct lend_core *c)
{
	return c->free_sess.free;
}

int lend_core_connect(struct lend_core *c, lend_ns now, uint32_t peer, uint64_t tag,
		      const struct lend_core_identity *self, uint64_t *session)
{
	struct lend_hs *h;
	struct lend_sess *s;

	if (LEND_PEER_CARRIER(peer) >= LEND_CARRIERS_MAX ||
	    c->cfg.path[LEND_PEER_CARRIER(peer)].mtu < LEND_PKT_MTU_MIN)
		return E_HOSTUNREACH;
	lend_burst_end(c);
	c->now = lend_max_u64(c->now, now);
	s = lend_event_room(c) ? lend_sess_open(c, peer, LEND_SESS_CONNECTING) : NULL;
	if (!s)
		return E_NOSPC;
	s->client = 1;
	s->tag = tag;
	s->connect = ++c->connects;
	h = lend_hs_of(c, s);
	memcpy(h->incarnation, self ? self->incarnation : c->cfg.incarnation,
	       sizeof(h->incarnation));
	h->key_id = self ? self->key_id : 0;
	h->pattern = h->key_id ? LEND_PATTERN_PROOF : LEND_PATTERN_OPEN;
	if (self && self->pattern)
		lend_hs_propose(c, s, self);
	s->ctl_timer = c->now + lend_loss_rto(s, 0);
	lend_sess_arm(c, s, s->ctl_timer);
	lend_ctl_sess(c, s, LEND_PKT_CONNECT, 0, 0);
	*session = s->id;
	return 0;
}

void lend_core_disconnect(struct lend_core *c, uint64_t session)
{
	struct lend_sess *s = lend_sess_find(c, session);

	lend_burst_end(c);
	if (s && (s->state == LEND_SESS_UP || s->state == LEND_SESS_CONNECTING))
		lend_sess_down(c, s, CANCELLED, true);
}

void lend_core_cancel(struct lend_core *c, uint64_t call, uint8_t status)
{
	struct lend_call_rec *k;

	lend_burst_end(c);
	k = lend_call_find(c, call, true);
	if (k && !k->server)
		lend_call_stop(c, k, status);
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

uint64_t lend_core_session_message_max(const struct lend_core *core, uint64_t session)
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	return s ? s->message_max : 0;
}

bool lend_core_session_reads_heads(const struct lend_core *core, uint64_t session)
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	return s && s->state == LEND_SESS_UP && s->features & LEND_FEATURE_REQUEST_HEADS;
}

uint32_t lend_core_session_calls(const struct lend_core *core, uint64_t session)
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	return s ? s->limit : 0;
}

int lend_core_session_names(const struct lend_core *core, uint64_t session,
			    struct lend_core_names *names)
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	if (!s || s->state < LEND_SESS_UP)
		return E_STALE;
	*names = (struct lend_core_names){.connect = s->connect,
					  .client = s->client ? s->id : s->peer_id,
					  .server = s->client ? s->peer_id : s->id,
					  .key_id = s->key_id};
	memcpy(names->binding, s->binding, sizeof(names->binding));
	return 0;
}

uint64_t lend_core_session_acked(const struct lend_core *core, uint64_t session)
{
	struct lend_sess *s = lend_sess_find((struct lend_core *)(uintptr_t)core, session);

	return s ? s->acked : 0;
}

uint32_t lend_core_supply_wanted(const struct lend_core *c)
{
	return c->supply_cap - c->supply_n;
}

void lend_core_supply(struct lend_core *c, uint32_t buf)
{
	LEND_CHECK(buf != 0 && c->supply_n < c->supply_cap);
	LEND_AT(c, at_supply, uint32_t)[c->supply_n++] = buf;
	c->fed = 1;
}

int lend_core_attach(struct lend_core *c, uint64_t call, struct lend_bufs *bufs, uint32_t buf)
{
	struct lend_call_rec *k = lend_call_of(c, call);

	if (!k || !k->rx.needed)
		return E_STALE;
	lend_burst_end(c);
	if (buf && lend_chain_cap(bufs, buf) < k->rx.len)
		return E_INVAL;
	if (buf) {
		lend_rx_attach(c, bufs, k, buf);
		lend_ctl_ack(c, k);
	} else if (k->server) {
		lend_serve_refuse(c, k);
	} else {
		lend_call_stop(c, k, RESOURCE_EXHAUSTED);
	}
	return 0;
}

bool lend_core_defer(struct lend_core *c, uint64_t call)
{
	struct lend_call_rec *k = lend_call_of(c, call);

	if (!k || !k->rx.needed || !k->server || !lend_rx_defer(c, k))
		return false;
	lend_ctl_ack(c, k);
	return true;
}

void lend_core_reply_hops(struct lend_core *c, uint64_t call, uint8_t more)
{
	struct lend_call_rec *k = lend_call_of(c, call);

	if (k && k->server)
		k->more_hops = (uint8_t)lend_min_u32(more, LEND_HOPS_MAX);
}

bool lend_core_request_cancelled(const struct lend_core *c, uint64_t call)
{
	const struct lend_call_rec *k = lend_call_of((struct lend_core *)(uintptr_t)c, call);

	return !k || k->cancelled;
}
