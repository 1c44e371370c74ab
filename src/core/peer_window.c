#include "core/peer_window.h"

#include "core/sched.h"
#include "core/timer.h"

enum {
	ALL = 65536,
	GAIN = 4,         /* of marks: a round has few datagrams */
	LEAST = 256,      /* bytes, after losses */
	FULL = 1500,      /* bytes of a usual datagram */
	RANDOM = 32,      /* datagrams among which one loss is random */
	TRIPS = 4,        /* round trips for which a session stays in the lower class */
	FIRST_TRIP = 100, /* us: round trip before the first sample */
};
#define CALM   (1000 * LEND_MS)  /* time without a reduction after which all is as at first */
#define FORGET (10000 * LEND_MS) /* time without a session after which an entry is forgotten */

static uint32_t *bucket_of(struct lend_core *c, uint32_t number)
{
	uint32_t hash = number * UINT32_C(0x9e3779b1);

	return LEND_AT(c, at_peer_hash, uint32_t) + (hash >> 12 & (c->buckets - 1));
}

static struct lend_peer *peer_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_peers, struct lend_peer) + i;
}

static struct lend_links links_idle(struct lend_core *c)
{
	return (struct lend_links){&peer_at(c, 0)->idle, sizeof(struct lend_peer)};
}

static struct lend_links links_waits(struct lend_core *c)
{
	return (struct lend_links){&lend_sess_at(c, 0)->waits, sizeof(struct lend_sess)};
}

void lend_peers_init(struct lend_core *c)
{
	lend_list_init(&c->idle_peers);
	lend_pool_init(&c->free_peers, c->cfg.sessions);
	for (uint32_t i = 0; i < c->buckets; i++)
		LEND_AT(c, at_peer_hash, uint32_t)[i] = LEND_NONE;
}

/* Takes an entry: a free one, or the one that has been without a session for longest. */
static uint32_t take_entry(struct lend_core *c)
{
	uint32_t i = lend_pool_take(&c->free_peers, LEND_AT(c, at_free_peers, uint32_t)), *at;

	if (i != LEND_NONE)
		return i;
	i = lend_list_pop(&c->idle_peers, links_idle(c));
	LEND_CHECK(i != LEND_NONE); /* there is an entry for each session */
	for (at = bucket_of(c, peer_at(c, i)->number); *at != i; at = &peer_at(c, *at)->next)
		;
	*at = peer_at(c, i)->next;
	return i;
}

static void clear_entry(struct lend_peer *p, uint32_t number, uint32_t next)
{
	memset(p, 0, sizeof(*p));
	lend_list_init(&p->waiting);
	p->number = number;
	p->next = next;
}

void lend_peer_join(struct lend_core *c, struct lend_sess *s)
{
	uint32_t *head = bucket_of(c, s->peer), i = *head;
	struct lend_peer *p;

	while (i != LEND_NONE && peer_at(c, i)->number != s->peer)
		i = peer_at(c, i)->next;
	if (i == LEND_NONE) {
		i = take_entry(c);
		clear_entry(peer_at(c, i), s->peer, *head);
		*head = i;
	}
	p = peer_at(c, i);
	lend_list_remove(&c->idle_peers, links_idle(c), i);
	if (p->sessions == 0 && c->now - p->closed > FORGET)
		clear_entry(p, s->peer, p->next);
	p->sessions++;
	s->peer_line = (uint32_t)((size_t)((char *)p - (char *)c) / 64);
}

static void set_limit(struct lend_peer *p)
{
	p->limit = p->waiting.n ? 0 : p->window;
}

/* Returns the largest window: what the peer's sessions may send without a grant. */
static uint32_t most_of(const struct lend_peer *p, const struct lend_sess *s)
{
	return (uint32_t)lend_min_u64((uint64_t)p->sessions * s->unscheduled, UINT32_MAX / 2);
}

void lend_peer_begin(struct lend_core *c, const struct lend_sess *s)
{
	struct lend_peer *p = lend_peer_of(c, s);

	if (s->lossless)
		p->window = most_of(p, s);
	else if (!p->window)
		p->window = lend_min_u32(s->first, s->unscheduled);
	set_limit(p);
}

void lend_peer_leave(struct lend_core *c, struct lend_sess *s)
{
	struct lend_peer *p = lend_peer_of(c, s);

	if (s->state != LEND_SESS_HALF)
		lend_list_remove(&p->waiting, links_waits(c), lend_sess_index(c, s));
	lend_peer_serve(c, p);
	if (--p->sessions)
		return;
	LEND_CHECK(p->used == 0);
	p->closed = c->now;
	lend_list_push(&c->idle_peers, links_idle(c), (uint32_t)(p - peer_at(c, 0)));
}

static lend_ns trip_of(const struct lend_sess *s)
{
	return s->srtt ? s->srtt : FIRST_TRIP * LEND_US;
}

static bool has_room(const struct lend_core *c, const struct lend_peer *p, uint32_t len)
{
	return p->used == 0 ? c->now >= p->hold : p->used + len <= p->window;
}

static void charge_peer(const struct lend_core *c, struct lend_peer *p, uint32_t len)
{
	p->used += len;
	p->sent = c->now;
}

bool lend_peer_charge(struct lend_core *c, const struct lend_sess *s, uint32_t len)
{
	struct lend_peer *p = lend_peer_of(c, s);

	if (p->waiting.n || !has_room(c, p, len))
		return false;
	charge_peer(c, p, len);
	return true;
}

/* Returns whether the session has a call that waits for the peer's window only. room counts queued
 * calls as if they were in flight, so it is negative by up to the length of the queue. */
static bool wants_room(const struct lend_sess *s)
{
	return s->queue.n && s->room + (int32_t)s->queue.n > 0;
}

