/* method - table from method number to handler: open addressing, at most half full.
 * Layer: rpc. Threads: filled by the endpoint's thread; workers read their job's entry only.
 * Ownership: the table frees its array; handlers' arguments belong to their owners. */
#ifndef LEND_RPC_METHOD_H
#define LEND_RPC_METHOD_H

#include "lend/rpc.h"

/* Flag of a method: its requests open streams. Other requests do not run. */
enum { LEND_OPENS_STREAMS = 16 };

struct lend_method {
	uint32_t number;
	unsigned flags;
	lend_handler_fn *handler; /* NULL: none */
	void *arg;
	lend_landing_fn *landing; /* landing function of long requests; NULL: the pool */
	void *landing_arg;
	char *name;     /* NULL: none; the table's */
	uint32_t index; /* order of adding, for names that are called */
	bool used;
	bool fast_path; /* an inline handler and no landing function: requests take the fast path */
};

struct lend_methods {
	struct lend_method *at;
	struct lend_method *last; /* entry of the last lookup; NULL: none */
	uint32_t cap;             /* power of two, or 0 */
	uint32_t n;
};

/* Returns the entry of a number, added if it is missing; NULL: no memory. Moves earlier entries. */
struct lend_method *lend_methods_add(struct lend_methods *methods, uint32_t number);
void lend_methods_free(struct lend_methods *methods);
/* Checks the number and flags of lend_serve(): 0 or -EINVAL. */
int lend_method_check(uint32_t number, unsigned flags);
/* Slow path of lend_methods_find(): the number is not that of the last lookup. */
struct lend_method *lend_methods_find_slow(struct lend_methods *methods, uint32_t number);

/* Finds the entry of a number; NULL: it was never added. */
static inline struct lend_method *lend_methods_find(struct lend_methods *methods, uint32_t number)
{
	if (methods->last && methods->last->number == number)
		return methods->last;
	return lend_methods_find_slow(methods, number);
}

#endif
