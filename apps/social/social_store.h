/* social_store - durable data of one service behind five asynchronous functions.
 *
 * A value has a key. A list has a key and members, each once, in the order of their scores; equal
 * scores are in the order of members. The completion of an operation runs exactly once, possibly
 * before the function returns; its result is lent until it returns. Keys and bytes are copied.
 *
 * LMDB keeps what ends a turn together, on disk within a second. redis does the same by its
 * append-only file; memcached is a cache in front of it.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_SOCIAL_STORE_H
#define APPS_SOCIAL_SOCIAL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lend/rpc.h"

/* Bytes of a key; members of a list, as a count. */
enum { STORE_KEY_MAX = 128, STORE_ALL = INT32_MAX };

struct store;
struct store_bytes {
	const void *data; /* NULL: there is no such value */
	size_t len;
};
struct store_result {
	enum lend_status status; /* ALREADY_EXISTS: of put; RESOURCE_EXHAUSTED, UNAVAILABLE */
	size_t n;
	const struct store_bytes *value; /* get: one for each key */
	const int64_t *member;           /* range: n members */
};
typedef void store_done_fn(const struct store_result *result, void *arg);

/* Gets the values of n keys. */
void store_get(struct store *store, const char *const key[], size_t n, store_done_fn *done,
	       void *arg);
/* Puts a value; only_new: ends ALREADY_EXISTS if the key has one. */
void store_put(struct store *store, const char *key, struct store_bytes value, bool only_new,
	       store_done_fn *done, void *arg);
/* Adds a member to n lists; a list that has it with this score is unchanged. */
void store_push(struct store *store, const char *const key[], size_t n, int64_t member,
		int64_t score, store_done_fn *done, void *arg);
/* Order of store_range(). */
enum store_order { STORE_OLDEST, STORE_NEWEST };
/* Gets count members of a list, fewer at its end, from the first-th on. */
void store_range(struct store *store, const char *key, size_t first, size_t count,
		 enum store_order order, store_done_fn *done, void *arg);
/* Removes a member from a list. */
void store_pull(struct store *store, const char *key, int64_t member, store_done_fn *done,
		void *arg);

/* Opens the store of a service, "user": DIR/db/user in LMDB, or redis. Services of one process
 * share it. app_die() if it cannot be opened. */
struct store *store_open(const char *name);
/* Opens the store of a service of another process to read it. Returns this process's own if it has
 * it open; NULL: that process has not made it yet. */
struct store *store_open_reader(const char *name);
/* Writes all that is pending, and closes all stores. */
void store_close_all(void);

#endif
