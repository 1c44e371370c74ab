#include "mn/store/admin_list.h"

#include <string.h>

#include "mn/store/hold.h"
#include "mn/store/space.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"

static lend_ns last_grant(const struct lend_store *s, uint32_t object)
{
	lend_ns last = 0;

	for (uint32_t g = lend_object_at(s, object)->grants; g; g = lend_grant_at(s, g)->next)
		last = lend_max_u64(last, lend_grant_at(s, g)->expires);
	return last;
}

static uint32_t count_grants(const struct lend_store *s, uint32_t object)
{
	uint32_t n = 0;

	for (uint32_t g = lend_object_at(s, object)->grants; g; g = lend_grant_at(s, g)->next)
		n++;
	return n;
}

static void describe_object(const struct lend_store *s, uint32_t slot, struct lend_list_object *out)
{
	const struct lend_object *o = lend_object_at(s, slot);
	const struct lend_client *c;

	*out = (struct lend_list_object){.slot = slot,
					 .serial = o->serial,
					 .len = o->len,
					 .is_space = o->kind == LEND_OBJECT_SPACE,
					 .expires = LEND_NEVER};
	if (!out->is_space) {
		out->holds = o->holds;
		out->grants = count_grants(s, slot);
		if (!o->holds)
			out->expires = last_grant(s, slot);
		return;
	}
	c = lend_client_at(s, o->client);
	out->number = c->number;
	memcpy(out->owner, lend_incarnation_at(s, c->incarnation)->id, sizeof(out->owner));
}

uint32_t lend_store_list(const struct lend_store *store, uint32_t *slot,
			 struct lend_list_object *out, uint32_t n)
{
	uint32_t i = *slot ? *slot : 1, seen = 0, found = 0;

	for (; i <= store->object.top && seen < LEND_LIST_STEP && found < n; i++, seen++) {
		const struct lend_object *o = lend_object_at(store, i);

		if (o->serial && o->kind <= LEND_OBJECT_SPACE)
			describe_object(store, i, &out[found++]);
	}
	*slot = i <= store->object.top ? i : 0;
	return found;
}

static void describe_client(const struct lend_store *s, uint32_t client, lend_ns now,
			    struct lend_list_client *out)
{
	const struct lend_client *c = lend_client_at(s, client);
	const struct lend_incarnation *inc = lend_incarnation_at(s, c->incarnation);

	out->number = c->number;
	out->life = inc->life;
	out->lease = inc->expires > now ? inc->expires - now : 0;
	memcpy(out->process, inc->id, sizeof(out->process));
}

/* First fills in the names of the clients, then counts holds and objects of the clients that still
 * exist. */
void lend_store_list_clients(const struct lend_store *store, lend_ns now, uint32_t *at,
			     struct lend_list_client *out)
{
	uint32_t end = *at + LEND_LIST_STEP, i = *at;

	if (i == 0)
		for (uint32_t c = 1; c <= store->client.top; c++)
			if (lend_client_at(store, c)->live)
				describe_client(store, c, now, &out[c]);
	for (; i < end && i < store->hold.top; i++) {
		const struct lend_hold *h = lend_hold_at(store, i + 1);

		if (!h->object)
			continue;
		out[h->client].holds++;
		out[h->client].bytes += lend_object_at(store, h->object)->len;
	}
	for (; i >= store->hold.top && i < end && i - store->hold.top < store->object.top; i++) {
		const struct lend_object *o = lend_object_at(store, i - store->hold.top + 1);

		if (!o->serial || o->kind != LEND_OBJECT_SPACE)
			continue;
		out[o->client].spaces++;
		out[o->client].bytes += o->len;
	}
	*at = i - store->hold.top < store->object.top || i < store->hold.top ? i : 0;
}

static void drop_holds(struct lend_store *s, uint32_t slot)
{
	for (uint32_t i = 1; i <= s->hold.top && lend_object_at(s, slot)->holds; i++)
		if (lend_hold_at(s, i)->object == slot) {
			lend_hold_remove(s, i);
			lend_undo_commit(s);
		}
}

bool lend_store_evict(struct lend_store *store, uint32_t slot, uint64_t serial)
{
	uint32_t object = lend_object_find(store, slot, serial, LEND_OBJECT_SPACE);

	store->free_budget = store->config.reap;
	if (object) {
		lend_space_end(store, object);
		lend_undo_commit(store);
		return true;
	}
	object = lend_object_find(store, slot, serial, LEND_OBJECT_SNAPSHOT);
	if (!object)
		return false;
	while (lend_object_at(store, object)->grants) {
		lend_grant_remove(store, lend_object_at(store, object)->grants);
		lend_undo_commit(store);
	}
	drop_holds(store, object);
	lend_snapshot_end_unused(store, object);
	lend_undo_commit(store);
	return true;
}

bool lend_store_evict_process(struct lend_store *store, const uint8_t process[16])
{
	bool found = false;

	for (uint32_t i = 1; i <= store->incarnation.top; i++) {
		const struct lend_incarnation *inc = lend_incarnation_at(store, i);

		if (!inc->life || memcmp(inc->id, process, sizeof(inc->id)) != 0)
			continue;
		lend_store_hangup(store, inc->life);
		found = true;
	}
	return found;
}
