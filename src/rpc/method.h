/* method - which handler serves which number: open addressing, at most half full.
 * Layer: rpc. Threads: filled by the endpoint's thread; workers read their job's entry only.
 * Ownership: the table frees its array; handlers' arguments are their owners'. */
#ifndef LEND_RPC_METHOD_H
#define LEND_RPC_METHOD_H

#include "lend/rpc.h"

struct lend_method {
	uint32_t number;
	unsigned flags;
	lend_handler *handler; /* NULL: none */
	void *arg;
	lend_place *place; /* of long requests; NULL: the pool */
	void *place_arg;
	bool used;
};

struct lend_methods {
	struct lend_method *at;
	uint32_t cap; /* power of two, or 0 */
	uint32_t n;
};

/* The entry of a number, made if it is not there; NULL: no memory. Moves earlier entries. */
struct lend_method *lend_methods_add(struct lend_methods *methods, uint32_t number);
void lend_methods_free(struct lend_methods *methods);

static inline uint32_t lend_methods_hash(uint32_t number)
{
	return number * UINT32_C(2654435769) >> 7;
}

/* NULL: nobody ever named this number. */
static inline struct lend_method *lend_methods_find(const struct lend_methods *methods,
						    uint32_t number)
{
	uint32_t mask = methods->cap - 1, i = lend_methods_hash(number);

	if (!methods->cap)
		return NULL;
	for (;; i++) {
		struct lend_method *method = &methods->at[i & mask];

		if (!method->used)
			return NULL;
		if (method->number == number)
			return method;
	}
}

#endif
