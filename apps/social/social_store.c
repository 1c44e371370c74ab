/* social_store - see social_store.h. */
#include "apps/social/store_kind.h"

#include <stdio.h>
#include <string.h>

#include "apps/social/social.h"

static struct store *stores;

void store_get(struct store *store, const char *const key[], size_t n, store_done_fn *done,
	       void *arg)
{
	store->counters->store_ops++;
	store->kind->get(store, key, n, done, arg);
}

void store_put(struct store *store, const char *key, struct store_bytes value, bool only_new,
	       store_done_fn *done, void *arg)
{
	store->counters->store_ops++;
	store->kind->put(store, key, value, only_new, done, arg);
}

void store_push(struct store *store, const char *const key[], size_t n, int64_t member,
		int64_t score, store_done_fn *done, void *arg)
{
	store->counters->store_ops++;
	store->kind->push(store, key, n, member, score, done, arg);
}

void store_range(struct store *store, const char *key, size_t first, size_t count,
		 enum store_order order, store_done_fn *done, void *arg)
{
	store->counters->store_ops++;
	store->kind->range(store, key, first, count, order, done, arg);
}

void store_pull(struct store *store, const char *key, int64_t member, store_done_fn *done,
		void *arg)
{
	store->counters->store_ops++;
	store->kind->pull(store, key, member, done, arg);
}

/* Returns the role with this name; tests have stores of other names. */
static unsigned role_of(const char *name)
{
	unsigned role = 0;

	while (role < SOCIAL_ROLES - 1 && strcmp(social_role_names[role], name) != 0)
		role++;
	return role;
}

static struct store *open_store(const char *name, bool read_only)
{
	struct store *s = stores;

	while (s && strcmp(s->name, name) != 0)
		s = s->next;
	if (s)
		return s;
	s = social.stores == SOCIAL_REAL ? store_redis_open(name)
					 : store_lmdb_open(name, read_only);
	if (!s)
		return NULL;
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	s->counters = &social.counters[role_of(name)];
	s->next = stores;
	stores = s;
	return s;
}

struct store *store_open(const char *name)
{
	return open_store(name, false);
}

struct store *store_open_reader(const char *name)
{
	return open_store(name, true);
}

void store_close_all(void)
{
	while (stores) {
		struct store *s = stores;

		stores = s->next;
		s->kind->close(s);
	}
}
