/* prioq - a binary heap of small ids by time: earliest first, O(log n) to set, O(1) to read the
 * first. Layer: util. Its two arrays of cap entries belong to the owner. */
#ifndef LEND_UTIL_PRIOQ_H
#define LEND_UTIL_PRIOQ_H

#include <stdint.h>

struct lend_prioq_entry {
	uint64_t key;
	uint32_t id;
	uint32_t zero;
};

struct lend_prioq {
	struct lend_prioq_entry *heap; /* [0, n), every parent no later than its children */
	uint32_t *at;                  /* by id: position in heap + 1; 0: not in the heap */
	uint32_t n;
};

static inline void lend_prioq_place(struct lend_prioq *q, uint32_t i, struct lend_prioq_entry e)
{
	q->heap[i] = e;
	q->at[e.id] = i + 1;
}

static inline void lend_prioq_up(struct lend_prioq *q, uint32_t i, struct lend_prioq_entry e)
{
	while (i > 0 && q->heap[(i - 1) / 2].key > e.key) {
		lend_prioq_place(q, i, q->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	lend_prioq_place(q, i, e);
}

static inline void lend_prioq_down(struct lend_prioq *q, uint32_t i, struct lend_prioq_entry e)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < q->n && q->heap[child + 1].key < q->heap[child].key)
			child++;
		if (child >= q->n || q->heap[child].key >= e.key)
			break;
		lend_prioq_place(q, i, q->heap[child]);
		i = child;
	}
	lend_prioq_place(q, i, e);
}

/* Adds id with this key, or moves it. */
static inline void lend_prioq_set(struct lend_prioq *q, uint32_t id, uint64_t key)
{
	struct lend_prioq_entry e = {.key = key, .id = id};
	uint32_t i = q->at[id] ? q->at[id] - 1 : q->n;

	if (i == q->n)
		q->n++;
	else if (key > q->heap[i].key) {
		lend_prioq_down(q, i, e);
		return;
	}
	lend_prioq_up(q, i, e);
}

static inline void lend_prioq_remove(struct lend_prioq *q, uint32_t id)
{
	uint32_t i = q->at[id] - 1;
	struct lend_prioq_entry last;

	if (q->at[id] == 0)
		return;
	q->at[id] = 0;
	last = q->heap[--q->n];
	if (i == q->n)
		return;
	if (i > 0 && q->heap[(i - 1) / 2].key > last.key)
		lend_prioq_up(q, i, last);
	else
		lend_prioq_down(q, i, last);
}

#endif
