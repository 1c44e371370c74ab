/* store_kind - what a kind of store implements: LMDB, redis.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_STORE_KIND_H
#define APPS_SOCIAL_STORE_KIND_H

#include "apps/social/social.h"
#include "apps/social/social_store.h"

struct store_kind {
	void (*get)(struct store *, const char *const key[], size_t n, store_done_fn *, void *arg);
	void (*put)(struct store *, const char *key, struct store_bytes value, bool only_new,
		    store_done_fn *, void *arg);
	void (*push)(struct store *, const char *const key[], size_t n, int64_t member,
		     int64_t score, store_done_fn *, void *arg);
	void (*range)(struct store *, const char *key, size_t first, size_t count, enum store_order,
		      store_done_fn *, void *arg);
	void (*pull)(struct store *, const char *key, int64_t member, store_done_fn *, void *arg);
	void (*close)(struct store *);
};

/* A store begins with this. */
struct store {
	const struct store_kind *kind;
	struct store *next;
	char name[32];
	struct social_counters *counters; /* of the role with this name */
};

/* Counts the time inside a store's function that began then, before its completion runs. */
static inline void store_spend(struct store *store, lend_ns began)
{
	store->counters->store_ns += lend_now(social.ep) - began;
}

/* read_only: returns NULL if no process has made the store yet. */
struct store *store_lmdb_open(const char *name, bool read_only);
struct store *store_redis_open(const char *name);

#endif
