/* explore_store - explore_canon.h for the store. Layer: test. */
#include <string.h>

#include "mn/store/lease.h"
#include "mn/store/store.h"
#include "sim/explore/explore_canon.h"

enum {
	NODES_USED = 4
}; /* objects of the explorer have one page, so there are no page table nodes */

static void rebase_time(lend_ns *t, lend_ns now)
{
	if (*t && *t != LEND_NEVER)
		*t = *t - now + EX_NOW;
}

/* Clears free entries except for their link to the next one. */
#define CLEAR_FREE(s, type)                                                                        \
	do {                                                                                       \
		for (uint32_t i = (s)->type.free; i; i = lend_##type##_at(s, i)->next) {           \
			uint32_t next = lend_##type##_at(s, i)->next;                              \
                                                                                                   \
			memset(lend_##type##_at(s, i), 0, sizeof(*lend_##type##_at(s, i)));        \
			lend_##type##_at(s, i)->next = next;                                       \
		}                                                                                  \
	} while (0)

static void canon_records(struct lend_store *s, uint32_t client, lend_ns now)
{
	for (uint32_t k = 0; k < s->config.open; k++) {
		struct lend_record *r = lend_record_at(s, client, k);

		if (r->id == 0 || !lend_client_at(s, client)->incarnation)
			memset(r, 0, sizeof(*r));
		else
			rebase_time(&r->expires, now);
	}
}

void ex_store_canon(struct lend_store *s, lend_ns now)
{
	CLEAR_FREE(s, object);
	CLEAR_FREE(s, hold);
	CLEAR_FREE(s, grant);
	CLEAR_FREE(s, client);
	CLEAR_FREE(s, incarnation);
	CLEAR_FREE(s, placement);
	for (uint32_t i = 1; i <= s->frame.top; i++)
		lend_frame_at(s, i)->gen = 0; /* unused */
	s->free.first = 0;                    /* unused between operations */
	for (uint32_t i = 1; i <= s->grant.top; i++)
		rebase_time(&lend_grant_at(s, i)->expires, now);
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		rebase_time(&lend_incarnation_at(s, i)->expires, now);
	for (uint32_t i = 1; i <= s->client.top; i++)
		canon_records(s, i, now);
	rebase_time(&s->lease_next, now);
	memset((uint32_t *)lend_at(s, s->heap) + s->heap_n, 0,
	       (s->grant.cap - s->heap_n) * sizeof(uint32_t));
}

static struct ex_extent extent_of(const struct lend_store *s, uint64_t at, size_t n, size_t width)
{
	return (struct ex_extent){lend_at(s, at), (uint32_t)(n * width)};
}

uint32_t ex_store_extents(struct lend_store *s, struct ex_extent e[EX_EXTENTS])
{
	uint32_t n = 0;

	e[n++] = (struct ex_extent){&s->counts.spaces, sizeof(s->counts.spaces)};
	e[n++] = (struct ex_extent){&s->config,
				    (uint32_t)(sizeof(*s) - offsetof(struct lend_store, config))};
	e[n++] = extent_of(s, s->frame.at, s->frame.cap + 1, sizeof(struct lend_frame));
	e[n++] = extent_of(s, s->free.any.at[0], (s->sums - s->free.any.at[0]) / sizeof(uint64_t),
			   sizeof(uint64_t));
	e[n++] = extent_of(s, s->node.at, NODES_USED, sizeof(struct lend_node));
	e[n++] = extent_of(s, s->object.at, s->object.cap + 1, sizeof(struct lend_object));
	e[n++] = extent_of(s, s->hold.at, s->hold.cap + 1, sizeof(struct lend_hold));
	e[n++] = extent_of(s, s->grant.at, s->grant.cap + 1, sizeof(struct lend_grant));
	e[n++] = extent_of(s, s->client.at, s->client.cap + 1, sizeof(struct lend_client));
	e[n++] = extent_of(s, s->incarnation.at, s->incarnation.cap + 1,
			   sizeof(struct lend_incarnation));
	e[n++] = extent_of(s, s->placement.at, s->placement.cap + 1, sizeof(struct lend_placement));
	e[n++] = extent_of(s, s->node_refs, NODES_USED, sizeof(uint32_t));
	e[n++] = extent_of(s, s->hold_buckets, s->hold_mask + 1, sizeof(uint32_t));
	e[n++] = extent_of(s, s->client_buckets, s->client_mask + 1, sizeof(uint32_t));
	e[n++] = extent_of(s, s->heap, s->grant.cap, sizeof(uint32_t));
	e[n++] = extent_of(s, s->records, (size_t)s->config.clients * s->config.open,
			   sizeof(struct lend_record));
	e[n++] = extent_of(s, s->tenants, s->config.tenants, sizeof(struct lend_tenant));
	for (uint32_t i = 1; i <= s->frame.cap; i++)
		e[n++] = (struct ex_extent){lend_page(s, i), EX_PAGE_USED};
	return n;
}
