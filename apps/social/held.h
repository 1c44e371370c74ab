/* held - what a service keeps for an id: the references that it has adopted.
 *
 * Layer: apps. Threads: one. */
#ifndef APPS_SOCIAL_HELD_H
#define APPS_SOCIAL_HELD_H

#include <stddef.h>
#include <stdint.h>

#include "lend/mem.h"

struct held {
	int64_t id;
	struct held *next; /* in its bucket */
	uint64_t len;
	size_t n;             /* references */
	struct lend_ref *ref; /* references, behind this structure */
	size_t bytes_len;
	uint8_t *bytes; /* the service's, of this memory: such as an encoded post */
};
/* A hash map of ids. Zero it. */
struct held_map {
	struct held **bucket;
	size_t buckets, n; /* buckets: a power of 2, at least n */
};

/* Makes an entry with room for n references and len bytes. NULL: no memory. */
struct held *held_make(int64_t id, size_t n, size_t len);
/* Adds an entry. Returns it, or the one that the map has with its id; NULL: no memory. */
struct held *held_add(struct held_map *map, struct held *held);
/* Returns the entry of an id, or NULL. */
struct held *held_find(const struct held_map *map, int64_t id);
/* Removes an entry from the map, releases its references, and frees it. */
void held_drop(struct held_map *map, struct lend_mem *mem, struct held *held);

#endif
