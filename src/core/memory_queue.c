#include "core/memory_queue.h"

#include "core/control.h"
#include "core/table_share.h"
#include "core/loss.h"
#include "core/rx.h"
#include "core/sched.h"

enum { DOUBLINGS = 12 }; /* of patience(): at least seconds, enough to find a dead peer */

void lend_want_init(struct lend_core *c)
{
	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		lend_list_init(&c->starved.of[i]);
		lend_list_init(&c->hungry[0].of[i]);
		lend_list_init(&c->hungry[1].of[i]);
		lend_list_init(&c->behind[0].of[i]);
		lend_list_init(&c->behind[1].of[i]);
	}
	c->served = LEND_NONE;
}

/* Returns the queue that the message is in, or is to enter. */
static struct lend_hungry *line_of(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.behind)
		return &c->behind[k->rx.want == LEND_WANT_MEMORY];
	return k->rx.want == LEND_WANT_MEMORY ? &c->hungry[k->rx.buf != 0] : &c->starved;
}

/* FIFO order ignores classes here, too. */
static uint32_t class_of(const struct lend_core *c, const struct lend_call_rec *k)
{
	return c->cfg.order == LEND_ORDER_FIFO ? 0 : k->class;
}

static void enter(struct lend_core *c, struct lend_call_rec *k, bool front)
{
	struct lend_hungry *h = line_of(c, k);
	uint32_t class = class_of(c, k), i = lend_call_index(c, k);

	lend_list_push_after(&h->of[class], lend_links_starved(c),
			     front ? LEND_NONE : h->of[class].tail, i);
	lend_share_enter(&h->share, class);
	h->n++;
}

static void leave(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_hungry *h = line_of(c, k);
	uint32_t class = class_of(c, k);

	lend_list_remove(&h->of[class], lend_links_starved(c), lend_call_index(c, k));
	if (h->of[class].n == 0)
		lend_share_leave(&h->share, class);
	h->n--;
	k->rx.behind = 0;
}

void lend_want_leave(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->rx.starved.in)
		leave(c, k);
	k->rx.want = LEND_WANT_NOTHING;
}

static void want_memory(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->rx.want == LEND_WANT_MEMORY)
		return;
	k->rx.want = LEND_WANT_MEMORY;
	k->rx.behind = lend_fair_waits(c, k);
	enter(c, k, false);
}

/* Returns how long a message may receive nothing before it may be evicted: two timeouts, doubled
 * with each eviction. A sender may have many messages and a small window for all of them. Such a
 * message is slow, not stalled: with a limit of two timeouts none of them would ever complete. */
static lend_ns patience(struct lend_core *c, const struct lend_call_rec *k)
{
	return 2 * lend_loss_rto(lend_sess_at(c, k->sess), 0)
	       << lend_min_u32(k->rx.gave_way, DOUBLINGS);
}

/* Evicts a message that received nothing for that long. Its sender is notified, so that it spends
 * its small window on messages that have memory. */
static void evict(struct lend_core *c, struct lend_call_rec *k)
{
	uint32_t granted = k->rx.granted, len = k->rx.len, times = k->rx.gave_way + 1u;

	LEND_COUNT(c, evicted);
	lend_rx_drop(c, k);
	lend_rx_begin(&k->rx, granted);
	k->rx.len = len;
	k->rx.gave_way = (uint16_t)lend_min_u32(times, UINT16_MAX);
	want_memory(c, k);
	lend_ctl_ack(c, k);
}

/* Checks one partial message per request for memory, the least recently checked one. A reply of
 * which part has arrived is never evicted: its sender frees it when all its numbers were seen,
 * those of discarded fragments included. */
static void make_room(struct lend_core *c)
{
	uint32_t i = lend_list_pop(&c->partials, lend_links_partial(c));
	struct lend_call_rec *k;

	if (i == LEND_NONE)
		return;
	k = lend_call_at(c, i);
	lend_list_push(&c->partials, lend_links_partial(c), i);
	if ((k->server || k->rx.got == 0) && !k->rx.attached && !k->rx.needed &&
	    c->now - k->rx.last > patience(c, k))
		evict(c, k);
}

void lend_want_look(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.want == LEND_WANT_MEMORY)
		make_room(c);
}

