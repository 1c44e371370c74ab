/* held - see held.h. */
#include "apps/social/held.h"

#include <search.h>
#include <stdlib.h>

#include "apps/social/blob.h"

static int compare_ids(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
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
	struct held **at = tsearch(held, &map->root, compare_ids);

	return at ? *at : NULL;
}

struct held *held_find(const struct held_map *map, int64_t id)
{
	const struct held key = {.id = id};
	struct held **at = tfind(&key, &map->root, compare_ids);

	return at ? *at : NULL;
}

void held_drop(struct held_map *map, struct lend_mem *mem, struct held *held)
{
	tdelete(held, &map->root, compare_ids);
	for (size_t i = 0; i < held->n; i++)
		social_blob_drop(mem, &held->ref[i]);
	free(held);
}

void held_free(struct held_map *map)
{
	tdestroy(map->root, free);
	map->root = NULL;
}
