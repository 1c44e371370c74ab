#include "rpc/method.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/last_error.h"

static uint32_t hash(uint32_t number)
{
	return number * UINT32_C(2654435769) >> 7;
}

static struct lend_method *find_slot(struct lend_method *at, uint32_t cap, uint32_t number)
{
	uint32_t i = hash(number);

	while (at[i & (cap - 1)].used && at[i & (cap - 1)].number != number)
		i++;
	return &at[i & (cap - 1)];
}

static bool grow_table(struct lend_methods *methods)
{
	uint32_t cap = methods->cap ? 2 * methods->cap : 16;
	struct lend_method *at = calloc(cap, sizeof(*at));

	if (!at)
		return false;
	for (uint32_t i = 0; i < methods->cap; i++)
		if (methods->at[i].used)
			*find_slot(at, cap, methods->at[i].number) = methods->at[i];
	free(methods->at);
	methods->at = at;
	methods->cap = cap;
	methods->last = NULL;
	return true;
}

struct lend_method *lend_methods_find_slow(struct lend_methods *methods, uint32_t number)
{
	struct lend_method *method =
	    methods->cap ? find_slot(methods->at, methods->cap, number) : NULL;

	if (!method || !method->used)
		return NULL;
	methods->last = method;
	return method;
}

struct lend_method *lend_methods_add(struct lend_methods *methods, uint32_t number)
{
	struct lend_method *method = lend_methods_find(methods, number);

	if (method)
		return method;
	if (2 * (methods->n + 1) > methods->cap && !grow_table(methods))
		return NULL;
	method = find_slot(methods->at, methods->cap, number);
	*method = (struct lend_method){.number = number, .used = true};
	methods->n++;
	return method;
}

void lend_methods_free(struct lend_methods *methods)
{
	for (uint32_t i = 0; i < methods->cap; i++)
		free(methods->at[i].name);
	free(methods->at);
	*methods = (struct lend_methods){.cap = 0};
}

int lend_method_check(uint32_t number, unsigned flags)
{
	if (flags & ~(unsigned)(LEND_SLOW | LEND_RESERVED | LEND_CHAIN | LEND_OPENS_STREAMS))
		return lend_fail(
		    EINVAL, "method %u: unknown flags 0x%x; LEND_SLOW and LEND_CHAIN are known",
		    number, flags);
	if (flags & LEND_RESERVED || number < LEND_METHOD_RESERVED_FIRST ||
	    number > LEND_METHOD_RESERVED_LAST)
		return 0;
	return lend_fail(EINVAL,
			 "method 0x%x: the numbers 0x%x to 0x%x are Lend's own; choose another, "
			 "such as 1",
			 number, LEND_METHOD_RESERVED_FIRST, LEND_METHOD_RESERVED_LAST);
}
