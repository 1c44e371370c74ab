#include "core/sched.h"

#include "core/tx.h"
#include "util/bits.h"
#include "util/traffic_class.h"

void lend_sched_init(struct lend_core *c)
{
	memset(&c->ready, 0, sizeof(c->ready));
	for (uint32_t i = 0; i < LEND_SCHED_QUEUES; i++)
		lend_list_init(&c->ready.queue[i]);
}

static uint32_t quarter_log(uint64_t n)
{
	return n ? lend_min_u32((uint32_t)(63 - __builtin_clzll(n)) / 2, LEND_SIZES - 1) : 0;
}

/* Returns the size of a message by its datagrams left: one more for every factor of four. Size 0 is
 * for messages of one datagram. */
static uint32_t long_size(uint32_t left)
{
	return lend_min_u32(1 + quarter_log(left), LEND_SIZES - 1);
}

static uint64_t deadline_distance(const struct lend_core *c, const struct lend_call_rec *k)
{
	return k->deadline > c->now ? (k->deadline - c->now) / (64 * LEND_US) : 0;
}

/* Returns the queue of a call. In order of deadlines, queues are by the time left, so that each is
 * nearly sorted as it is filled. */
static uint32_t queue_of(const struct lend_core *c, const struct lend_call_rec *k)
{
	switch (c->cfg.order) {
	case LEND_ORDER_FIFO:
		return 0;
	case LEND_ORDER_DEADLINE:
		return k->class * LEND_SIZES + quarter_log(deadline_distance(c, k));
	default:
		if (k->tx.win == LEND_NONE)
			return k->class * LEND_SIZES;
		return k->class * LEND_SIZES + long_size(k->tx.total - k->tx.next + k->tx.resend);
	}
}

static void mark_queue(struct lend_ready *r, uint32_t queue)
{
	lend_fair_share_enter(&r->sizes[queue / LEND_SIZES], queue % LEND_SIZES);
	lend_fair_share_enter(&r->classes, queue / LEND_SIZES);
}

static void unmark_queue(struct lend_ready *r, uint32_t queue)
{
	uint32_t class = queue / LEND_SIZES;

	lend_fair_share_leave(&r->sizes[class], queue % LEND_SIZES);
	if (!r->sizes[class].waiting)
		lend_fair_share_leave(&r->classes, class);
}

void lend_sched_take_off(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_list *l;

	lend_sched_settle(c);
	l = &c->ready.queue[k->queue];
	if (k->waits) {
		l = k->waits == LEND_WAITS_WINDOW ? &lend_sess_at(c, k->sess)->queue
						  : &lend_sess_at(c, k->sess)->waiting;
	} else {
		if (l->n == 1)
			unmark_queue(&c->ready, k->queue);
		c->ready.n--;
	}
	lend_list_remove(l, lend_links_ready(c), lend_call_index(c, k));
	k->waits = 0;
	k->queue = 0;
}

/* Returns the call after which this one is queued by deadline; LEND_NONE if it is the first. */
static uint32_t find_predecessor(struct lend_core *c, const struct lend_call_rec *k)
{
	uint32_t i = c->ready.queue[k->queue].tail;

	while (i != LEND_NONE && lend_call_at(c, i)->deadline > k->deadline)
		i = lend_call_at(c, i)->tx.ready.prev;
	return i;
}

static __attribute__((noinline)) void push_by_deadline(struct lend_core *c, struct lend_call_rec *k)
{
	lend_list_push_after(&c->ready.queue[k->queue], lend_links_ready(c), find_predecessor(c, k),
			     k->self);
}

void lend_sched_enter_queue(struct lend_core *c, struct lend_call_rec *k)
{
	uint32_t queue = queue_of(c, k);

	lend_sched_settle(c);
	k->queue = (uint8_t)queue;
	if (c->ready.queue[queue].n == 0)
		mark_queue(&c->ready, queue);
	c->ready.n++;
	if (c->cfg.order == LEND_ORDER_DEADLINE)
		push_by_deadline(c, k);
	else
		lend_list_push(&c->ready.queue[queue], lend_links_ready(c), k->self);
}

