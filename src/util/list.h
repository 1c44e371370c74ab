/* list - doubly linked lists of table entries, by index instead of pointer.
 *
 * An entry holds a struct lend_link; the caller passes the address of entry 0's link and the
 * stride. So a table can be copied or hashed as bytes. Layer: util. Lives by value in its owner. */
#ifndef LEND_UTIL_LIST_H
#define LEND_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/check.h"

#define LEND_NONE UINT32_MAX

struct lend_link {
	uint32_t next, prev; /* LEND_NONE at the ends */
	uint32_t in;         /* 1 while on a list */
};

struct lend_list {
	uint32_t head, tail; /* LEND_NONE while empty */
	uint32_t n;
};

/* Location of the links of a table. */
struct lend_links {
	void *first;
	size_t stride;
};

static inline struct lend_link *lend_link_at(struct lend_links l, uint32_t i)
{
	return (struct lend_link *)(void *)((char *)l.first + (size_t)i * l.stride);
}

static inline void lend_list_init(struct lend_list *l)
{
	l->head = LEND_NONE;
	l->tail = LEND_NONE;
	l->n = 0;
}

static inline void lend_list_push(struct lend_list *l, struct lend_links t, uint32_t i)
{
	struct lend_link *e = lend_link_at(t, i);

	LEND_CHECK(!e->in);
	e->next = LEND_NONE;
	e->prev = l->tail;
	e->in = 1;
	if (l->tail == LEND_NONE)
		l->head = i;
	else
		lend_link_at(t, l->tail)->next = i;
	l->tail = i;
	l->n++;
}

/* Inserts entry i after entry `at`; LEND_NONE: at the front. */
static inline void lend_list_push_after(struct lend_list *l, struct lend_links t, uint32_t at,
					uint32_t i)
{
	struct lend_link *e = lend_link_at(t, i);
	uint32_t *next = at == LEND_NONE ? &l->head : &lend_link_at(t, at)->next;

	LEND_CHECK(!e->in);
	e->prev = at;
	e->next = *next;
	e->in = 1;
	*next = i;
	if (e->next == LEND_NONE)
		l->tail = i;
	else
		lend_link_at(t, e->next)->prev = i;
	l->n++;
}

/* Removes an entry; does nothing if it is on no list. */
static inline void lend_list_remove(struct lend_list *l, struct lend_links t, uint32_t i)
{
	struct lend_link *e = lend_link_at(t, i);

	if (!e->in)
		return;
	if (e->prev == LEND_NONE)
		l->head = e->next;
	else
		lend_link_at(t, e->prev)->next = e->next;
	if (e->next == LEND_NONE)
		l->tail = e->prev;
	else
		lend_link_at(t, e->next)->prev = e->prev;
	e->in = 0;
	l->n--;
}

/* Removes and returns the first entry; LEND_NONE when empty. */
static inline uint32_t lend_list_pop(struct lend_list *l, struct lend_links t)
{
	uint32_t i = l->head;
	struct lend_link *e;

	if (i == LEND_NONE)
		return i;
	e = lend_link_at(t, i);
	l->head = e->next;
	if (e->next == LEND_NONE)
		l->tail = LEND_NONE;
	else
		lend_link_at(t, e->next)->prev = LEND_NONE;
	e->in = 0;
	l->n--;
	return i;
}

#endif