/* Sends the requests of a sender with a backlog in the lower class, unless they are far shorter
 * than a datagram: a sender of few bytes must not wait for many others. */
static void lower_class(const struct lend_core *c, struct lend_peer *p, const struct lend_sess *s,
			uint32_t len)
{
	if (p->cut && len >= FULL / 4 && s->queue.n > 2 && !s->lossless)
		p->slow = c->now + TRIPS * trip_of(s);
}

void lend_peer_serve(struct lend_core *c, struct lend_peer *p)
{
	while (p->waiting.n) {
		uint32_t i = p->waiting.head;
		struct lend_sess *s = lend_sess_at(c, i);
		struct lend_call_rec *k;
		uint32_t len;

		if (!wants_room(s)) {
			lend_list_pop(&p->waiting, links_waits(c));
			continue;
		}
		k = lend_call_at(c, s->queue.head);
		len = k->tx.len <= s->payload ? k->tx.len : 0;
		if (!has_room(c, p, len)) {
			if (p->used == 0)
				lend_timer_earlier(c, s, p->hold);
			break;
		}
		lower_class(c, p, s, len);
		charge_peer(c, p, len);
		k->tx.charged = len;
		lend_sched_ready(c, k);
		lend_list_pop(&p->waiting, links_waits(c));
		lend_list_push(&p->waiting, links_waits(c), i);
	}
	set_limit(p);
}

/* Enters the session into the list of those that wait, or removes it. */
void lend_peer_wait(struct lend_core *c, struct lend_sess *s)
{
	struct lend_peer *p = lend_peer_of(c, s);

	if (s->waits.in && !wants_room(s))
		lend_list_remove(&p->waiting, links_waits(c), lend_sess_index(c, s));
	else if (!s->waits.in && wants_room(s))
		lend_list_push(&p->waiting, links_waits(c), lend_sess_index(c, s));
	lend_peer_serve(c, p);
}

/* Delays the request after one that is longer than the window: that one took so long, for the
 * window as it is. */
static void hold_next(const struct lend_core *c, struct lend_peer *p, const struct lend_sess *s,
		      uint32_t len)
{
	lend_ns took = lend_min_u64(c->now - p->sent, TRIPS * trip_of(s));

	if (p->used == 0 && len > p->window)
		p->hold = c->now + took * (len - p->window) / lend_max_u32(p->window, 1);
}

void lend_peer_grow(struct lend_core *c, const struct lend_sess *s, uint32_t len)
{
	struct lend_peer *p = lend_peer_of(c, s);
	uint64_t more = len;

	if (p->cut && c->now - p->cut > CALM)
		p->cut = 0;
	if (p->cut) {
		hold_next(c, p, s, len);
		more = lend_min_u64(more * len / lend_max_u32(p->window, 1), len / 8 + 1);
	}
	p->window =
	    (uint32_t)lend_min_u64(p->window + more, lend_max_u32(most_of(p, s), p->window));
	lend_peer_serve(c, p);
}

/* Reduces the window by a share (of ALL) of its half, at most once per round trip. */
static bool cut_window(const struct lend_core *c, struct lend_peer *p, const struct lend_sess *s,
		       uint32_t share, uint32_t least)
{
	uint32_t less = (uint32_t)((uint64_t)p->window * share / (UINT64_C(2) * ALL));

	if (s->lossless || (p->cut && c->now - p->cut < s->srtt))
		return false;
	p->cut = c->now + !c->now;
	p->window = lend_max_u32(p->window - less, lend_min_u32(p->window, least));
	set_limit(p);
	return true;
}

static void end_round(const struct lend_core *c, struct lend_peer *p, const struct lend_sess *s)
{
	uint32_t share = (uint32_t)((uint64_t)p->marked * ALL / lend_max_u32(p->came, 1));

	p->alpha += lend_min_u32(share, ALL) / GAIN - p->alpha / GAIN;
	if (p->marked)
		cut_window(c, p, s, p->alpha, lend_min_u32(s->payload, FULL) / 2);
	p->marked = p->came = 0;
	p->round = c->now + s->srtt;
}

static void note_marks(const struct lend_core *c, struct lend_peer *p, const struct lend_sess *s,
		       uint32_t came, uint32_t marked)
{
	if (!marked && !p->alpha)
		return;
	if (!p->cut)
		p->alpha = ALL; /* as in RFC 8257: the first ones count most */
	p->marked += lend_min_u32(marked, came);
	p->came += came;
	if (c->now >= p->round)
		end_round(c, p, s);
}

void lend_peer_reported(struct lend_core *c, const struct lend_sess *s, uint64_t came,
			uint32_t marked)
{
	struct lend_peer *p = lend_peer_of(c, s);
	uint32_t n = (uint32_t)lend_min_u64(came, LEND_WIDE_RING);

	p->intact = (uint16_t)lend_min_u32(p->intact + n, RANDOM);
	note_marks(c, p, s, n, marked);
}

void lend_peer_reply_marked(struct lend_core *c, const struct lend_sess *s)
{
	note_marks(c, lend_peer_of(c, s), s, 1, 1);
}

void lend_peer_lost(struct lend_core *c, const struct lend_sess *s, uint32_t n, uint32_t len)
{
	struct lend_peer *p = lend_peer_of(c, s);
	bool random = n == 1 && p->intact == RANDOM;

	p->intact = 0;
	if (random || !cut_window(c, p, s, ALL, LEAST))
		return;
	p->window = lend_max_u32(lend_min_u32(p->window, p->used / 2), LEAST);
	set_limit(p);
	if (len > p->window)
		p->hold = c->now + trip_of(s) * len / p->window;
}
