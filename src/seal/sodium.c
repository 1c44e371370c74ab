/* sodium - struct lend_seal_ops over libsodium. Layer: seal. */
#include <errno.h>
#include <sodium.h>

#include "seal/seal.h"

_Static_assert(crypto_hash_sha256_BYTES == LEND_DIGEST, "SHA-256");
_Static_assert(crypto_auth_hmacsha256_KEYBYTES == LEND_KEY, "HMAC-SHA-256");
_Static_assert(crypto_pwhash_argon2id_SALTBYTES == LEND_SALT, "Argon2id");

enum { PASSES = 2, MEMORY = 64 << 20 };

static int init_sodium(void)
{
	return sodium_init() < 0 ? -ENODEV : 0;
}

static void sha256(const void *data, size_t len, uint8_t out[LEND_DIGEST])
{
	(void)crypto_hash_sha256(out, data, len);
}

static void hmac_sha256(const uint8_t key[LEND_KEY], const void *data, size_t len,
			uint8_t out[LEND_DIGEST])
{
	(void)crypto_auth_hmacsha256(out, data, len, key);
}

static int stretch_text(const char *text, size_t len, const uint8_t salt[LEND_SALT],
			uint8_t key[LEND_KEY])
{
	int rc = crypto_pwhash_argon2id(key, LEND_KEY, text, len, salt, PASSES, MEMORY,
					crypto_pwhash_argon2id_ALG_ARGON2ID13);

	return rc ? -ENOMEM : 0;
}

__attribute__((visibility("default"))) extern const struct lend_seal_ops lend_seal_ops;
const struct lend_seal_ops lend_seal_ops = {init_sodium, sha256, hmac_sha256, stretch_text};
