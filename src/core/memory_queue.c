#include "core/memory_queue.h"

#include "core/control.h"
#include "core/table_share.h"
#include "core/loss.h"
#include "core/rx.h"
#include "core/sched.h"

enum {
	DOUBLINGS = 12
}; /* number of doublings in eviction_delay(): at least seconds, enough to find a dead peer */

void lend_memq_init(struct lend_core *c)
{
	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		lend_list_init(&c->budget_queue.of[i]);
		lend_list_init(&c->memory_queue[0].of[i]);
		lend_list_init(&c->memory_queue[1].of[i]);
		lend_list_init(&c->behind[0].of[i]);
		lend_list_init(&c->behind[1].of[i]);
	}
	c->served = LEND_NONE;
}

/* Returns the queue that the message is in, or is to enter. */
static struct lend_memq *memq_of(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.behind)
		return &c->behind[k->rx.memq_state == LEND_MEMQ_WAITS];
	return k->rx.memq_state == LEND_MEMQ_WAITS ? &c->memory_queue[k->rx.buf != 0]
						   : &c->budget_queue;
}

/* Returns the class of a message in these queues: FIFO order ignores classes. */
static uint32_t class_of(const struct lend_core *c, const struct lend_call_rec *k)
{
	return c->cfg.order == LEND_ORDER_FIFO ? 0 : k->class;
}

static void queue_message(struct lend_core *c, struct lend_call_rec *k, bool front)
{
	struct lend_memq *h = memq_of(c, k);
	uint32_t class = class_of(c, k), i = lend_call_index(c, k);

	lend_list_push_after(&h->of[class], lend_links_memq(c),
			     front ? LEND_NONE : h->of[class].tail, i);
	lend_fair_share_enter(&h->share, class);
	h->n++;
}

static void unqueue_message(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_memq *h = memq_of(c, k);
	uint32_t class = class_of(c, k);

	lend_list_remove(&h->of[class], lend_links_memq(c), lend_call_index(c, k));
	if (h->of[class].n == 0)
		lend_fair_share_leave(&h->share, class);
	h->n--;
	k->rx.behind = 0;
}

void lend_memq_leave(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->rx.memq_link.in)
		unqueue_message(c, k);
	k->rx.memq_state = LEND_MEMQ_NONE;
}

static void queue_for_memory(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->rx.memq_state == LEND_MEMQ_WAITS)
		return;
	k->rx.memq_state = LEND_MEMQ_WAITS;
	k->rx.behind = lend_fair_waits(c, k);
	queue_message(c, k, false);
}

/* Returns how long a message may receive nothing before it may be evicted: two timeouts, doubled
 * with each eviction. A sender may have many messages and a small window for all of them. Such a
 * message is slow, not stalled: with a limit of two timeouts none of them would ever complete. */
static lend_ns eviction_delay(struct lend_core *c, const struct lend_call_rec *k)
{
	return 2 * lend_loss_rto(lend_sess_at(c, k->sess), 0)
	       << lend_min_u32(k->rx.evictions, DOUBLINGS);
}

/* Evicts a message that received nothing for that long. Its sender is notified, so that it spends
 * its small window on messages that have memory. */
static void evict_message(struct lend_core *c, struct lend_call_rec *k)
{
	uint32_t granted = k->rx.granted, len = k->rx.len, times = k->rx.evictions + 1u;
	uint32_t fine = k->rx.fine;

	LEND_COUNT(c, evicted);
	lend_rx_drop(c, k);
	lend_rx_begin(&k->rx, granted);
	k->rx.len = len;
	k->rx.fine = fine;
	k->rx.evictions = (uint8_t)lend_min_u32(times, UINT8_MAX);
	queue_for_memory(c, k);
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
	    c->now - k->rx.last > eviction_delay(c, k))
		evict_message(c, k);
}

void lend_memq_on_query(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.memq_state == LEND_MEMQ_WAITS)
		make_room(c);
}

static bool has_room(const struct lend_core *c, const struct lend_rx *r)
{
	return (r->buf || c->supply_n > 0) && c->free_frags.free > 0;
}

