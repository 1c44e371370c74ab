/* heavy_hitters - finds the peers that hold most of a table. Second half of table_share.h.
 * Layer: core (pure). */
#include "core/table_share.h"

#include "core/arena.h"

enum { STEP = 200 }; /* ns per partial message between two scans of the credit */

/* Adds n to a peer's count. When all counters are taken, n is subtracted from each (Misra and
 * Gries). */
static void count_peer(struct lend_fair *f, uint32_t peer, uint64_t n)
{
	uint64_t least = n;
	uint32_t i;

	for (i = 0; i < f->peers && f->peer[i] != peer; i++)
		least = lend_min_u64(least, f->n[i]);
	if (i == f->peers && i == LEND_FAIR_PEERS) {
		for (i = 0; i < f->peers; i++)
			f->n[i] -= least;
		for (i = 0; i < f->peers && f->n[i]; i++)
			continue;
		if (i == f->peers || n == least)
			return;
		f->peer[i] = peer;
		f->n[i] = n - least;
		return;
	}
	f->peers += i == f->peers;
	f->peer[i] = peer;
	f->n[i] += n;
}

/* Returns how much of a table a call holds. */
static uint64_t held_entries(const struct lend_call_rec *k, enum lend_fair_kind kind)
{
	switch (kind) {
	case LEND_FAIR_RECORDS:
		return k->server;
	case LEND_FAIR_FRAGS:
		return k->received && k->rx.frags != LEND_NONE;
	case LEND_FAIR_BUDGET:
		return k->received ? k->rx.charged : 0;
	case LEND_FAIR_CREDIT:
		return k->received ? k->rx.credit : 0;
	case LEND_FAIR_MEMORY:
		return k->server && k->received && k->rx.attached ? k->rx.len : 0;
	case LEND_FAIR_SESSIONS:
	case LEND_FAIR_KINDS:
		break;
	}
	return 0;
}

/* The session of an orphan may be closed: then the record belongs to no peer. */
const struct lend_sess *lend_fair_owner(struct lend_core *c, const struct lend_call_rec *k)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);

	return k->state != LEND_CALL_FREE && s->id == k->sess_id ? s : NULL;
}

static void scan_partials(struct lend_core *c, enum lend_fair_kind kind)
{
	struct lend_links l = lend_links_partial(c);
	uint32_t most = LEND_FAIR_SCAN_MAX;

	for (uint32_t i = c->partials.head; i != LEND_NONE && most > 0; most--) {
		const struct lend_call_rec *k = lend_call_at(c, i);
		uint64_t n = held_entries(k, kind);

		if (n)
			count_peer(&c->fair[kind], lend_sess_at(c, k->sess)->peer, n);
		i = lend_link_at(l, i)->next;
	}
}

static void scan_records(struct lend_core *c)
{
	uint32_t top = lend_pool_top(&c->free_calls), step = top / LEND_FAIR_SCAN_MAX + 1;

	for (uint32_t i = 0; i < top; i += step) {
		const struct lend_call_rec *k = lend_call_at(c, i);
		const struct lend_sess *s = lend_fair_owner(c, k);

		if (s && held_entries(k, LEND_FAIR_RECORDS))
			count_peer(&c->fair[LEND_FAIR_RECORDS], s->peer, step);
	}
}

/* Half-open sessions are left out: their addresses are unproven and may be forged. */
static void scan_sessions(struct lend_core *c)
{
	uint32_t top = lend_pool_top(&c->free_sess), step = top / LEND_FAIR_SCAN_MAX + 1;

	for (uint32_t i = 0; i < top; i += step) {
		const struct lend_sess *s = lend_sess_at(c, i);

		if (s->state != LEND_SESS_FREE && !s->half.in)
			count_peer(&c->fair[LEND_FAIR_SESSIONS], s->peer, step);
	}
}

static uint64_t size_of(const struct lend_core *c, enum lend_fair_kind kind)
{
	switch (kind) {
	case LEND_FAIR_RECORDS:
		return c->cfg.inflight;
	case LEND_FAIR_FRAGS:
		return c->free_frags.cap;
	case LEND_FAIR_BUDGET:
		return c->cfg.receive_budget;
	case LEND_FAIR_SESSIONS:
		return c->cfg.sessions;
	case LEND_FAIR_CREDIT:
	case LEND_FAIR_MEMORY:
	case LEND_FAIR_KINDS:
		break;
	}
	return c->memory;
}

uint32_t lend_fair_scan_after(const struct lend_core *c, enum lend_fair_kind kind)
{
	switch (kind) {
	case LEND_FAIR_RECORDS:
		return c->cfg.inflight / LEND_FAIR_FRACTION;
	case LEND_FAIR_BUDGET:
		return (uint32_t)lend_min_u64(c->cfg.receive_budget / LEND_FAIR_FRACTION,
					      UINT32_MAX);
	case LEND_FAIR_FRAGS:
		return c->free_frags.cap / LEND_FAIR_FRACTION;
	case LEND_FAIR_SESSIONS:
		return c->cfg.sessions / LEND_FAIR_FRACTION;
	case LEND_FAIR_CREDIT:
	case LEND_FAIR_MEMORY:
	case LEND_FAIR_KINDS:
		break;
	}
	return 0;
}

/* A table of fewer than 32 entries is scanned each time. */
bool lend_fair_scan(struct lend_core *c, enum lend_fair_kind kind)
{
	struct lend_fair *f = &c->fair[kind];

	if (kind == LEND_FAIR_BUDGET && f->due > 0 && c->now < f->until)
		return false;
	if (kind != LEND_FAIR_BUDGET && (f->due > 0 || c->now < f->until)) {
		f->due -= f->due > 0;
		return false;
	}
	memset(f, 0, sizeof(*f));
	f->due = lend_fair_scan_after(c, kind);
	if (kind == LEND_FAIR_CREDIT || kind == LEND_FAIR_BUDGET)
		f->until = c->now + (lend_ns)STEP * (c->partials.n + 32);
	if (kind == LEND_FAIR_SESSIONS)
		scan_sessions(c);
	else if (kind == LEND_FAIR_RECORDS)
		scan_records(c);
	else
		scan_partials(c, kind);
	return true;
}

uint64_t lend_fair_entries(const struct lend_fair *f, uint32_t peer)
{
	for (uint32_t i = 0; i < f->peers; i++)
		if (f->peer[i] == peer)
			return f->n[i];
	return 0;
}

void lend_fair_note_session(struct lend_core *c, uint32_t peer)
{
	count_peer(&c->fair[LEND_FAIR_SESSIONS], peer, 1);
}

bool lend_fair_is_over(const struct lend_core *c, enum lend_fair_kind kind, uint32_t peer)
{
	const struct lend_fair *f = &c->fair[kind];

	return lend_fair_entries(f, peer) * (f->peers + 1) > size_of(c, kind);
}

uint32_t lend_fair_most(const struct lend_fair *f, uint64_t *n)
{
	uint32_t most = LEND_NONE;

	*n = 0;
	for (uint32_t i = 0; i < f->peers; i++)
		if (f->n[i] > *n) {
			*n = f->n[i];
			most = f->peer[i];
		}
	return most;
}
