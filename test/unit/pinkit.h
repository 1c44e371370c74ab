/* pinkit - the views that a store gave a process to map, and what that process sees there. Layer:
 * test. Everything is static: a test includes it and uses what it needs. */
#ifndef TEST_UNIT_PINKIT_H
#define TEST_UNIT_PINKIT_H

#include "unit/storekit.h"

enum { PAGE = LEND_MEM_PAGE };

/* The view in the answer to a POOL_MAP or POOL_VIEW. */
KIT struct lend_memview pinned_view(struct kit *k, uint32_t at)
{
	struct lend_memview v;

	cr_assert(lend_memview_decode(k->out.head + at, k->out.len - at, &v));
	return v;
}

KIT enum lend_mem_status pinned_op(struct kit *k, struct client *w, uint8_t kind,
				   const struct lend_memspace *space, uint64_t page, uint64_t key)
{
	struct lend_memop op = {.kind = kind, .space = *space, .offset = page, .target = key};

	if (kind == LEND_MEMOP_FREE)
		op.offset = op.target = 0;
	if (kind == LEND_MEMOP_POOL_DROP)
		op.offset = 0;
	return kit_do(k, w, &op, NULL);
}

/* The byte that a mapping of the view's page i shows. */
KIT uint8_t pinned_seen(struct kit *k, const struct lend_memview *v, uint32_t i)
{
	for (uint32_t e = 0; e < v->n; i -= v->extent[e++].pages)
		if (i < v->extent[e].pages)
			return *((uint8_t *)k->pages +
				 (v->extent[e].frame ? v->extent[e].frame + i : 0) * PAGE);
	cr_assert_fail("page %u is not shown", i);
	return 0;
}

#endif