static void take_memory(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	bool waited = k->rx.memq_state == LEND_MEMQ_WAITS;

	lend_memq_leave(c, k);
	lend_rx_take_memory(c, k, len);
	if (!waited)
		return;
	k->rx.memq_state = LEND_MEMQ_NOTIFY;
	lend_ctl_ack(c, k);
}

/* Returns whether the message is at the head of its queue. A message that brought a buffer must not
 * take the reassembly from messages that need a buffer as well. */
static bool is_next(struct lend_core *c, const struct lend_call_rec *k)
{
	bool others = c->supply_n > 0 && c->memory_queue[0].n > 0;
	uint32_t before = c->memory_queue[k->rx.buf != 0].n;

	if (k->rx.behind)
		return c->behind[1].n == 1 && before == 0 && !others && !lend_fair_waits(c, k);

	if (k->rx.memq_state == LEND_MEMQ_WAITS)
		return before == 1 && !(k->rx.buf && others);
	return before == 0 && !others;
}

bool lend_memq_take(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	if (is_next(c, k) && has_room(c, &k->rx) && (k->rx.behind || !lend_fair_waits(c, k))) {
		take_memory(c, k, len);
		return true;
	}
	make_room(c);
	k->rx.len = len;
	queue_for_memory(c, k);
	LEND_COUNT(c, rx_memory);
	lend_ctl_ack(c, k);
	return false;
}

static struct lend_call_rec *queue_head(struct lend_core *c, const struct lend_memq *h)
{
	return lend_call_at(c, h->of[lend_fair_share_pick(&h->share)].head);
}

static bool serve_one(struct lend_core *c, struct lend_memq *h)
{
	struct lend_call_rec *k;

	if (h->n == 0)
		return false;
	k = queue_head(c, h);
	if (!has_room(c, &k->rx))
		return false;
	take_memory(c, k, k->rx.len);
	lend_fair_share_sent(&h->share, class_of(c, k), LEND_FAIR_UNITS);
	return true;
}

/* Returns the bytes of the budget that the message may take: none while others go first. */
static uint64_t budget_for(struct lend_core *c, const struct lend_call_rec *k, uint64_t kept)
{
	uint64_t used = c->budget_used + kept;

	if (c->budget_queue.n && c->served != lend_call_index(c, k) &&
	    !lend_fair_share_may_bypass(&c->budget_queue.share, class_of(c, k)))
		return 0;
	return c->cfg.receive_budget - lend_min_u64(used, c->cfg.receive_budget);
}

uint64_t lend_memq_take_budget(struct lend_core *c, struct lend_call_rec *k, uint64_t more)
{
	uint64_t kept = lend_fair_reserved(c, k, more), room = budget_for(c, k, kept);

	if (more > room) {
		if (!k->rx.memq_link.in) {
			k->rx.behind = kept > 0;
			queue_message(c, k, c->served == lend_call_index(c, k));
		}
		more = room - room % lend_sess_at(c, k->sess)->payload;
	}
	k->rx.charged += (uint32_t)more;
	c->budget_used += more;
	lend_fair_note_taken(c, more);
	if (more)
		lend_fair_share_sent(&c->budget_queue.share, class_of(c, k), LEND_FAIR_UNITS);
	return more;
}

/* Grants budget to the waiting messages, until one of them finds too little. */
static void serve_budget_queue(struct lend_core *c, struct lend_memq *h)
{
	bool enough = true;

	for (uint32_t turns = h->n; turns > 0 && enough; turns--) {
		struct lend_call_rec *k = queue_head(c, h);

		unqueue_message(c, k);
		c->served = lend_call_index(c, k);
		if (lend_rx_grant(c, k))
			lend_ctl_ack(c, k);
		c->served = LEND_NONE;
		/* A message that went to the other queue delays no message in this one. */
		enough = !k->rx.memq_link.in || memq_of(c, k) != h;
	}
}

void lend_memq_serve(struct lend_core *c)
{
	while (serve_one(c, &c->memory_queue[0]) || serve_one(c, &c->memory_queue[1]))
		;
	while (c->free_frags.free > lend_fair_frags_reserved(c) && serve_one(c, &c->behind[1]))
		;
	if (c->budget_queue.n)
		serve_budget_queue(c, &c->budget_queue);
	if (c->behind[0].n && !c->budget_queue.n)
		serve_budget_queue(c, &c->behind[0]);
}
