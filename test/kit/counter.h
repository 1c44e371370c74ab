/* counter - a counter of an endpoint by its name. Layer: test. */
#ifndef TEST_KIT_COUNTER_H
#define TEST_KIT_COUNTER_H

#include <criterion/criterion.h>
#include <string.h>

#include "lend/stats.h"

static inline uint64_t counter_of(struct lend_ep *ep, const char *wanted)
{
	const char *name, *meaning;
	uint64_t value;

	for (unsigned i = 0; lend_stats_each(ep, i, &name, &meaning, &value); i++)
		if (strcmp(name, wanted) == 0)
			return value;
	cr_assert_fail("no counter %s", wanted);
	return 0;
}

#endif
