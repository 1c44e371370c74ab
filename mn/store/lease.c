#include "mn/store/lease.h"

#include <string.h>

#include "mn/store/frame.h"
#include "mn/store/frame_alloc.h"
#include "mn/store/hold.h"
#include "mn/store/space.h"
#include "mn/store/page_tree.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"
#include "util/siphash.h"

static uint32_t *bucket_of(const struct lend_store *s, uint64_t life, uint32_t number)
{
	uint64_t h = (life ^ (uint64_t)number << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t *)lend_at(s, s->client_buckets) + (h >> 32 & s->client_mask);
}

uint32_t lend_client_find(const struct lend_store *s, uint64_t life, uint32_t number)
{
	for (uint32_t i = *bucket_of(s, life, number); i; i = lend_client_at(s, i)->chain)
		if (lend_client_at(s, i)->number == number && lend_client_at(s, i)->life == life)
			return i;
	return 0;
}

uint32_t lend_life_find(const struct lend_store *s, uint64_t life)
{
	for (uint32_t i = 1; life && i <= s->incarnation.top; i++)
		if (lend_incarnation_at(s, i)->life == life)
			return i;
	return 0;
}

/* Derives the key from a secret other than the key that signs references. */
void lend_life_key(const struct lend_store *s, uint32_t incarnation, uint8_t key[LEND_MEMOP_KEY])
{
	static const char label[] = "lend life";
	const struct lend_incarnation *inc = lend_incarnation_at(s, incarnation);
	uint8_t secret[16], what[16 + 8];

	lend_siphash128(s->config.key, label, sizeof(label), secret);
	memcpy(what, inc->id, 16);
	lend_store_u64(what + 16, inc->life);
	lend_siphash128(secret, what, sizeof(what), key);
}

uint32_t lend_life_of_hello(const struct lend_store *s, const struct lend_store_peer *peer,
			    const struct lend_memop *hello)
{
	uint8_t key[LEND_MEMOP_KEY], proof[LEND_MEMOP_KEY];
	uint32_t i = lend_life_find(s, hello->life);

	if (!i)
		return 0;
	lend_life_key(s, i, key);
	lend_memop_proof(key, peer->context, hello, proof);
	if (!lend_equal_ct(proof, hello->proof, sizeof(proof)))
		return 0;
	return memcmp(lend_incarnation_at(s, i)->id, peer->incarnation, 16) ? 0 : i;
}

