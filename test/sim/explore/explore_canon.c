#include "sim/explore/explore_canon.h"

#include "core/handshake.h"
#include "core/sess.h"
#include "core/arena.h"

static void rebase_time(lend_ns *t, lend_ns now)
{
	if (*t != LEND_NEVER)
		*t = *t - now + EX_NOW;
}

static void clear_from(void *array, uint32_t used, uint32_t cap, size_t width)
{
	memset((char *)array + used * width, 0, (cap - used) * width);
}

/* Clears the neighbours of an entry that is on no list. */
static void canon_link(struct lend_link *l)
{
	if (!l->in)
		memset(l, 0, sizeof(*l));
}

/* Clears a number if its call is over. */
static void canon_sent(struct lend_core *c, struct lend_sent_rec *e, uint32_t n)
{
	for (; n > 0; n--, e++) {
		const struct lend_call_rec *k = e->gen ? lend_call_at(c, e->call) : NULL;

		if (!k || k->gen != e->gen || k->state == LEND_CALL_FREE)
			memset(e, 0, sizeof(*e));
		else
			/* So long ago that each datagram that was passed is lost. */
			e->when = (uint32_t)((EX_NOW - LEND_RTO_MAX) / LEND_SENT_UNIT);
	}
}

static void canon_ring(struct lend_core *c, struct lend_sess *s, struct lend_few *few)
{
	canon_sent(c, few->sent, LEND_FEW);
	if (s->ring == LEND_NONE)
		return;
	memset(few->sent, 0, sizeof(few->sent));
	canon_sent(c, lend_sent_ring_slot(c, s, 0), lend_ring_len(c, s));
}

/* Clears the age of a ticket or cookie, which stays valid. */
static void canon_hand(struct lend_hs *h, lend_ns now)
{
	if (h->cookie.time)
		h->cookie.time = h->cookie.time - now + EX_NOW;
	if (h->ticket.until)
		h->ticket.until = h->ticket.until - now + EX_NOW;
}

static void canon_sess(struct lend_core *c, uint32_t i)
{
	struct lend_few *few = LEND_AT(c, at_few, struct lend_few) + i;
	struct lend_sess *s = lend_sess_at(c, i);

	if (s->state == LEND_SESS_FREE) {
		memset(s, 0, sizeof(*s));
		memset(few, 0, sizeof(*few));
		return;
	}
	canon_link(&s->half);
	if (s->hs != LEND_NONE)
		canon_hand(lend_hs_of(c, s), c->now);
	s->rtt_at = 0;
	if (s->srtt) {
		s->srtt = 1;
		s->rttvar = 0;
		lend_loss_set_pto(s);
	}
	if (c->coalesced_n == 0)
		s->coalesced = 0;
	if (s->seen_at)
		s->seen_at = EX_NOW;
	rebase_time(&s->last_rx, c->now);
	rebase_time(&s->last_ping, c->now);
	rebase_time(&s->timer, c->now);
	rebase_time(&s->ack_timer, c->now);
	rebase_time(&s->ctl_timer, c->now);
	for (int fast = 0; fast < 2; fast++) {
		LEND_CHECK(s->blocked[fast] <= c->now);
		s->blocked[fast] = 0;
	}
	canon_ring(c, s, few);
}

static void canon_rx(struct lend_rx *r, lend_ns now)
{
	canon_link(&r->memq_link);
	canon_link(&r->partial);
	if (r->frags != LEND_NONE) {
		rebase_time(&r->last, now);
		return;
	}
	if (r->memq_state != LEND_MEMQ_WAITS)
		r->len = 0; /* set again when a datagram comes */
	r->got = 0;
	r->last = 0;
	if (!r->buf) {
		r->seg = 0;
		r->base = 0;
	}
}

