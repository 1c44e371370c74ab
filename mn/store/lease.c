#include "mn/store/lease.h"

#include <string.h>

#include "mn/store/frame.h"
#include "mn/store/free.h"
#include "mn/store/hold.h"
#include "mn/store/space.h"
#include "mn/store/tree.h"
#include "mn/store/undo.h"
#include "util/bits.h"
#include "util/check.h"

static uint32_t *bucket(const struct lend_store *s, const uint8_t incarnation[16], uint32_t number)
{
	uint64_t h = (lend_load_u64(incarnation) ^ number) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t *)lend_at(s, s->client_buckets) + (h >> 32 & s->client_mask);
}

static uint32_t find(const struct lend_store *s, const uint8_t incarnation[16], uint32_t number)
{
	for (uint32_t i = *bucket(s, incarnation, number); i; i = lend_client_at(s, i)->chain) {
		const struct lend_client *c = lend_client_at(s, i);

		if (c->number == number &&
		    !memcmp(lend_incarnation_at(s, c->incarnation)->id, incarnation, 16))
			return i;
	}
	return 0;
}

uint32_t lend_client_find(const struct lend_store *s, const uint8_t incarnation[16],
			  uint32_t number, uint32_t life)
{
	uint32_t i = find(s, incarnation, number);

	if (i && lend_incarnation_at(s, lend_client_at(s, i)->incarnation)->life != life)
		return 0;
	return i;
}

static uint32_t find_incarnation(const struct lend_store *s, const uint8_t incarnation[16])
{
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		if (lend_incarnation_at(s, i)->life &&
		    !memcmp(lend_incarnation_at(s, i)->id, incarnation, 16))
			return i;
	return 0;
}

bool lend_tenant_owns(const struct lend_store *s, uint32_t tenant, const uint8_t incarnation[16])
{
	uint32_t i = find_incarnation(s, incarnation);

	return !i || lend_incarnation_at(s, i)->tenant == tenant;
}

static uint32_t open_incarnation(struct lend_store *s, const uint8_t incarnation[16],
				 uint32_t tenant)
{
	uint32_t i = find_incarnation(s, incarnation);

	if (i || s->life == UINT32_MAX)
		return i;
	LEND_TAKE(s, incarnation, i);
	if (i) {
		struct lend_incarnation *inc = lend_incarnation_at(s, i);

		memset(inc, 0, sizeof(*inc));
		memcpy(inc->id, incarnation, 16);
		inc->tenant = tenant;
		s->life++;
		lend_undo_fence();
		inc->life = s->life;
	}
	return i;
}

struct lend_record *lend_record_at(const struct lend_store *s, uint32_t client, uint64_t id)
{
	struct lend_record *r = lend_at(s, s->records);

	return r + (uint64_t)(client - 1) * s->config.open + (id & (s->config.open - 1));
}

void lend_client_link(struct lend_store *s, uint32_t client)
{
	struct lend_client *c = lend_client_at(s, client);
	struct lend_incarnation *inc = lend_incarnation_at(s, c->incarnation);
	uint32_t *b = bucket(s, inc->id, c->number);

	c->chain = *b;
	*b = client;
	c->prev = 0;
	c->next = inc->clients;
	if (c->next)
		lend_client_at(s, c->next)->prev = client;
	inc->clients = client;
	lend_tenant_at(s, c->tenant)->use.clients++;
}

uint32_t lend_client_open(struct lend_store *s, lend_ns now, const uint8_t incarnation[16],
			  uint32_t number, uint32_t tenant)
{
	uint32_t inc, i = find(s, incarnation, number);
	struct lend_tenant *payer = lend_tenant_at(s, tenant);
	struct lend_client *c;

	if (i)
		return i;
	if (payer->use.clients >= payer->quota.clients) {
		s->counts.over_quota++;
		return 0;
	}
	if (lend_table_room(&s->client) == 0)
		return 0;
	inc = open_incarnation(s, incarnation, tenant);
	if (!inc)
		return 0;
	LEND_TAKE(s, client, i);
	LEND_CHECK(i);
	c = lend_client_at(s, i);
	memset(c, 0, sizeof(*c));
	memset(lend_record_at(s, i, 0), 0, s->config.open * sizeof(struct lend_record));
	c->incarnation = inc;
	c->number = number;
	c->tenant = tenant;
	lend_undo_fence();
	c->live = 1;
	lend_client_link(s, i);
	lend_lease_renew(s, now, inc);
	return i;
}

