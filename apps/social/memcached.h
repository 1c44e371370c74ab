/* memcached - a cache in front of a store, by memcached's text protocol.
 *
 * A cache that cannot be reached, or does not answer in 100 ms, has no values: the store gets the
 * operation.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_MEMCACHED_H
#define APPS_SOCIAL_MEMCACHED_H

#include "apps/social/social_store.h"

struct memcached;
/* The get of the store behind a cache. */
typedef void memcached_miss_fn(struct store *store, const char *const key[], size_t n,
			       store_done_fn *done, void *arg);

/* Makes a cache of the server whose socket is the address of "memcached"; it connects when it is
 * needed. NULL: the deployment has none. */
struct memcached *memcached_open(void);
void memcached_close(struct memcached *cache);
/* Gets values of n keys, those that are not cached from the store by miss(). */
void memcached_get(struct memcached *cache, struct store *store, memcached_miss_fn *miss,
		   const char *const key[], size_t n, store_done_fn *done, void *arg);
/* Caches a value. cache NULL: does nothing. */
void memcached_set(struct memcached *cache, const char *key, struct store_bytes value);
/* Removes a value. cache NULL: does nothing. */
void memcached_forget(struct memcached *cache, const char *key);

#endif
