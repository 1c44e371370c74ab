/* held - see held.h. */
#include "apps/social/held.h"

#include <stdbool.h>
#include <stdlib.h>

#include "apps/social/blob.h"

enum { BUCKETS_MIN = 256 };

/* Returns where the pointer to the entry of an id is, or would be. */
static struct held **find_link(const struct held_map *map, int64_t id)
{
	uint64_t hash = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32;
	struct held **at = &map->bucket[hash & (map->buckets - 1)];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* Makes room for one more entry. Returns false: no memory. */
static bool grow_map(struct held_map *map)
{
	struct held_map more = {.buckets = map->buckets ? 2 * map->buckets : BUCKETS_MIN};

	if (map->n < map->buckets)
		return true;
	more.bucket = calloc(more.buckets, sizeof(struct held *));
	if (!more.bucket)
		return false;
	for (size_t i = 0; i < map->buckets; i++)
		for (struct held *h = map->bucket[i], *next; h; h = next) {
			next = h->next;
			h->next = NULL;
			*find_link(&more, h->id) = h;
		}
	free(map->bucket);
	map->bucket = more.bucket;
	map->buckets = more.buckets;
	return true;
}

struct held *held_make(int64_t id, size_t n, size_t len)
{
	struct held *h = calloc(1, sizeof(*h) + n * sizeof(*h->ref) + len);

	if (!h)
		return NULL;
	h->id = id;
	h->n = n;
	h->ref = (struct lend_ref *)(h + 1);
	h->bytes = (uint8_t *)(h->ref + n);
	h->bytes_len = len;
	return h;
}

struct held *held_add(struct held_map *map, struct held *held)
{
	struct held **at = grow_map(map) ? find_link(map, held->id) : NULL;

	if (at && !*at) {
		*at = held;
		map->n++;
	}
	return at ? *at : NULL;
}

struct held *held_find(const struct held_map *map, int64_t id)
{
	return map->n ? *find_link(map, id) : NULL;
}

void held_drop(struct held_map *map, struct lend_mem *mem, struct held *held)
{
	struct held **at = find_link(map, held->id);

	*at = held->next;
	map->n--;
	for (size_t i = 0; i < held->n; i++)
		social_blob_drop(mem, &held->ref[i]);
	free(held);
}
