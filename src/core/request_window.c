#include "core/request_window.h"

#include "core/arena.h"
#include "core/grant.h"

enum {
	RECORDS_NUM = 3, /* share of the records; the rest is for unacknowledged replies */
	RECORDS_DEN = 4,
	RAISE = 2,  /* largest window above an equal share, as a multiple of the slots in use */
	RECENT = 8, /* datagrams per slot of a level, during which the level counts as used */
};

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

/* Divides the capacity among n sessions: max-min fairness. Returns the share of those that would
 * use more. */
static uint64_t divide_fairly(const struct lend_core *c, uint64_t capacity, uint64_t n)
{
	for (uint32_t i = 0;
	     i < LEND_WINDOW_LEVELS && n > c->levels[i].n && capacity / n > UINT64_C(1) << i; i++) {
		capacity -= (uint64_t)c->levels[i].n << i;
		n -= c->levels[i].n;
	}
	return capacity / n;
}

static uint8_t share_code(const struct lend_core *c, uint64_t share)
{
	return share < c->cfg.calls ? lend_window_code(lend_max_u64(share, 1)) : LEND_WINDOW_OPEN;
}

/* Only the levels between the equal share and the fair one have a code of their own: this runs for
 * every few calls where sessions make one each. */
static void set_shares(const struct lend_core *c, uint64_t capacity, uint32_t n, uint8_t code[])
{
	uint64_t fair, equal = capacity / n;
	uint8_t least, most;

	if (equal >= c->cfg.calls) { /* the fair share is no less */
		memset(code, LEND_WINDOW_OPEN, LEND_WINDOW_LEVELS);
		return;
	}
	fair = divide_fairly(c, capacity, n);
	equal = lend_min_u64(equal, fair);
	least = share_code(c, equal);
	most = share_code(c, fair);
	for (uint32_t i = 0; i < LEND_WINDOW_LEVELS; i++) {
		uint64_t share = (uint64_t)RAISE << i;

		code[i] = least;
		if (share > equal)
			code[i] = share < fair ? share_code(c, share) : most;
	}
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

/* Computes the shares, valid until a level has an eighth more sessions, or a quarter fewer. */
void lend_window_divide(struct lend_core *c)
{
	uint64_t records = (uint64_t)c->cfg.inflight * RECORDS_NUM / RECORDS_DEN;
	uint64_t room = room_of(c);
	uint32_t busy = 0;

	c->shares_old = 0;
	for (struct lend_window_level *l = c->levels; l < c->levels + LEND_WINDOW_LEVELS; l++) {
		uint32_t fewer = lend_min_u32(l->n, l->n / 4 + 1);

		l->low = l->n - fewer;
		l->span = fewer + l->n / 8;
		busy += l->n;
	}
	set_shares(c, lend_min_u64(records, room), lend_max_u32(busy, 1), c->share_sent);
	set_shares(c, room, lend_max_u32(busy, 1), c->share_own);
}

static void change_level(struct lend_core *c, struct lend_sess *s, uint32_t level)
{
	bool busy = s->calls > 0 || s->lingers;

	if (busy)
		lend_window_busy(c, s, false);
	s->level = (uint8_t)level;
	if (busy)
		lend_window_busy(c, s, true);
}

void lend_window_raise(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	change_level(c, s, 32 - (uint32_t)__builtin_clz(slot));
}

/* Returns whether the lowest slot that only this level and higher ones use was used lately. It is
 * the one used most, because a caller takes the lowest free slot. */
static bool is_level_used(struct lend_core *c, const struct lend_sess *s, uint32_t level)
{
	uint32_t slot = 1u << (level - 1), i = lend_sess_index(c, s);

	return (slot < s->sslots &&
		lend_sslot_at(c, i, slot)->number + ((uint64_t)RECENT << level) > s->seen) ||
	       (slot < s->cslots && lend_cslot_at(c, i, slot)->rec != LEND_NONE);
}

void lend_window_lower(struct lend_core *c, struct lend_sess *s)
{
	uint32_t level = s->level;

	while (level && !is_level_used(c, s, level))
		level--;
	if (level < s->level)
		change_level(c, s, level);
}

void lend_window_open(struct lend_sess *s)
{
	lend_list_init(&s->queue);
	s->window = s->lossless ? LEND_WINDOW_OPEN : LEND_WINDOW_FIRST;
	s->room = (int16_t)lend_window_of(s->window);
}

void lend_window_set(struct lend_core *c, struct lend_sess *s, uint8_t code)
{
	if (c->shares_old)
		lend_window_divide(c);
	if (lend_window_of(c->share_own[s->level]) < lend_window_of(code))
		code = c->share_own[s->level];
	s->room =
	    (int16_t)(s->room + (int32_t)lend_window_of(code) - (int32_t)lend_window_of(s->window));
	s->window = code;
	lend_peer_wait(c, s);
}

void lend_window_shrink_idle(struct lend_core *c, struct lend_sess *s)
{
	if (!s->lossless && lend_window_of(s->window) > lend_window_of(LEND_WINDOW_FIRST))
		lend_window_set(c, s, LEND_WINDOW_FIRST);
}

/* Returns whether a new call is sent before this one, which waits: it is of a more urgent class and
 * has not waited for a second per class of the difference. */
static bool may_overtake(const struct lend_core *c, const struct lend_call_rec *k,
			 const struct lend_call_rec *waits)
{
	return waits->class > k->class &&
	       c->now - waits->stamp < (waits->class - k->class) * LEND_GRANTS_CLASS_NS;
}

void lend_window_queue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t after = s->queue.tail;

	while (c->cfg.order != LEND_ORDER_FIFO && after != LEND_NONE &&
	       may_overtake(c, k, lend_call_at(c, after)))
		after = lend_call_at(c, after)->tx.ready.prev;
	k->waits = LEND_WAITS_WINDOW;
	k->stamp = c->now;
	lend_list_push_after(&s->queue, lend_links_ready(c), after, k->self);
	lend_window_set(c, s, s->window); /* our own share may be less by now */
}

void lend_window_requeue(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	uint32_t before = LEND_NONE, i = s->queue.head;

	for (; i != LEND_NONE && lend_call_at(c, i)->class < k->class;
	     i = lend_call_at(c, i)->tx.ready.next)
		before = i;
	k->waits = LEND_WAITS_WINDOW;
	lend_list_push_after(&s->queue, lend_links_ready(c), before, k->self);
}

void lend_window_leave_slow(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	if (k->waits == LEND_WAITS_WINDOW)
		lend_sched_remove(c, k);
	lend_peer_wait(c, s);
}
