/* core_features - chooses the features that the endpoints of a test announce to their peers. For
 * one file of a program that is linked with --wrap=lend_core_init. */
#ifndef LEND_TEST_E2E_CORE_FEATURES_H
#define LEND_TEST_E2E_CORE_FEATURES_H

#include "core/core.h"

static uint8_t features; /* of the endpoints that are opened from now on; 0: their own */

struct lend_core *__real_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now);
struct lend_core *__wrap_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now);
struct lend_core *__wrap_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now)
{
	struct lend_core_config own = *config;

	own.features = features ? features : own.features;
	return __real_lend_core_init(mem, &own, now);
}

#endif
