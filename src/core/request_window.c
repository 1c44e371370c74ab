#include "core/request_window.h"

#include "core/arena.h"

enum { RECORDS_NUM = 3, RECORDS_DEN = 4 }; /* the rest is for unacknowledged replies */

uint32_t lend_window_of(uint8_t code)
{
	uint32_t exponent = code / 8u;

	if (code == 0 || exponent > 7)
		return LEND_CALLS_MAX;
	return code < 16 ? code : (8u + code % 8u) << (exponent - 1);
}

uint8_t lend_window_code(uint64_t n)
{
	uint32_t top = 63 - (uint32_t)__builtin_clzll(n);

	if (n >= LEND_CALLS_MAX)
		return 0;
	return (uint8_t)(n < 16 ? n : 8 * (top - 2) + (n >> (top - 3)) % 8);
}

static uint8_t code_of(const struct lend_core *c, uint64_t capacity)
{
	uint64_t share = lend_max_u64(capacity / lend_max_u32(c->busy, 1), 1);

	return share < c->cfg.calls ? lend_window_code(share) : LEND_WINDOW_OPEN;
}

/* Returns the smallest capacity of all carriers. */
static uint64_t room_of(const struct lend_core *c)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < LEND_CARRIERS_MAX; i++)
		if (c->cfg.path[i].room)
			least = lend_min_u64(least, c->cfg.path[i].room);
	return least;
}

/* Computes the shares, valid until an eighth more sessions have calls, or a quarter fewer. */
void lend_window_divide(struct lend_core *c)
{
	uint64_t records = (uint64_t)c->cfg.inflight * RECORDS_NUM / RECORDS_DEN;
	uint32_t fewer = lend_min_u32(c->busy, c->busy / 4 + 1);
	uint64_t room = room_of(c);

	c->share_sent = code_of(c, lend_min_u64(records, room));
	c->share_own = code_of(c, room);
	c->busy_low = c->busy - fewer;
	c->busy_span = fewer + c->busy / 8;
}

void lend_window_open(struct lend_sess *s)
{
	lend_list_init(&s->queue);
	s->window = s->lossless ? LEND_WINDOW_OPEN : LEND_WINDOW_FIRST;
	s->room = (int16_t)lend_window_of(s->window);
}

/* Sends as many queued calls as the window has room for. room counts queued calls as if they were
 * in flight, so it is negative by up to the length of the queue. */
static void send_queued(struct lend_core *c, struct lend_sess *s)
{
	while (s->queue.n && s->room + (int32_t)s->queue.n > 0)
		lend_sched_ready(c, lend_call_at(c, s->queue.head));
}

void lend_window_set(struct lend_core *c, struct lend_sess *s, uint8_t code)
{
	if (lend_window_of(c->share_own) < lend_window_of(code))
		code = c->share_own;
	s->room =
	    (int16_t)(s->room + (int32_t)lend_window_of(code) - (int32_t)lend_window_of(s->window));
	s->window = code;
	send_queued(c, s);
}

void lend_window_shrink_idle(struct lend_core *c, struct lend_sess *s)
{
	if (!s->lossless && lend_window_of(s->window) > lend_window_of(LEND_WINDOW_FIRST))
		lend_window_set(c, s, LEND_WINDOW_FIRST);
}

void lend_window_queue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t after = s->queue.tail;

	while (c->cfg.order != LEND_ORDER_FIFO && after != LEND_NONE &&
	       lend_call_at(c, after)->class > k->class)
		after = lend_call_at(c, after)->tx.ready.prev;
	k->waits = LEND_WAITS_WINDOW;
	lend_list_push_after(&s->queue, lend_links_ready(c), after, k->self);
	lend_window_set(c, s, s->window); /* our own share may be less by now */
}

void lend_window_leave_slow(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	if (k->waits == LEND_WAITS_WINDOW)
		lend_sched_remove(c, k);
	send_queued(c, s);
}
