/* suites - the ciphers of lend_seal.so, and their test. Layer: seal, private to the module. */
#ifndef LEND_SEAL_MODULE_SUITES_H
#define LEND_SEAL_MODULE_SUITES_H

#include "seal/suite.h"

extern const struct lend_suite_ops lend_chacha_suite;
/* Returns AES-128-GCM of intel-ipsec-mb, loaded if it is installed; NULL: it is not. */
const struct lend_suite_ops *lend_gcm_load(void);
/* Returns whether a suite reproduces the example of its standard, and refuses a changed tag. */
bool lend_suite_works(const struct lend_suite_ops *suite, enum lend_suite id);

#endif
