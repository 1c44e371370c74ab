#include "mn/store/hold.h"

#include <string.h>

#include "mn/store/space.h"
#include "mn/store/tenant.h"
#include "mn/store/undo_log.h"
#include "util/check.h"

enum { INDEX_MASK = (1 << 24) - 1, CLIENT_MASK = (1 << 16) - 1 };

static uint32_t *bucket_of(const struct lend_store *s, uint32_t object, uint32_t client)
{
	uint64_t h = ((uint64_t)client << 32 | object) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t *)lend_at(s, s->hold_buckets) + (h >> 32 & s->hold_mask);
}

uint32_t lend_hold_find(const struct lend_store *s, uint32_t object, uint32_t client)
{
	const struct lend_object *o = lend_object_at(s, object);
	uint32_t i = o->tie;

	/* Most objects have one hold, which needs no hash lookup. */
	if (i && lend_hold_at(s, i)->client == client)
		return i;
	if (o->holds == (i != 0))
		return 0;
	i = *bucket_of(s, object, client);
	while (i && (lend_hold_at(s, i)->object != object || lend_hold_at(s, i)->client != client))
		i = lend_hold_at(s, i)->chain;
	return i;
}

void lend_hold_link(struct lend_store *s, uint32_t hold)
{
	struct lend_hold *h = lend_hold_at(s, hold);
	struct lend_client *c = lend_client_at(s, h->client);
	struct lend_object *o = lend_object_at(s, h->object);

	if (o->tie) {
		uint32_t *b = bucket_of(s, h->object, h->client);

		h->chain = *b & INDEX_MASK;
		*b = hold;
	} else {
		o->tie = hold & INDEX_MASK;
	}
	h->prev = 0;
	h->next = c->holds & INDEX_MASK;
	if (c->holds)
		lend_hold_at(s, c->holds)->prev = hold & INDEX_MASK;
	c->holds = hold;
	o->holds++;
	lend_stake_add(s, h->object, c->tenant);
}

void lend_hold_add(struct lend_store *s, uint32_t object, uint32_t client)
{
	struct lend_hold *h;
	uint32_t i;

	LEND_TAKE(s, hold, i);
	LEND_CHECK(i);
	h = lend_hold_at(s, i);
	lend_undo_log(s, h);
	memset(h, 0, sizeof(*h));
	h->object = object & INDEX_MASK;
	h->client = client & CLIENT_MASK;
	lend_hold_link(s, i);
}

static void unchain_hold(struct lend_store *s, uint32_t hold)
{
	const struct lend_hold *h = lend_hold_at(s, hold);
	uint32_t *first = bucket_of(s, h->object, h->client), i = *first;

	if (i == hold) {
		*first = h->chain;
		return;
	}
	while (lend_hold_at(s, i)->chain != hold)
		i = lend_hold_at(s, i)->chain;
	lend_hold_at(s, i)->chain = h->chain;
}

void lend_hold_remove(struct lend_store *s, uint32_t hold)
{
	struct lend_hold *h = lend_hold_at(s, hold);
	struct lend_object *o = lend_object_at(s, h->object);

	if (o->tie == hold)
		o->tie = 0;
	else
		unchain_hold(s, hold);
	if (h->prev)
		lend_hold_at(s, h->prev)->next = h->next;
	else
		lend_client_at(s, h->client)->holds = h->next;
	if (h->next)
		lend_hold_at(s, h->next)->prev = h->prev;
	o->holds--;
	lend_stake_drop(s, h->object, lend_client_at(s, h->client)->tenant);
	lend_undo_log(s, h);
	h->object = h->client = 0;
	LEND_GIVE(s, hold, hold);
}

/* Returns the heap of grants by expiry: entry 0 expires first. */
static uint32_t *heap_of(const struct lend_store *s)
{
	return lend_at(s, s->heap);
}

static lend_ns heap_key(const struct lend_store *s, uint32_t place)
{
	return lend_grant_at(s, heap_of(s)[place])->expires;
}

static void heap_set(struct lend_store *s, uint32_t place, uint32_t grant)
{
	heap_of(s)[place] = grant;
	lend_grant_at(s, grant)->heap = place;
}

static void heap_swap(struct lend_store *s, uint32_t a, uint32_t b)
{
	uint32_t grant = heap_of(s)[a];

	heap_set(s, a, heap_of(s)[b]);
	heap_set(s, b, grant);
}