void lend_sched_settle(struct lend_core *c)
{
	uint32_t n = lend_sched_take_single(c);

	if (n == 0)
		return;
	c->ready.n -= n;
	for (uint32_t i = 0; i < n; i++) {
		struct lend_call_rec *k = lend_call_at(c, c->ready.single[i]);

		k->tx.ready.in = 0;
		lend_sched_enter_queue(c, k);
	}
}

void lend_sched_wait(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->paused || (k->tx.ready.in && k->waits))
		return;
	lend_sched_remove(c, k);
	k->waits = LEND_WAITS_CREDIT;
	lend_list_push(&lend_sess_at(c, k->sess)->waiting, lend_links_ready(c),
		       lend_call_index(c, k));
}

void lend_sched_block(struct lend_core *c, struct lend_call_rec *k)
{
	lend_sched_wait(c, k);
	k->waits = LEND_WAITS_CARRIER;
	lend_sess_at(c, k->sess)->has_blocked = 1;
}

void lend_sched_unblock(struct lend_core *c, struct lend_sess *s)
{
	s->has_blocked = 0;
	for (uint32_t i = s->waiting.head, next; i != LEND_NONE; i = next) {
		struct lend_call_rec *k = lend_call_at(c, i);

		next = k->tx.ready.next;
		if (k->waits == LEND_WAITS_CARRIER)
			lend_sched_ready(c, k);
	}
}

void lend_sched_apply_wait(struct lend_core *c, struct lend_call_rec *k, bool wait, uint32_t low)
{
	k->paused = wait && k->tx.win != LEND_NONE;
	if (!k->paused)
		return;
	lend_tx_restart(c, lend_sess_at(c, k->sess), &k->tx, low);
	lend_sched_remove(c, k);
}

void lend_sched_wake_all(struct lend_core *c, struct lend_sess *s)
{
	while (s->waiting.head != LEND_NONE)
		lend_sched_ready(c, lend_call_at(c, s->waiting.head));
}

static uint32_t earliest_queue(struct lend_core *c, uint32_t class)
{
	const struct lend_list *queue = &c->ready.queue[class * LEND_SIZES];
	uint32_t best = (uint32_t)__builtin_ctz(c->ready.sizes[class].waiting);

	for (uint32_t m = c->ready.sizes[class].waiting; m; m &= m - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(m);

		if (lend_call_at(c, queue[i].head)->deadline <
		    lend_call_at(c, queue[best].head)->deadline)
			best = i;
	}
	return best;
}

struct lend_call_rec *lend_sched_pop(struct lend_core *c, uint32_t queue)
{
	struct lend_list *l = &c->ready.queue[queue];
	struct lend_call_rec *k = lend_call_at(c, lend_list_pop(l, lend_links_ready(c)));

	if (l->n == 0)
		unmark_queue(&c->ready, queue);
	c->ready.n--;
	k->queue = 0;
	return k;
}

struct lend_call_rec *lend_sched_next(struct lend_core *c, uint32_t *queue)
{
	struct lend_ready *r = &c->ready;
	uint32_t class, size;

	if (r->n == 0)
		return NULL;
	class = lend_fair_share_pick(&r->classes);
	size = c->cfg.order == LEND_ORDER_DEADLINE ? earliest_queue(c, class)
						   : lend_fair_share_pick(&r->sizes[class]);
	*queue = class * LEND_SIZES + size;
	return lend_sched_pop(c, *queue);
}

void lend_sched_sent(struct lend_core *c, uint32_t queue, uint32_t n)
{
	uint32_t class = queue / LEND_SIZES;

	lend_fair_share_sent(&c->ready.classes, class, n);
	lend_fair_share_sent(&c->ready.sizes[class], queue % LEND_SIZES, n);
}
