#include "core/pace.h"

#include "core/sched.h"
#include "core/arena.h"

enum { SLOTS = 1024, SLOT_NS = 1024, WORDS = SLOTS / 64 };

struct wheel {
	uint64_t busy[WORDS]; /* bit by slot: it is not empty */
	struct lend_list slot[SLOTS];
};

static struct wheel *wheel_of(struct lend_core *c)
{
	return LEND_AT(c, at_pace, struct wheel);
}

size_t lend_pace_size(uint8_t congestion)
{
	bool waits = congestion == LEND_CC_TIMELY || congestion == LEND_CC_SWIFT;

	return waits ? sizeof(struct wheel) : 0;
}

void lend_pace_init(struct lend_core *c, lend_ns now)
{
	c->pace_tick = now / SLOT_NS;
	if (lend_pace_size(c->cfg.congestion) == 0)
		return;
	memset(wheel_of(c)->busy, 0, sizeof(wheel_of(c)->busy));
	for (uint32_t i = 0; i < SLOTS; i++)
		lend_list_init(&wheel_of(c)->slot[i]);
}

static void queue_session(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	s->pace_slot = slot;
	lend_list_push(&wheel_of(c)->slot[slot], lend_links_paced(c), lend_sess_index(c, s));
	wheel_of(c)->busy[slot / 64] |= UINT64_C(1) << (slot % 64);
	c->paced_n++;
}

void lend_pace_add(struct lend_core *c, struct lend_sess *s)
{
	uint64_t tick = s->pace / SLOT_NS + 1;

	if (s->paced.in)
		return;
	if (c->paced_n == 0)
		c->pace_tick = c->now / SLOT_NS;
	/* At least the first slot to come, at most the last one of the wheel. */
	tick = lend_min_u64(lend_max_u64(tick, c->pace_tick), c->pace_tick + SLOTS - 1);
	queue_session(c, s, (uint32_t)(tick % SLOTS));
}

void lend_pace_remove(struct lend_core *c, struct lend_sess *s)
{
	uint32_t slot = s->pace_slot;

	if (!s->paced.in)
		return;
	lend_list_remove(&wheel_of(c)->slot[slot], lend_links_paced(c), lend_sess_index(c, s));
	if (wheel_of(c)->slot[slot].n == 0)
		wheel_of(c)->busy[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
	c->paced_n--;
}

/* Returns the ticks from pace_tick to the first slot that is not empty. There is one. */
static uint32_t ticks_ahead(struct lend_core *c)
{
	uint32_t n = lend_bits_distance(wheel_of(c)->busy, WORDS, (uint32_t)(c->pace_tick % SLOTS));

	LEND_CHECK(n < SLOTS);
	return n;
}

lend_ns lend_pace_next(struct lend_core *c)
{
	return c->paced_n ? (c->pace_tick + ticks_ahead(c)) * SLOT_NS : LEND_NEVER;
}

static void fire_slot(struct lend_core *c, uint32_t slot)
{
	for (uint32_t n = wheel_of(c)->slot[slot].n; n > 0; n--) {
		struct lend_sess *s = lend_sess_at(c, wheel_of(c)->slot[slot].head);

		lend_pace_remove(c, s);
		if (s->pace > c->now)
			lend_pace_add(c, s); /* the session's time was beyond the wheel */
		else
			lend_sched_wake(c, s);
	}
}

void lend_pace_fire(struct lend_core *c)
{
	while (c->paced_n && lend_pace_next(c) <= c->now) {
		c->pace_tick += ticks_ahead(c) + 1;
		fire_slot(c, (uint32_t)((c->pace_tick - 1) % SLOTS));
	}
}