static void canon_call(struct lend_call_rec *k, lend_ns now)
{
	if (k->state == LEND_CALL_FREE) {
		struct lend_call_rec free = {.gen = k->gen,
					     .self = k->self,
					     .timer = LEND_NEVER,
					     .tx.win = LEND_NONE,
					     .rx.frags = LEND_NONE};

		*k = k->gen ? free : (struct lend_call_rec){0};
		return;
	}
	rebase_time(&k->timer, now);
	k->stamp = EX_NOW; /* for round-trip times only */
	if (!k->server)
		rebase_time(&k->deadline, now);
	else
		k->deadline = LEND_NEVER; /* only a handler reads it, and the explorer's does not */
	canon_link(&k->tx.ready);
	canon_rx(&k->rx, now);
}

/* Clears what a slot keeps of its last short call. */
static void canon_slots(struct lend_core *c, uint32_t sess)
{
	uint32_t used = lend_sess_at(c, sess)->cslots;

	for (uint32_t slot = 0; slot < c->cfg.calls; slot++) {
		struct lend_cslot *cs = lend_cslot_at(c, sess, slot);

		if (slot >= used) {
			*cs = (struct lend_cslot){.handle = cs->handle};
		} else if (cs->rec != LEND_SLOT_SHORT) {
			memset(&cs->method, 0, sizeof(*cs) - offsetof(struct lend_cslot, method));
		} else {
			rebase_time(&cs->stamp, c->now);
			rebase_time(&cs->deadline, c->now);
		}
	}
}

/* Clears guaranteed shares: a scope is far too short for one to be due. */
static void canon_share(struct lend_fair_share *s)
{
	memset(s->passed, 0, sizeof(s->passed));
}

/* Marks all entries as used before. */
static void settle_lists(struct lend_pool *p, uint32_t *stack)
{
	for (uint32_t i = 0; i < p->fresh; i++)
		stack[i] = lend_pool_at(p, stack, i);
	p->fresh = 0;
}

static void settle_free(struct lend_core *c)
{
	settle_lists(&c->free_sess, LEND_AT(c, at_free_sess, uint32_t));
	settle_lists(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t));
	settle_lists(&c->free_frags, LEND_AT(c, at_free_frags, uint32_t));
	settle_lists(&c->free_wins, LEND_AT(c, at_free_wins, uint32_t));
	settle_lists(&c->free_rings, LEND_AT(c, at_free_rings, uint32_t));
	settle_lists(&c->free_hs, LEND_AT(c, at_free_hs, uint32_t));
}

static void clear_free(struct lend_core *c)
{
	uint32_t *free = LEND_AT(c, at_free_frags, uint32_t);

	settle_free(c);
	for (uint32_t i = 0; i < c->free_frags.free; i++)
		memset(lend_frags_at(c, free[i]), 0, sizeof(struct lend_frags));
	clear_from(free, c->free_frags.free, c->free_frags.cap, sizeof(*free));
	free = LEND_AT(c, at_free_wins, uint32_t);
	for (uint32_t i = 0; i < c->free_wins.free; i++)
		memset(lend_win_at(c, free[i]), 0, sizeof(struct lend_win));
	clear_from(free, c->free_wins.free, c->free_wins.cap, sizeof(*free));
	clear_from(LEND_AT(c, at_free_sess, uint32_t), c->free_sess.free, c->free_sess.cap,
		   sizeof(uint32_t));
	free = LEND_AT(c, at_free_rings, uint32_t);
	for (uint32_t i = 0; i < c->free_rings.free; i++)
		memset(lend_ring_at(c, free[i]), 0, sizeof(struct lend_ring));
	clear_from(free, c->free_rings.free, c->free_rings.cap, sizeof(*free));
	free = LEND_AT(c, at_free_hs, uint32_t);
	for (uint32_t i = 0; i < c->free_hs.free; i++)
		memset(LEND_AT(c, at_hs, struct lend_hs) + free[i], 0, sizeof(struct lend_hs));
	clear_from(free, c->free_hs.free, c->free_hs.cap, sizeof(*free));
	clear_from(LEND_AT(c, at_free_calls, uint32_t), c->free_calls.free, c->free_calls.cap,
		   sizeof(uint32_t));
	clear_from(LEND_AT(c, at_supply, uint32_t), c->supply_n, c->supply_cap, sizeof(uint32_t));
}

