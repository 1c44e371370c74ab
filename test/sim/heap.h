/* heap - pending events, ordered by (time, sequence); a heap with four children per node. Layer:
 * test/sim. */
#ifndef TEST_SIM_HEAP_H
#define TEST_SIM_HEAP_H

#include <stdint.h>
#include <stdlib.h>

#include "util/check.h"
#include "util/dgram.h"

struct sim_event {
	lend_ns at;
	uint64_t order; /* sequence; the kind is in the low byte */
	uint32_t a, b;
};
struct sim_heap {
	struct sim_event *e;
	uint32_t n, cap;
	uint64_t sequence;
};

/* Branch-free, because the result is unpredictable. */
static inline bool sim_event_before(const struct sim_event *a, const struct sim_event *b)
{
	return (a->at < b->at) | ((a->at == b->at) & (a->order < b->order));
}

static inline void sim_heap_push(struct sim_heap *h, lend_ns at, uint8_t what, uint32_t a,
				 uint32_t b)
{
	struct sim_event e = {at, ++h->sequence << 8 | what, a, b};
	uint32_t i = h->n++, up;

	if (h->n > h->cap) {
		h->cap = h->cap ? 2 * h->cap : 1024;
		h->e = realloc(h->e, h->cap * sizeof(*h->e));
		LEND_CHECK(h->e);
	}
	for (; i > 0 && sim_event_before(&e, &h->e[up = (i - 1) / 4]); i = up)
		h->e[i] = h->e[up];
	h->e[i] = e;
}

/* The heap must not be empty. */
static inline struct sim_event sim_heap_pop(struct sim_heap *h)
{
	struct sim_event top = h->e[0], last = h->e[--h->n];
	uint32_t i = 0, best;

	for (; 4 * i + 1 < h->n; i = best) {
		best = 4 * i + 1;
		for (uint32_t c = best + 1; c < h->n && c < 4 * i + 5; c++)
			if (sim_event_before(&h->e[c], &h->e[best]))
				best = c;
		if (!sim_event_before(&h->e[best], &last))
			break;
		h->e[i] = h->e[best];
	}
	h->e[i] = last;
	return top;
}

#endif
