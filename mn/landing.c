#include "mn/landing.h"

#include <stdlib.h>

#include "util/check.h"

enum { LANDINGS_MAX = 4096 };

/* A message received into frames. FREE (head NULL) -> LANDING -> taken -> FREE */
struct landing {
	struct mn_landings *table;
	const struct lend_buf *head; /* first segment of the chain */
	uint32_t placement;          /* 0: an operation took it */
	uint32_t wraps;
	uint8_t fixed[LEND_MEMOP_FIXED_MAX]; /* the bytes before the payload */
};

struct mn_landings {
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_memory *memory; /* NULL: unknown */
	struct landing landing[LANDINGS_MAX];
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX]; /* scratch */
};

struct mn_landings *mn_landings_open(struct lend_ep *ep, struct lend_store *store)
{
	struct mn_landings *table = calloc(1, sizeof(*table));

	if (table) {
		table->ep = ep;
		table->store = store;
	}
	return table;
}

void mn_landings_set_memory(struct mn_landings *table, struct mn_memory *memory)
{
	table->memory = memory;
}

void mn_landings_close(struct mn_landings *table)
{
	free(table);
}

static struct landing *find_landing(struct mn_landings *table, const struct lend_buf *head)
{
	for (size_t i = 0; i < LANDINGS_MAX; i++)
		if (table->landing[i].head == head)
			return &table->landing[i];
	return NULL;
}

static void landing_released(void *arg)
{
	struct landing *l = arg;

	LEND_CHECK(l->wraps > 0);
	if (--l->wraps)
		return;
	if (l->placement)
		lend_store_unplace(l->table->store, l->placement);
	l->head = NULL;
}

static struct lend_buf *land_at(struct landing *l, void *data, uint64_t len)
{
	struct lend_buf *buf =
	    lend_buf_wrap(l->table->ep, data, (uint32_t)len, landing_released, l);

	l->wraps += buf != NULL;
	return buf;
}

/* Receives the first bytes into the entry, the payload into frames. */
static struct lend_buf *make_landing(struct landing *l, uint32_t fixed,
				     const struct lend_store_seg *seg, uint32_t n)
{
	struct lend_buf *first = land_at(l, l->fixed, fixed), **last;

	if (!first)
		return NULL;
	last = &first->next;
	for (uint32_t i = 0; i < n; i++) {
		if (l->table->memory)
			mn_memory_prepare(l->table->memory, seg[i].data, seg[i].len);
		*last = land_at(l, seg[i].data, seg[i].len);
		if (!*last) {
			lend_buf_give(l->table->ep, first);
			return NULL;
		}
		last = &(*last)->next;
	}
	return first;
}

struct lend_buf *mn_landings_choose(struct mn_landings *table, const struct lend_store_peer *peer,
				    const void *first, uint32_t n, uint64_t len)
{
	struct landing *l = find_landing(table, NULL);
	uint32_t segs = 0, fixed = 0, placement = 0;
	struct lend_buf *chain = NULL;

	if (len > LEND_MEM_PART_MAX + LEND_MEMOP_FIXED_MAX)
		return NULL;
	if (l)
		placement =
		    lend_store_place(table->store, peer, first, n, len, table->seg, &segs, &fixed);
	if (!placement)
		return lend_buf_take(table->ep, (uint32_t)len);
	l->table = table;
	l->placement = placement;
	l->wraps = 1;
	chain = make_landing(l, fixed, table->seg, segs);
	if (chain)
		l->head = chain;
	landing_released(l); /* drops the reference that kept it alive meanwhile */
	return chain;
}

uint32_t mn_landings_take(struct mn_landings *table, const struct lend_buf *message)
{
	struct landing *l = find_landing(table, message);
	uint32_t placement = l ? l->placement : 0;

	if (l)
		l->placement = 0;
	return placement;
}