static bool has_room(const struct lend_core *c, const struct lend_rx *r)
{
	return (r->buf || c->supply_n > 0) && c->free_frags.free > 0;
}

static void seat(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	bool waited = k->rx.want == LEND_WANT_MEMORY;

	lend_want_leave(c, k);
	lend_rx_seat(c, k, len);
	if (!waited)
		return;
	k->rx.want = LEND_WANT_WORD;
	lend_ctl_ack(c, k);
}

/* Returns whether the message is at the head of its queue. A message that brought a buffer must not
 * take the reassembly from messages that need a buffer as well. */
static bool is_next(struct lend_core *c, const struct lend_call_rec *k)
{
	bool others = c->supply_n > 0 && c->hungry[0].n > 0;
	uint32_t before = c->hungry[k->rx.buf != 0].n;

	if (k->rx.behind)
		return c->behind[1].n == 1 && before == 0 && !others && !lend_fair_waits(c, k);

	if (k->rx.want == LEND_WANT_MEMORY)
		return before == 1 && !(k->rx.buf && others);
	return before == 0 && !others;
}

bool lend_want_sit(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	if (is_next(c, k) && has_room(c, &k->rx) && (k->rx.behind || !lend_fair_waits(c, k))) {
		seat(c, k, len);
		return true;
	}
	make_room(c);
	k->rx.len = len;
	want_memory(c, k);
	LEND_COUNT(c, rx_memory);
	lend_ctl_ack(c, k);
	return false;
}

static struct lend_call_rec *first(struct lend_core *c, const struct lend_hungry *h)
{
	return lend_call_at(c, h->of[lend_share_pick(&h->share)].head);
}

static bool feed_one(struct lend_core *c, struct lend_hungry *h)
{
	struct lend_call_rec *k;

	if (h->n == 0)
		return false;
	k = first(c, h);
	if (!has_room(c, &k->rx))
		return false;
	seat(c, k, k->rx.len);
	lend_share_sent(&h->share, class_of(c, k), 1);
	return true;
}

/* Returns the bytes of the budget that the message may take: none while others go first. */
static uint64_t budget_for(struct lend_core *c, const struct lend_call_rec *k, uint64_t kept)
{
	uint64_t used = c->budget_used + kept;

	if (c->starved.n && c->served != lend_call_index(c, k) &&
	    !lend_share_passes(&c->starved.share, class_of(c, k)))
		return 0;
	return c->cfg.receive_budget - lend_min_u64(used, c->cfg.receive_budget);
}

uint64_t lend_want_budget(struct lend_core *c, struct lend_call_rec *k, uint64_t more)
{
	uint64_t kept = lend_fair_kept(c, k, more), room = budget_for(c, k, kept);

	if (more > room) {
		if (!k->rx.starved.in) {
			k->rx.behind = kept > 0;
			enter(c, k, c->served == lend_call_index(c, k));
		}
		more = room - room % lend_sess_at(c, k->sess)->payload;
	}
	k->rx.charged += (uint32_t)more;
	c->budget_used += more;
	lend_fair_took(c, more);
	if (more)
		lend_share_sent(&c->starved.share, class_of(c, k), 1);
	return more;
}

/* Grants budget to the waiting messages, until one of them finds too little. */
static void feed_starved(struct lend_core *c, struct lend_hungry *h)
{
	bool enough = true;

	for (uint32_t turns = h->n; turns > 0 && enough; turns--) {
		struct lend_call_rec *k = first(c, h);

		leave(c, k);
		c->served = lend_call_index(c, k);
		if (lend_rx_grant(c, k))
			lend_ctl_ack(c, k);
		c->served = LEND_NONE;
		/* A message that went to the other queue delays no message in this one. */
		enough = !k->rx.starved.in || line_of(c, k) != h;
	}
}

void lend_want_feed(struct lend_core *c)
{
	while (feed_one(c, &c->hungry[0]) || feed_one(c, &c->hungry[1]))
		;
	while (c->free_frags.free > lend_fair_frags_kept(c) && feed_one(c, &c->behind[1]))
		;
	if (c->starved.n)
		feed_starved(c, &c->starved);
	if (c->behind[0].n && !c->starved.n)
		feed_starved(c, &c->behind[0]);
}
