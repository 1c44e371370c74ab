#include "core/timer.h"

#include "core/arena.h"

enum { LEVELS = 9, BITS = 6, SLOTS = 1 << BITS, TICK_BITS = 10 };
enum { DUE = LEVELS * SLOTS, LISTS }; /* DUE: list of expired timers, behind the slots */

/* The first entry of a list has no predecessor: its prev holds the list's number and this bit. */
#define FIRST (UINT32_C(1) << 31)

struct place {
	lend_ns at;    /* copy of the session's time: a move need not touch the session */
	uint32_t next; /* LEND_NONE: the last */
	uint32_t prev; /* LEND_NONE: on no list */
	uint32_t list; /* list that it is on; undefined if on none */
	uint32_t zero;
};

struct wheel {
	uint64_t tick;         /* all slots before it are empty */
	lend_ns next;          /* no timer is earlier */
	uint64_t busy[LEVELS]; /* bit by slot: it is not empty */
	uint32_t levels;       /* bit by level: one of its slots is not empty */
	uint32_t zero;
	/* By slot: no timer in it is earlier; valid while it is busy. LEND_NEVER for DUE, so that a
	 * new time always takes an entry off that list. */
	lend_ns first[LISTS];
	uint32_t head[LISTS]; /* LEND_NONE: empty */
	uint32_t zeros[1];
	struct place at[]; /* by session */
};
_Static_assert(offsetof(struct wheel, at) % 8 == 0, "no padding");
_Static_assert(sizeof(struct place) == 24, "no padding");

static struct wheel *wheel_of(const struct lend_core *c)
{
	return (struct wheel *)(void *)((uintptr_t)c + c->at_timers);
}

size_t lend_timer_size(uint32_t sessions)
{
	return sizeof(struct wheel) + sessions * sizeof(struct place);
}

void lend_timer_init(struct lend_core *c, lend_ns now)
{
	struct wheel *w = wheel_of(c);

	memset(w, 0, sizeof(*w));
	w->tick = now >> TICK_BITS;
	w->next = LEND_NEVER;
	memset(w->head, 0xff, sizeof(w->head));
	w->first[DUE] = LEND_NEVER;
	memset(w->at, 0xff, c->cfg.sessions * sizeof(w->at[0]));
	c->timers = 0;
}

/* Inserts entry i after prev: an entry of this list, or FIRST | list for its head. */
static void insert_after(struct wheel *w, uint32_t list, uint32_t prev, uint32_t i)
{
	uint32_t *link = prev & FIRST ? &w->head[list] : &w->at[prev].next;
	struct place *p = &w->at[i];

	p->list = list;
	p->next = *link;
	p->prev = prev;
	if (p->next != LEND_NONE)
		w->at[p->next].prev = i;
	*link = i;
}

static void mark_empty(struct wheel *w, uint32_t slot)
{
	w->busy[slot / SLOTS] &= ~(UINT64_C(1) << (slot % SLOTS));
	if (w->busy[slot / SLOTS] == 0)
		w->levels &= ~(UINT32_C(1) << (slot / SLOTS));
}

static void take_out(struct wheel *w, uint32_t i)
{
	struct place *p = &w->at[i];

	if (p->next != LEND_NONE)
		w->at[p->next].prev = p->prev;
	if (!(p->prev & FIRST)) {
		w->at[p->prev].next = p->next;
	} else {
		w->head[p->list] = p->next;
		if (p->next == LEND_NONE && p->list != DUE)
			mark_empty(w, p->list);
	}
	p->prev = LEND_NONE;
}

static void put_in(struct wheel *w, uint32_t i, lend_ns at)
{
	uint64_t tick = lend_max_u64(at >> TICK_BITS, w->tick), differs = tick ^ w->tick;
	uint32_t level = differs ? (63 - (uint32_t)__builtin_clzll(differs)) / BITS : 0;
	uint32_t slot = level * SLOTS + (uint32_t)(tick >> (level * BITS)) % SLOTS;
	uint64_t bit = UINT64_C(1) << (slot % SLOTS);

	w->at[i].at = at;
	w->first[slot] = w->busy[level] & bit ? lend_min_u64(w->first[slot], at) : at;
	w->busy[level] |= bit;
	w->levels |= UINT32_C(1) << level;
	w->next = lend_min_u64(w->next, at);
	insert_after(w, slot, FIRST | slot, i);
}

static __attribute__((noinline)) void move_entry(struct lend_core *c, struct wheel *w, uint32_t i,
						 lend_ns at)
{
	bool was_in = w->at[i].prev != LEND_NONE;

	if (was_in)
		take_out(w, i);
	if (at != LEND_NEVER)
		put_in(w, i, at);
	c->timers += (at != LEND_NEVER) - (uint32_t)was_in;
	if (c->timers == 0)
		w->next = LEND_NEVER; /* an endpoint without sessions has no deadline */
}

