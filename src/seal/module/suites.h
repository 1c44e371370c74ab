/* suites - the ciphers and hashes of lend_seal.so, and the test of the ciphers. Layer: seal,
 * private to the module. */
#ifndef LEND_SEAL_MODULE_SUITES_H
#define LEND_SEAL_MODULE_SUITES_H

#include "seal/suite.h"

extern const struct lend_suite_ops lend_chacha_suite;
/* Returns AES-128-GCM of intel-ipsec-mb, loaded if it is installed; NULL: it is not. */
const struct lend_suite_ops *lend_gcm_load(void);
/* Returns whether a suite reproduces the example of its standard, and refuses a changed tag. */
bool lend_suite_works(const struct lend_suite_ops *suite, enum lend_suite id);

/* SHA-256, as in struct lend_seal_ops. start() chooses the processor's instructions or libsodium.
 * Returns false: they disagree. */
bool lend_sha256_start(void);
void lend_sha256(const void *data, size_t len, uint8_t out[LEND_DIGEST]);
void lend_sha256_after(const uint8_t first[LEND_DIGEST], const void *data, size_t len,
		       uint8_t out[LEND_DIGEST]);
void lend_hmac_sha256(const uint8_t key[LEND_KEY], const void *data, size_t len,
		      uint8_t out[LEND_DIGEST]);

#endif
