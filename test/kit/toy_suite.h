/* toy_suite - cryptography for tests: fast, the same everywhere, and worth nothing. Layer: test. */
#ifndef TEST_KIT_TOY_SUITE_H
#define TEST_KIT_TOY_SUITE_H

#include "seal/suite.h"

extern const struct lend_suite_ops lend_toy_suite;
extern const struct lend_seal_ops lend_toy_ops; /* LEND_SUITE_TEST only; no dh(), random() */

#endif
