#include "mn/store/pinned_map.h"

#include <string.h>

#include "mn/store/space.h"
#include "mn/store/page_tree.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"

enum { INDEX_MASK = (1 << 24) - 1 };

static uint32_t find_mapper(const struct lend_store *s, uint64_t key)
{
	for (uint32_t i = 1; key && i <= s->mapper.top; i++)
		if (lend_mapper_at(s, i)->key == key)
			return i;
	return 0;
}

bool lend_store_pool_open(struct lend_store *store, uint64_t key)
{
	uint32_t i;

	LEND_CHECK(key);
	if (find_mapper(store, key))
		return false;
	LEND_TAKE(store, mapper, i);
	if (!i)
		return false;
	*lend_mapper_at(store, i) = (struct lend_mapper){.key = key};
	return true;
}

static void drop_pinned_map(struct lend_store *s, uint32_t map)
{
	struct lend_object *o = lend_object_at(s, map);

	if (o->tie)
		lend_object_at(s, o->tie)->tie = 0;
	if (o->prev)
		lend_object_at(s, o->prev)->next = o->next;
	else
		lend_mapper_at(s, o->client)->pinned_maps = o->next;
	if (o->next)
		lend_object_at(s, o->next)->prev = o->prev;
	s->counts.pinned_maps--;
	lend_object_destroy(s, map);
}

void lend_store_pool_hangup(struct lend_store *store, uint64_t key)
{
	uint32_t i = find_mapper(store, key);

	if (!i)
		return;
	store->free_budget = store->config.reap;
	while (lend_mapper_at(store, i)->pinned_maps) {
		drop_pinned_map(store, lend_mapper_at(store, i)->pinned_maps);
		lend_undo_commit(store);
	}
	lend_mapper_at(store, i)->key = 0;
	LEND_GIVE(store, mapper, i);
}

void lend_pinned_map_detach(struct lend_store *s, uint32_t space, bool unmapped)
{
	uint32_t map = lend_object_at(s, space)->tie;

	if (map && unmapped)
		drop_pinned_map(s, map);
	else if (map)
		lend_object_at(s, map)->tie = 0;
	lend_object_at(s, space)->tie = 0;
}

/* Makes a pinned mapping of the whole space as it is now. Ends the space's earlier pinned mapping:
 * the client has unmapped it. */
static enum lend_mem_status make_pinned_map(struct lend_store *s, uint32_t mapper, uint32_t space)
{
	struct lend_view whole = lend_object_view(s, space), view;
	struct lend_object *o;
	uint32_t i;

	if (!lend_object_room(s))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	LEND_CHECK(lend_tree_share_range(s, &whole, 0, whole.len, &view));
	if (lend_object_at(s, space)->tie)
		drop_pinned_map(s, lend_object_at(s, space)->tie);
	i = lend_object_make(s, &view, LEND_OBJECT_PINNED_MAP);
	o = lend_object_at(s, i);
	o->client = mapper;
	o->tie = space & INDEX_MASK;
	o->next = lend_mapper_at(s, mapper)->pinned_maps;
	if (o->next)
		lend_object_at(s, o->next)->prev = i;
	lend_mapper_at(s, mapper)->pinned_maps = i;
	lend_object_at(s, space)->tie = i & INDEX_MASK;
	s->counts.pinned_maps++;
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_pool_map(struct lend_step *t)
{
	uint32_t mapper = find_mapper(t->s, t->op->target);
	enum lend_mem_status status;

	if (!mapper)
		return LEND_MEM_FAILED_PRECONDITION;
	if (lend_table_room(&t->s->object) < 2)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	status = lend_op_map(t);
	return status ? status : make_pinned_map(t->s, mapper, t->record.slot);
}

enum lend_mem_status lend_op_pool_view(struct lend_step *t)
{
	uint32_t mapper = find_mapper(t->s, t->op->target);
	uint32_t space = lend_op_space(t->s, t->client, &t->op->space), map;

	if (!space)
		return LEND_MEM_NOT_FOUND;
	if (!mapper)
		return LEND_MEM_FAILED_PRECONDITION;
	t->record.slot = space;
	if (t->op->offset == 0)
		return make_pinned_map(t->s, mapper, space);
	map = lend_object_at(t->s, space)->tie;
	return map && lend_object_at(t->s, map)->client == mapper ? LEND_MEM_OK
								  : LEND_MEM_FAILED_PRECONDITION;
}

enum lend_mem_status lend_op_pool_drop(struct lend_step *t)
{
	const struct lend_memspace *name = &t->op->space;
	uint32_t mapper = find_mapper(t->s, t->op->target), map = 0;

	if (mapper && name->epoch == t->s->config.epoch)
		map = lend_object_find(t->s, name->slot, name->serial, LEND_OBJECT_PINNED_MAP);
	if (!map || lend_object_at(t->s, map)->client != mapper)
		return LEND_MEM_NOT_FOUND;
	drop_pinned_map(t->s, map);
	return LEND_MEM_OK;
}

/* Returns how many of n frames follow each other, or are zeros. */
static uint64_t count_run(const uint32_t *frame, uint64_t n)
{
	uint32_t step = *frame != 0;
	uint64_t i = 1;

	while (i < n && frame[i] == frame[i - 1] + step)
		i++;
	return i;
}

/* Adds pages that follow each other, or are zeros. False: no room for another run. */
static bool add_run(struct lend_memview *v, uint32_t frame, uint32_t pages)
{
	struct lend_memextent *last = v->n ? &v->extent[v->n - 1] : NULL;

	if (last && (frame ? last->frame && last->frame + last->pages == frame : !last->frame)) {
		last->pages += pages;
		return true;
	}
	if (v->n == LEND_MEM_EXTENTS_MAX)
		return false;
	v->extent[v->n++] = (struct lend_memextent){frame, pages};
	return true;
}

uint32_t lend_pinned_map_encode(const struct lend_store *s, uint32_t space, uint64_t page,
				uint32_t max, uint8_t *at)
{
	uint32_t map = lend_object_at(s, space)->tie;
	const struct lend_object *o = lend_object_at(s, map);
	struct lend_view view = lend_object_view(s, map);
	struct lend_memview v = {.n = 0};
	const uint32_t *leaf;
	uint64_t end, hole;

	if (!map)
		return lend_memview_encode(&v, at);
	v.pinned_map = (struct lend_memspace){map, s->config.epoch, o->serial};
	v.base = lend_page_rest(s, view.base);
	v.pages = lend_pages_of(s, v.base + view.len);
	if (page >= v.pages)
		return lend_memview_encode(&v, at);
	end = lend_page_at(s, view.base) + v.pages;
	for (uint64_t i = end - v.pages + page, n; i < end && max > 0; i += n) {
		leaf = lend_tree_leaf(s, &view, i, &hole);
		n = lend_min_u64(leaf ? max : hole, end - i);
		if (leaf)
			n = count_run(leaf + (i & (LEND_FAN - 1)),
				      lend_min_u64(n, LEND_FAN - (i & (LEND_FAN - 1))));
		if (!add_run(&v, leaf ? leaf[i & (LEND_FAN - 1)] : 0, (uint32_t)n))
			break;
		max -= leaf ? (uint32_t)n : 1; /* a hole of any length costs as much as a page */
	}
	return lend_memview_encode(&v, at);
}