static uint32_t open_life(struct lend_store *s, const struct lend_store_peer *peer)
{
	uint32_t i;

	LEND_TAKE(s, incarnation, i);
	if (i) {
		struct lend_incarnation *inc = lend_incarnation_at(s, i);

		memset(inc, 0, sizeof(*inc));
		memcpy(inc->id, peer->incarnation, 16);
		inc->tenant = peer->tenant;
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

void lend_record_use(struct lend_store *s, uint32_t client, const struct lend_record *r)
{
	struct lend_client *c = lend_client_at(s, client);

	c->records = lend_max_u32(c->records, (uint32_t)(r - lend_record_at(s, client, 0)) + 1);
	lend_undo_log(s, &r->id);
}

void lend_client_link(struct lend_store *s, uint32_t client)
{
	struct lend_client *c = lend_client_at(s, client);
	struct lend_incarnation *inc = lend_incarnation_at(s, c->incarnation);
	uint32_t *b = bucket_of(s, c->life, c->number);

	c->chain = *b;
	*b = client;
	c->prev = 0;
	c->next = inc->clients;
	if (c->next)
		lend_client_at(s, c->next)->prev = client;
	inc->clients = client;
	lend_tenant_at(s, c->tenant)->use.clients++;
}

/* Returns whether a process may not open more clients. When less than a quarter of the table is
 * free, a process may have, in all its lives, as many clients as are free. A process is identified
 * by its incarnation; only quotas limit one that sends several. */
static bool has_its_share(const struct lend_store *s, const uint8_t incarnation[16])
{
	uint32_t room = lend_table_room(&s->client), n = 0;

	if (s->client.cap < 16 || room > s->client.cap / 4)
		return false;
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		const struct lend_incarnation *inc = lend_incarnation_at(s, i);
		uint32_t c = inc->life ? inc->clients : 0;

		if (memcmp(inc->id, incarnation, 16) != 0)
			continue;
		for (; c && n <= room; c = lend_client_at(s, c)->next)
			n++;
	}
	return n > room;
}

uint32_t lend_client_open(struct lend_store *s, lend_ns now, const struct lend_store_peer *peer,
			  uint32_t incarnation, uint32_t number)
{
	uint32_t tenant = incarnation ? lend_incarnation_at(s, incarnation)->tenant : peer->tenant;
	struct lend_tenant *payer = lend_tenant_at(s, tenant);
	uint32_t inc = incarnation, i = 0;
	struct lend_client *c;

	if (inc)
		i = lend_client_find(s, lend_incarnation_at(s, inc)->life, number);
	if (i)
		return i;
	if (payer->use.clients >= payer->quota.clients) {
		s->counts.over_quota++;
		return 0;
	}
	if (lend_table_room(&s->client) == 0 || has_its_share(s, peer->incarnation))
		return 0;
	if (!inc)
		inc = open_life(s, peer);
	if (!inc)
		return 0;
	LEND_TAKE(s, client, i);
	LEND_CHECK(i);
	c = lend_client_at(s, i);
	memset(lend_record_at(s, i, 0), 0, c->records * sizeof(struct lend_record));
	lend_undo_fence();
	memset(c, 0, sizeof(*c));
	c->life = lend_incarnation_at(s, inc)->life;
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
	uint32_t *at = bucket_of(s, c->life, c->number);

	c->live = 0;
	lend_undo_fence();
	while (c->holds) {
		uint32_t object = lend_hold_at(s, c->holds)->object;

		lend_hold_remove(s, c->holds);
		lend_snapshot_end_unused(s, object);
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

void lend_client_drop_records(struct lend_store *s, uint32_t client, uint64_t low)
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
	/* Other renewals only move away from lease_next: it stays a lower bound. */
	s->lease_next = lend_min_u64(s->lease_next, inc->expires);
}

static void end_life(struct lend_store *s, uint32_t incarnation)
{
	struct lend_incarnation *inc = lend_incarnation_at(s, incarnation);

	inc->life = 0; /* first, so that a kill in between ends all clients, too */
	lend_undo_fence();
	while (inc->clients)
		lend_client_close(s, inc->clients);
}

void lend_store_hangup(struct lend_store *store, uint64_t life)
{
	uint32_t i = lend_life_find(store, life);

	if (!i)
		return;
	store->free_budget = store->config.reap;
	end_life(store, i);
	store->counts.hangups++;
}

/* Extends all leases after a pause of the node itself, when it could not receive: by the lost time,
 * and by some more for the next operations to arrive. */
static void forgive_pause(struct lend_store *s, lend_ns lost)
{
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		if (lend_incarnation_at(s, i)->life)
			lend_incarnation_at(s, i)->expires += lost;
	s->counts.pauses++;
}

static void expire_leases(struct lend_store *s, lend_ns now)
{
	s->lease_next = LEND_NEVER;
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		struct lend_incarnation *inc = lend_incarnation_at(s, i);

		if (!inc->life)
			continue;
		if (inc->expires <= now) {
			end_life(s, i);
			s->counts.leases_expired++;
		} else {
			s->lease_next = lend_min_u64(s->lease_next, inc->expires);
		}
	}
}

void lend_store_tick(struct lend_store *store, lend_ns now)
{
	store->free_budget = store->config.reap;
	lend_free_end_quarantine(store, now);
	lend_tree_free_dropped(store);
	lend_grant_expire(store, now);
	lend_frame_clean(store, now);
	if (now < store->lease_next)
		return;
	if (now - store->lease_next > store->config.late)
		forgive_pause(store, now - store->lease_next + store->config.late);
	expire_leases(store, now);
}

lend_ns lend_store_deadline(const struct lend_store *store)
{
	lend_ns at = lend_min_u64(lend_grant_deadline(store), store->lease_next);

	return store->dying ? 0 : lend_min_u64(at, lend_frame_clean_deadline(store));
}
