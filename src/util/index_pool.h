/* index_pool - free list of table entries: a stack of indices. Layer: util. The array of cap
 * indices belongs to the owner and is passed in, so that it can be part of an arena. It is not
 * written before the first entry is given back. */
#ifndef LEND_UTIL_INDEX_POOL_H
#define LEND_UTIL_INDEX_POOL_H

#include <stdint.h>

#include "util/check.h"
#include "util/list.h"

struct lend_pool {
	uint32_t free; /* how many entries of the stack are valid */
	uint32_t cap;
	/* How many of these were never written, because their entries were never taken: see
	 * lend_pool_at(). */
	uint32_t fresh;
};

static inline void lend_pool_init(struct lend_pool *p, uint32_t cap)
{
	*p = (struct lend_pool){.free = cap, .cap = cap, .fresh = cap};
}

/* Returns the i-th free entry. The last one is taken first; of those never taken, index 0 first. */
static inline uint32_t lend_pool_at(const struct lend_pool *p, const uint32_t *stack, uint32_t i)
{
	return i < p->fresh ? p->cap - 1 - i : stack[i];
}

/* Takes an entry; LEND_NONE when all are taken. */
static inline uint32_t lend_pool_take(struct lend_pool *p, const uint32_t *stack)
{
	if (p->free == 0)
		return LEND_NONE;
	if (--p->free >= p->fresh)
		return stack[p->free];
	p->fresh = p->free;
	return p->cap - 1 - p->free;
}

static inline void lend_pool_give(struct lend_pool *p, uint32_t *stack, uint32_t i)
{
	LEND_CHECK(i < p->cap && p->free < p->cap);
	stack[p->free++] = i;
}

/* Returns an upper bound: all indices ever taken are below it. */
static inline uint32_t lend_pool_top(const struct lend_pool *p)
{
	return p->cap - p->fresh;
}

#endif
