/* fast_mode - the path that short messages take in this run of the tests: LEND_TEST_FAST is never
 * or coin; without it they take the fast path. Layer: test. */
#ifndef TEST_SCEN_FAST_MODE_H
#define TEST_SCEN_FAST_MODE_H

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

static inline uint8_t fast_mode(void)
{
	const char *name = getenv("LEND_TEST_FAST");

	if (!name)
		return LEND_FAST_ALWAYS;
	return strcmp(name, "never") == 0 ? LEND_FAST_NEVER : LEND_FAST_COIN;
}

#endif