void lend_client_close(struct lend_store *s, uint32_t client)
{
	struct lend_client *c = lend_client_at(s, client);
	struct lend_incarnation *inc = lend_incarnation_at(s, c->incarnation);
	uint32_t *at = bucket(s, inc->id, c->number);

	c->live = 0;
	lend_undo_fence();
	while (c->holds) {
		uint32_t object = lend_hold_at(s, c->holds)->object;

		lend_hold_remove(s, c->holds);
		lend_snapshot_settle(s, object);
		lend_undo_commit(s);
	}
	while (c->spaces) {
		lend_space_end(s, c->spaces);
		lend_undo_commit(s);
	}
	while (*at != client)
		at = &lend_client_at(s, *at)->chain;
	*at = c->chain;
	if (c->prev)
		lend_client_at(s, c->prev)->next = c->next;
	else
		inc->clients = c->next;
	if (c->next)
		lend_client_at(s, c->next)->prev = c->prev;
	lend_tenant_at(s, c->tenant)->use.clients--;
	if (!inc->clients) {
		inc->life = 0;
		LEND_GIVE(s, incarnation, c->incarnation);
	}
	LEND_GIVE(s, client, client);
}

void lend_client_low(struct lend_store *s, uint32_t client, uint64_t low)
{
	struct lend_client *c = lend_client_at(s, client);
	uint64_t n;

	if (low <= c->low)
		return;
	n = lend_min_u64(low - c->low, s->config.open);
	for (uint64_t id = low - n; id < low; id++)
		lend_record_at(s, client, id)->id = 0;
	lend_undo_fence();
	c->low = low;
}

void lend_lease_renew(struct lend_store *s, lend_ns now, uint32_t incarnation)
{
	struct lend_incarnation *inc = lend_incarnation_at(s, incarnation);

	inc->expires = lend_max_u64(inc->expires, now + s->config.lease);
	/* Others' renewals only move away from lease_next: it stays a lower bound. */
	s->lease_next = lend_min_u64(s->lease_next, inc->expires);
}

static void end(struct lend_store *s, uint32_t incarnation)
{
	struct lend_incarnation *inc = lend_incarnation_at(s, incarnation);

	inc->life = 0; /* so that all go, should the node be killed meanwhile */
	lend_undo_fence();
	while (inc->clients)
		lend_client_close(s, inc->clients);
}

void lend_store_hangup(struct lend_store *store, const uint8_t incarnation[16])
{
	uint32_t i = find_incarnation(store, incarnation);

	if (!i)
		return;
	store->spade = store->config.reap;
	end(store, i);
	store->counts.hangups++;
}

/* A node that was itself away cannot tell who was silent: everybody gets the lost time back, and
 * some more to be heard. */
static void forgive(struct lend_store *s, lend_ns lost)
{
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		if (lend_incarnation_at(s, i)->life)
			lend_incarnation_at(s, i)->expires += lost;
	s->counts.pauses++;
}

static void expire(struct lend_store *s, lend_ns now)
{
	s->lease_next = LEND_NEVER;
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		struct lend_incarnation *inc = lend_incarnation_at(s, i);

		if (!inc->life)
			continue;
		if (inc->expires <= now) {
			end(s, i);
			s->counts.leases_expired++;
		} else {
			s->lease_next = lend_min_u64(s->lease_next, inc->expires);
		}
	}
}

void lend_store_tick(struct lend_store *store, lend_ns now)
{
	store->spade = store->config.reap;
	lend_free_wake(store, now);
	lend_tree_reap(store);
	lend_grant_expire(store, now);
	if (now < store->lease_next)
		return;
	if (now - store->lease_next > store->config.late)
		forgive(store, now - store->lease_next + store->config.late);
	expire(store, now);
}

lend_ns lend_store_deadline(const struct lend_store *store)
{
	return store->dying ? 0 : lend_min_u64(lend_grant_deadline(store), store->lease_next);
}
