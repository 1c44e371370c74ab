#include "core/reorder.h"

enum { SKEW_ROUND = 64 }; /* late datagrams of which the largest extent counts */
#define LEAST     (1 * LEND_US)
#define FORGET    (5 * LEND_MS)   /* time without reordering after which the window decays */
#define LONGEST   (100 * LEND_MS) /* an extent above this is a pause, not reordering */
#define ALLOWANCE (50 * LEND_US)

lend_ns lend_reorder_limit(const struct lend_sess *s, const struct lend_reorder *r)
{
	lend_ns window = lend_max_u64(r->window, lend_max_u64(s->srtt / 4, LEAST));

	window = lend_min_u64(window, UINT64_C(8) * s->srtt + ALLOWANCE);
	return (r->trip ? r->trip : s->srtt) + window;
}

/* Notes how late a datagram came, for grant.h. */
static void note_skew(struct lend_grants *m, uint32_t extent)
{
	m->skew_most = lend_max_u32(m->skew_most, extent);
	if (++m->skew_n < SKEW_ROUND)
		return;
	m->skew = m->skew ? lend_min_u64(m->skew, m->skew_most) : m->skew_most;
	m->skew_most = m->skew_n = 0;
}

void lend_reorder_note(struct lend_core *c, struct lend_sess *s, lend_ns flew, bool in_time)
{
	struct lend_reorder *r = lend_reorder_of(c, s);
	lend_ns extent = flew > r->trip ? flew - r->trip : 0;

	if (extent < LONGEST)
		note_skew(&c->grants, (uint32_t)extent);
	extent += extent / 4;
	if (extent < LONGEST)
		r->window = lend_max_u32(r->window, (uint32_t)extent);
	if (2 * extent > r->window)
		r->at = c->now;
	if (in_time)
		return;
	LEND_COUNT(c, needless);
	if (!r->undo || ++r->needless < r->lost)
		return;
	s->cc.window = lend_max_u32(s->cc.window, r->undo);
	r->undo = 0;
}

void lend_reorder_lost(struct lend_core *c, struct lend_sess *s, uint32_t n)
{
	struct lend_reorder *r = lend_reorder_of(c, s);

	if (!r->undo || c->now - r->episode > UINT64_C(2) * s->srtt) {
		r->undo = s->cc.window;
		r->lost = r->needless = 0;
	}
	r->lost += n;
	r->episode = c->now;
}

void lend_reorder_keep(struct lend_core *c, const struct lend_sess *s)
{
	if (s->has_reorder)
		lend_peer_of(c, s)->reorder = (uint16_t)lend_min_u32(
		    lend_few_of(c, s)->reorder.window / LEND_REORDER_UNIT, UINT16_MAX);
}

void lend_reorder_decay(const struct lend_core *c, struct lend_reorder *r)
{
	if (!r->window || c->now - r->at < FORGET)
		return;
	r->window -= r->window / 8;
	r->at = c->now;
}

void lend_reorder_late(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_reorder *r = lend_reorder_of(c, s);
	uint64_t ahead = number - r->late_base;

	if (r->late_map == 0 || (number > r->late_base && ahead >= 64)) {
		r->late_base = number;
		r->late_map = 1;
	} else if (number > r->late_base) {
		r->late_map = r->late_map << ahead | 1;
		r->late_base = number;
	} else if (r->late_base - number < 64) {
		r->late_map |= UINT64_C(1) << (r->late_base - number);
	}
}

void lend_reorder_forget(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	struct lend_reorder *r = lend_reorder_of(c, s);

	c->grants.missing--; /* it is not lost, but will count as missing */
	if (number <= r->late_base && r->late_base - number < 64)
		r->late_map &= ~(UINT64_C(1) << (r->late_base - number));
}

void lend_reorder_found(struct lend_core *c, struct lend_sess *s, uint64_t number)
{
	if (number <= lend_reorder_of(c, s)->settled)
		c->grants.missing--;
}

/* Counts the numbers that are missing among those that are settled since the last report. They are
 * at most as many as arrived of granted messages: a peer that skips numbers must not slow down
 * the others. */
static void count_missing(struct lend_core *c, const struct lend_sess *s, struct lend_reorder *r)
{
	uint64_t end = s->seen - lend_min_u64(s->seen, LEND_REORDER_SETTLED), from = r->settled, i;
	uint32_t missing = 0;

	r->settled = lend_max_u64(end, from);
	if (from == 0)
		return;
	for (i = lend_max_u64(from + 1, s->seen - lend_min_u64(s->seen, 64)); i <= end; i++)
		missing += !(s->seen_map >> (s->seen - i - 1) & 1);
	missing = lend_min_u32(missing, r->came);
	r->came -= missing;
	c->grants.missing += missing;
}

void lend_reorder_report(struct lend_core *c, struct lend_sess *s, struct lend_pkt_seen *seen)
{
	struct lend_reorder *r = lend_reorder_of(c, s);
	uint64_t distance = s->seen - r->late_base;

	count_missing(c, s, r);

	if (r->late_map && distance > 64 && distance <= UINT16_MAX) {
		seen->acked |= distance << LEND_PKT_NUMBER_BITS;
		seen->map = r->late_map;
	}
	r->late_map = 0;
}
