/* index_pool - which entries of a table are free: a stack of indices.
 * Layer: util. The array of cap indices belongs to the owner and is passed in, so that it can lie
 * in an arena. Nothing is written there before something is given back. */
#ifndef LEND_UTIL_INDEX_POOL_H
#define LEND_UTIL_INDEX_POOL_H

#include <stdint.h>

#include "util/check.h"
#include "util/list.h"

struct lend_pool {
	uint32_t free; /* how many entries of the stack are valid */
	uint32_t cap;
	/* So many of them were never written, for they were never taken: see lend_pool_at(). */
	uint32_t fresh;
};

static inline void lend_pool_init(struct lend_pool *p, uint32_t cap)
{
	*p = (struct lend_pool){.free = cap, .cap = cap, .fresh = cap};
}

/* The i-th of those that are free; the last one goes first, of those never taken index 0. */
static inline uint32_t lend_pool_at(const struct lend_pool *p, const uint32_t *stack, uint32_t i)
{
	return i < p->fresh ? p->cap - 1 - i : stack[i];
}

/* LEND_NONE when all are taken. */
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

/* Indices that were ever taken are below. */
static inline uint32_t lend_pool_top(const struct lend_pool *p)
{
	return p->cap - p->fresh;
}

#endif