void lend_timer_fetch(const struct lend_core *c, uint32_t session)
{
	__builtin_prefetch(&wheel_of(c)->at[session], 1);
}

void lend_timer_set(struct lend_core *c, struct lend_sess *s, lend_ns at)
{
	struct wheel *w = wheel_of(c);
	uint32_t i = lend_sess_index(c, s);
	struct place *p = &w->at[i];

	s->timer = at;
	if (p->prev != LEND_NONE && at != LEND_NEVER && at >= w->first[p->list])
		p->at = at;
	else
		move_entry(c, w, i, at);
}

lend_ns lend_timer_next(const struct lend_core *c)
{
	return wheel_of(c)->next;
}

/* Empties a slot: due entries go after *last, later ones before *later. The newest entry is first
 * in the slot and last out of it, so that no session always goes first. */
static void empty_slot(const struct lend_core *c, struct wheel *w, uint32_t slot, uint32_t *last,
		       uint32_t *later)
{
	uint32_t i = w->head[slot], before = *last;

	w->head[slot] = LEND_NONE;
	mark_empty(w, slot);
	for (uint32_t next; i != LEND_NONE; i = next) {
		next = w->at[i].next;
		if (w->at[i].at > c->now) {
			w->at[i].next = *later;
			*later = i;
			continue;
		}
		insert_after(w, DUE, before, i);
		if (*last == before)
			*last = i;
	}
}

/* Returns the first slot of a level that is not empty. */
static uint32_t first_busy(const struct wheel *w, uint32_t level)
{
	return level * SLOTS + (uint32_t)__builtin_ctzll(w->busy[level]);
}

/* Moves due entries to the list DUE and the wheel to the current tick. Entries after the new tick's
 * slot in a level are later than now, so they are where an insertion would put them now, or in a
 * coarser slot. Entries that must move are inserted after all passed slots are empty: within a
 * level, the slots of the new tick may precede those of the old one. */
static void collect_due(const struct lend_core *c, struct wheel *w)
{
	uint32_t last = FIRST | DUE, later = LEND_NONE;

	w->tick = lend_max_u64(w->tick, c->now >> TICK_BITS);
	w->next = LEND_NEVER;
	for (uint32_t level = 0; level < LEVELS; level++)
		while (w->busy[level] && w->first[first_busy(w, level)] <= c->now)
			empty_slot(c, w, first_busy(w, level), &last, &later);
	for (uint32_t i = later, next; i != LEND_NONE; i = next) {
		next = w->at[i].next;
		put_in(w, i, w->at[i].at);
	}
	for (uint32_t left = w->levels; left; left &= left - 1)
		w->next =
		    lend_min_u64(w->next, w->first[first_busy(w, (uint32_t)__builtin_ctz(left))]);
}

struct lend_sess *lend_timer_due(struct lend_core *c)
{
	struct wheel *w = wheel_of(c);
	struct lend_sess *s;

	if (w->head[DUE] == LEND_NONE) {
		if (w->next > c->now)
			return NULL;
		collect_due(c, w);
		if (w->head[DUE] == LEND_NONE)
			return NULL;
	}
	s = lend_sess_at(c, w->head[DUE]);
	take_out(w, w->head[DUE]);
	c->timers--;
	if (w->head[DUE] != LEND_NONE) /* fetch the next session while this one is handled */
		lend_sess_fetch(c, w->head[DUE]);
	return s;
}

/* Adds the number of entries of one list to *n. Returns false if the list is broken. */
static bool list_holds(struct lend_core *c, const struct wheel *w, uint32_t list, uint32_t *n)
{
	uint32_t prev = FIRST | list;

	for (uint32_t i = w->head[list]; i != LEND_NONE; i = w->at[i].next) {
		lend_ns at = w->at[i].at;

		if (i >= c->cfg.sessions || w->at[i].prev != prev || ++*n > c->cfg.sessions ||
		    at != lend_sess_at(c, i)->timer)
			return false;
		if (list != DUE && (at < w->first[list] || at < w->next))
			return false;
		prev = i;
	}
	return true;
}

const char *lend_timer_audit(struct lend_core *c)
{
	const struct wheel *w = wheel_of(c);
	uint32_t n = 0;

	for (uint32_t list = 0; list < LISTS; list++) {
		bool busy = list != DUE && w->busy[list / SLOTS] >> (list % SLOTS) & 1;

		if (list != DUE && busy != (w->head[list] != LEND_NONE))
			return "a slot of the timers is busy, or not, and should not be";
		if (!list_holds(c, w, list, &n))
			return "a list of timers is broken, or somebody is too early for it";
	}
	return n == c->timers ? NULL : "timers are miscounted";
}