/* Clears what congestion control learned of a peer with no session, and all times that are over. */
static void canon_peer(struct lend_peer *p, lend_ns now)
{
	if (p->sessions == 0)
		p->window = p->limit = 0;
	p->alpha = p->marked = p->came = p->intact = 0;
	p->round = p->sent = p->slow = 0;
	p->cut = p->cut && p->sessions ? EX_NOW : 0;
	p->closed = EX_NOW;
	if (p->hold > now)
		rebase_time(&p->hold, now);
	else
		p->hold = 0;
	canon_link(&p->idle);
}

void ex_core_timers(struct lend_core *c)
{
	lend_timer_init(c, c->now);
	for (uint32_t i = 0; i < c->cfg.sessions; i++) {
		struct lend_sess *s = lend_sess_at(c, i);

		if (s->state != LEND_SESS_FREE)
			lend_timer_set(c, s, s->timer);
	}
}

void ex_core_canon(struct lend_core *c)
{
	LEND_CHECK(lend_unhashed(c)->ev_n == 0 && c->ctl_n == 0);
	c->ctl_head = 0;
	canon_share(&c->ready.classes);
	for (uint32_t i = 0; i < LEND_CLASSES; i++)
		canon_share(&c->ready.sizes[i]);
	canon_share(&c->budget_queue.share);
	canon_share(&c->memory_queue[0].share);
	canon_share(&c->memory_queue[1].share);
	canon_share(&c->behind[0].share);
	canon_share(&c->behind[1].share);
	memset(c->fair, 0,
	       sizeof(c->fair)); /* the result of a scan of such small tables is never kept */
	c->fair_hand = 0;
	c->fair_sess_hand = 0;
	for (uint32_t i = 0; i < c->cfg.sessions; i++) {
		canon_sess(c, i);
		canon_slots(c, i);
	}
	for (uint32_t i = 0; i < lend_pool_top(&c->free_peers); i++)
		canon_peer(LEND_AT(c, at_peers, struct lend_peer) + i, c->now);
	for (uint32_t i = 0; i < c->records; i++)
		canon_call(lend_call_at(c, i), c->now);
	clear_free(c);
	c->now = EX_NOW;
	ex_core_timers(c);
}

static struct ex_extent extent_of(void *from, void *to)
{
	return (struct ex_extent){from, (uint32_t)((char *)to - (char *)from)};
}

uint32_t ex_core_extents(struct lend_core *c, struct ex_extent e[EX_EXTENTS])
{
	uint32_t n = 0;

	e[n++] = extent_of(c, LEND_AT(c, at_rings, char));
	for (uint32_t i = 0; i < c->free_rings.cap; i++) {
		struct lend_ring *r = lend_ring_at(c, i);

		e[n++] = extent_of(r->sent, &r->sent[EX_NUMBERS]);
		e[n++] = extent_of(r->class_of, &r->class_of[EX_NUMBERS]);
	}
	e[n++] = extent_of(LEND_AT(c, at_cslot, char), LEND_AT(c, at_ctl, char));
	e[n++] = extent_of(LEND_AT(c, at_free_sess, char), (char *)c + c->hashed);
	return n;
}

bool ex_core_quiet(struct lend_core *c)
{
	return c->free_calls.free == c->free_calls.cap && c->free_frags.free == c->free_frags.cap &&
	       c->free_wins.free == c->free_wins.cap && c->budget_used == 0 &&
	       c->supply_n == c->supply_cap && c->used[0] + c->used[1] == 0;
}

bool ex_core_clean(struct lend_core *c)
{
	return ex_core_quiet(c) && c->free_sess.free == c->free_sess.cap && c->timers == 0 &&
	       c->half.n == 0;
}
