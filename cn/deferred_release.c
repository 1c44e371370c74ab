#include "cn/deferred_release.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"
#include "util/check.h"

enum { BATCH = 256 };
_Static_assert(BATCH <= LEND_MEM_BATCH_MAX, "one call");

int cn_deferred_reserve(struct lend_mem *mem, uint32_t n)
{
	uint64_t needed = (uint64_t)mem->deferred_n + mem->deferred_reserved + n,
		 cap = mem->deferred_cap;
	struct lend_ref *more;

	for (cap = cap ? cap : 64; cap < needed;)
		cap *= 2;
	if (cap > mem->deferred_cap) {
		more = cap <= UINT32_MAX ? realloc(mem->deferred, cap * sizeof(*more)) : NULL;
		if (!more)
			return lend_fail(ENOMEM, "no memory for another argument by reference");
		mem->deferred = more;
		mem->deferred_cap = (uint32_t)cap;
	}
	mem->deferred_reserved += n;
	return 0;
}

void cn_deferred_unreserve(struct lend_mem *mem, uint32_t n)
{
	LEND_CHECK(mem->deferred_reserved >= n);
	mem->deferred_reserved -= n;
}

void cn_deferred_add(struct lend_mem *mem, const struct lend_ref *ref, bool held)
{
	struct lend_memref r;
	struct cn_hold *hold;

	cn_deferred_unreserve(mem, 1);
	cn_ref_in(&r, ref);
	hold = held ? cn_hold_find(mem, &r) : NULL;
	if (held && !hold) /* the node ended our life */
		return;
	if (hold && hold->count > 1) {
		hold->count--;
		return;
	}
	if (hold)
		cn_hold_del(hold);
	mem->deferred[mem->deferred_n++] = *ref;
}

static bool is_of(const struct cn_node *node, const struct lend_ref *ref)
{
	struct lend_memref r;

	cn_ref_in(&r, ref);
	return r.node == node->id &&
	       (lend_memref_worker(&r) == node->worker || lend_memref_worker(&r) >= node->workers);
}

static bool is_known(const struct lend_mem *mem, const struct lend_ref *ref)
{
	for (uint32_t i = 0; i < mem->nodes; i++)
		if (mem->node[i]->greeted && is_of(mem->node[i], ref))
			return true;
	return false;
}

/* Moves up to BATCH references of the node to out. Drops those of a node that no longer exists
 * under its id. */
static uint32_t pick_refs(struct cn_node *node, uint8_t *out)
{
	struct lend_mem *mem = node->mem;
	uint32_t n = 0, kept = 0;

	for (uint32_t i = 0; i < mem->deferred_n; i++) {
		const struct lend_ref *ref = &mem->deferred[i];

		if (n < BATCH && is_of(node, ref))
			memcpy(out + (size_t)n++ * LEND_MEMREF_LEN, ref, LEND_MEMREF_LEN);
		else if (is_known(mem, ref))
			mem->deferred[kept++] = *ref;
	}
	mem->deferred_n = kept;
	return n;
}

void cn_deferred_take(struct cn_node *node)
{
	uint8_t *own = node->mem->deferred_n ? malloc(BATCH * LEND_MEMREF_LEN) : NULL;
	uint64_t id = own ? cn_id_take(node) : 0; /* 0: retried when the pump runs next */
	struct cn_slot *slot = cn_id_slot(node, id);

	if (!id) {
		free(own);
		return;
	}
	slot->kind = LEND_MEMOP_RELEASE;
	slot->refs = own;
	slot->n = pick_refs(node, own);
	if (slot->n)
		cn_forget_mark(node, id);
	else
		cn_id_free(node, id); /* no reference is of this node */
}

void cn_deferred_drop(struct lend_mem *mem)
{
	free(mem->deferred);
}