static void heap_settle(struct lend_store *s, uint32_t place)
{
	while (place > 0 && heap_key(s, place) < heap_key(s, (place - 1) / 2)) {
		heap_swap(s, place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * place + 1;

		if (child >= s->heap_n)
			return;
		if (child + 1 < s->heap_n && heap_key(s, child + 1) < heap_key(s, child))
			child++;
		if (heap_key(s, place) <= heap_key(s, child))
			return;
		heap_swap(s, place, child);
		place = child;
	}
}

void lend_grant_link(struct lend_store *s, uint32_t grant)
{
	struct lend_grant *g = lend_grant_at(s, grant);
	struct lend_object *o = lend_object_at(s, g->object);

	g->prev = 0;
	g->next = o->grants;
	if (o->grants)
		lend_grant_at(s, o->grants)->prev = grant;
	o->grants = grant;
	lend_stake_add(s, g->object, g->tenant);
	heap_set(s, s->heap_n, grant);
	s->heap_n++;
	heap_settle(s, s->heap_n - 1);
}

uint32_t lend_grant_add(struct lend_store *s, uint32_t object, uint8_t kind, uint32_t left,
			lend_ns expires, uint32_t tenant)
{
	struct lend_grant *g;
	uint32_t i;

	LEND_TAKE(s, grant, i);
	LEND_CHECK(i);
	g = lend_grant_at(s, i);
	lend_undo_log(s, &g->serial);
	*g = (struct lend_grant){.serial = ++s->serial,
				 .expires = expires,
				 .object = object,
				 .left = left,
				 .kind = kind,
				 .tenant = (uint16_t)tenant};
	lend_grant_link(s, i);
	return i;
}

uint32_t lend_grant_find(const struct lend_store *s, uint32_t grant, uint64_t serial)
{
	return grant && lend_grant_at(s, grant)->serial == serial ? grant : 0;
}

void lend_grant_remove(struct lend_store *s, uint32_t grant)
{
	struct lend_grant *g = lend_grant_at(s, grant);
	uint32_t place = g->heap;

	if (g->prev)
		lend_grant_at(s, g->prev)->next = g->next;
	else
		lend_object_at(s, g->object)->grants = g->next;
	if (g->next)
		lend_grant_at(s, g->next)->prev = g->prev;
	lend_stake_drop(s, g->object, g->tenant);
	s->heap_n--;
	if (place < s->heap_n) {
		heap_set(s, place, heap_of(s)[s->heap_n]);
		heap_settle(s, place);
	}
	lend_undo_log(s, &g->serial);
	g->serial = 0;
	LEND_GIVE(s, grant, grant);
}

uint32_t lend_grant_next(const struct lend_store *s, uint32_t object)
{
	uint32_t best = 0;

	for (uint32_t i = lend_object_at(s, object)->grants; i; i = lend_grant_at(s, i)->next) {
		const struct lend_grant *g = lend_grant_at(s, i);

		if (g->left && (!best || g->expires < lend_grant_at(s, best)->expires))
			best = i;
	}
	return best;
}

void lend_grant_use(struct lend_store *s, uint32_t grant)
{
	struct lend_grant *g = lend_grant_at(s, grant);

	LEND_CHECK(g->left > 0);
	lend_undo_log(s, &g->object); /* logs left, too, which follows it */
	g->left--;
	if (g->kind == LEND_TERMS_TRANSFER)
		lend_grant_remove(s, grant);
}

void lend_grant_revive(struct lend_store *s, uint32_t grant, lend_ns expires)
{
	struct lend_grant *g = lend_grant_at(s, grant);

	lend_undo_log(s, &g->object);
	g->left++;
	if (g->expires < expires) {
		lend_undo_log(s, &g->expires);
		g->expires = expires;
		heap_settle(s, g->heap);
	}
}

lend_ns lend_grant_deadline(const struct lend_store *s)
{
	return s->heap_n ? heap_key(s, 0) : LEND_NEVER;
}

void lend_grant_expire(struct lend_store *s, lend_ns now)
{
	while (lend_grant_deadline(s) <= now) {
		uint32_t grant = heap_of(s)[0];
		uint32_t object = lend_grant_at(s, grant)->object;

		lend_grant_remove(s, grant);
		s->counts.grants_expired++;
		lend_snapshot_end_unused(s, object);
		lend_undo_commit(s);
	}
}
