/* handles - spaces by handle, and the snapshots that this client holds, with a count. A node keeps
 * one hold per client, however often the client adopts; the count is kept here.
 * Layer: cn. Threads: the endpoint's. Tables grow by doubling and never shrink. */
#include "cn/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/space_view.h"
#include "cn/pool/pool_client.h"
#include "sys/last_error.h"
#include "util/check.h"

#define NONE UINT32_MAX

static int grow_spaces(struct lend_mem *mem)
{
	uint32_t n = mem->spaces ? mem->spaces * 2 : 64;
	struct cn_space *space = realloc(mem->space, n * sizeof(*space));

	if (!space)
		return lend_fail(ENOMEM, "no memory for another space");
	memset(space + mem->spaces, 0, (n - mem->spaces) * sizeof(*space));
	for (uint32_t i = n; i-- > mem->spaces;) {
		space[i].next = mem->space_free;
		mem->space_free = i;
	}
	mem->space = space;
	mem->spaces = n;
	return 0;
}

int cn_space_take(struct lend_mem *mem, uint32_t *index)
{
	struct cn_space *space;
	int rc;

	if (mem->space_free == NONE) {
		rc = grow_spaces(mem);
		if (rc < 0)
			return rc;
	}
	*index = mem->space_free;
	space = &mem->space[*index];
	mem->space_free = space->next;
	space->gen++;
	space->life = 0;
	space->orphan = space->written = false;
	memset(&space->from, 0, sizeof(space->from));
	return 0;
}

void cn_space_give(struct lend_mem *mem, uint32_t index)
{
	struct cn_space *space = &mem->space[index];

	LEND_CHECK(space->gen & 1);
	cn_view_close(space);
	cn_pool_unshow(mem, space, !space->life || space->life != mem->node[space->node]->life);
	space->gen++;
	space->next = mem->space_free;
	mem->space_free = index;
}

void cn_space_orphan(struct lend_mem *mem, uint32_t index)
{
	struct cn_space *space = &mem->space[index];

	cn_view_close(space); /* FREE means that nothing of it is mapped any more */
	space->orphan = space->life;
	if (!space->orphan) {
		cn_space_give(mem, index);
		return;
	}
	if (mem->orphans++)
		mem->space[mem->orphan_last].next = index;
	else
		mem->orphan_first = index;
	mem->orphan_last = index;
}

uint64_t cn_space_handle(const struct lend_mem *mem, uint32_t index)
{
	return (uint64_t)mem->space[index].gen << 32 | index;
}

struct cn_space *cn_space_get(struct lend_mem *mem, lend_space handle, uint32_t *index)
{
	*index = (uint32_t)handle.id;
	if (*index >= mem->spaces || mem->space[*index].gen != handle.id >> 32 ||
	    !(mem->space[*index].gen & 1) || mem->space[*index].orphan)
		return NULL;
	return &mem->space[*index];
}

/* Hashes the slot, not the serial. A node makes new objects in slots that it freed recently, and
 * then the entry here is one that was used recently, too. */
static uint32_t slot_of(const struct lend_mem *mem, uint32_t slot, uint32_t node)
{
	uint64_t hash = ((uint64_t)slot << 32 ^ node) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(hash >> 32) & (mem->hold_cap - 1);
}

static void put_hold(struct lend_mem *mem, const struct cn_hold *hold)
{
	uint32_t i = slot_of(mem, hold->slot, hold->node);

	while (mem->hold[i].count && mem->hold[i].count != NONE)
		i = (i + 1) & (mem->hold_cap - 1);
	mem->hold_used += mem->hold[i].count == 0;
	mem->hold[i] = *hold;
}

/* Makes room for n more holds without growing: each live operation may add one. */
int cn_hold_reserve(struct lend_mem *mem, uint32_t n)
{
	uint32_t cap = mem->hold_cap, old_cap = mem->hold_cap, kept = 0;
	struct lend_mapping fresh, old = mem->hold_heap;
	const struct cn_hold *was = mem->hold;

	if ((uint64_t)(mem->hold_used + n) * 2 <= cap)
		return 0;
	for (uint32_t i = 0; i < old_cap; i++)
		kept += was[i].count && was[i].count != NONE;
	for (cap = cap ? cap : 256; (uint64_t)(kept + n) * 4 > cap;)
		cap *= 2;
	if (lend_mapping_map(&fresh, cap * sizeof(*was)) < 0)
		return lend_fail(ENOMEM, "no memory for another held reference");
	mem->hold_heap = fresh;
	mem->hold = fresh.base;
	mem->hold_cap = cap;
	mem->hold_used = 0;
	for (uint32_t i = 0; i < old_cap; i++)
		if (was[i].count && was[i].count != NONE)
			put_hold(mem, &was[i]);
	lend_mapping_unmap(&old);
	return 0;
}

struct cn_hold *cn_hold_find(struct lend_mem *mem, const struct lend_memref *ref)
{
	if (!mem->hold_cap)
		return NULL;
	for (uint32_t i = slot_of(mem, ref->slot, ref->node); mem->hold[i].count;
	     i = (i + 1) & (mem->hold_cap - 1)) {
		struct cn_hold *h = &mem->hold[i];

		if (h->count != NONE && h->serial == ref->serial && h->slot == ref->slot &&
		    h->node == ref->node && h->epoch == ref->epoch)
			return h;
	}
	return NULL;
}

void cn_hold_prefetch(const struct lend_mem *mem, const struct lend_memref *ref)
{
	if (mem->hold_cap)
		__builtin_prefetch(&mem->hold[slot_of(mem, ref->slot, ref->node)]);
}

void cn_hold_add(struct lend_mem *mem, const struct lend_memref *ref)
{
	struct cn_hold *have = cn_hold_find(mem, ref);
	struct cn_hold hold = {.serial = ref->serial,
			       .node = ref->node,
			       .epoch = ref->epoch,
			       .slot = ref->slot,
			       .count = 1};

	if (have)
		have->count++;
	else
		put_hold(mem, &hold);
}

void cn_hold_del(struct cn_hold *hold)
{
	hold->count = NONE;
}

void cn_handles_drop(struct lend_mem *mem, uint16_t node)
{
	for (uint32_t i = 0; i < mem->spaces; i++)
		if (mem->space[i].node == node)
			mem->space[i].life = 0;
	for (uint32_t i = 0; i < mem->hold_cap; i++)
		if (mem->hold[i].count && mem->hold[i].node == mem->node[node]->id &&
		    mem->hold[i].slot >> LEND_MEMREF_WORKER_SHIFT == mem->node[node]->worker)
			cn_hold_del(&mem->hold[i]);
}
