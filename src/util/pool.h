/* pool - which entries of a table are free: a stack of indices.
 * Layer: util. The array of cap indices belongs to the owner and is passed in, so that it can lie
 * in an arena. */
#ifndef LEND_UTIL_POOL_H
#define LEND_UTIL_POOL_H

#include <stdint.h>

#include "util/check.h"
#include "util/list.h"

struct lend_pool {
	uint32_t free; /* how many entries of the array are valid */
	uint32_t cap;
};

static inline void lend_pool_init(struct lend_pool *p, uint32_t *stack, uint32_t cap)
{
	p->cap = cap;
	p->free = cap;
	for (uint32_t i = 0; i < cap; i++)
		stack[i] = cap - 1 - i; /* index 0 goes first */
}

/* LEND_NONE when all are taken. */
static inline uint32_t lend_pool_take(struct lend_pool *p, const uint32_t *stack)
{
	return p->free ? stack[--p->free] : LEND_NONE;
}

static inline void lend_pool_give(struct lend_pool *p, uint32_t *stack, uint32_t i)
{
	LEND_CHECK(i < p->cap && p->free < p->cap);
	stack[p->free++] = i;
}

#endif
